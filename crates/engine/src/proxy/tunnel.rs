//! Protocols that a request switches to: two pipes.

use sluice_conn::{Channel, Relay, Upstream, tunnel};
use sluice_message::{
    BodyLength, Fault, FaultKind, FieldId, Persistence, RequestHead, Retry, Syntax, Version,
};
use sluice_upstream::Cluster;
use sluice_wire::h1::Upgrade;

use crate::exchange::{After, Exchange, Stop};

impl Exchange<'_, '_> {
    /// After 101: from here on the connection is a pipe (RFC 9110, 7.8).
    pub(super) async fn switch_protocols(
        &mut self,
        cluster: &Cluster,
        upgrade: Upgrade,
        upstream: &mut Upstream<'_>,
    ) -> Result<After, Stop> {
        if upgrade == Upgrade::No {
            let fault = FaultKind::Malformed(Syntax::StatusLine);
            return Err(Fault::upstream(fault, Retry::Never).into());
        }
        self.status = 101;
        let downstream = &mut *self.downstream;
        let mut framing = downstream.framing(BodyLength::Empty, Persistence::KeepAlive, None);
        framing.upgrade = Upgrade::Yes;
        downstream.send_head(self.response, &framing);
        downstream.become_pipe();
        upstream.become_pipe();
        let up = Relay {
            source: downstream.channel,
            receiver: &mut *downstream.receiver,
            sink: Channel::Own(&upstream.stream),
            sender: &mut *upstream.sender,
        };
        let down = Relay {
            source: Channel::Own(&upstream.stream),
            receiver: &mut *upstream.receiver,
            sink: downstream.channel,
            sender: &mut *downstream.sender,
        };
        let ended = tunnel(up, down, downstream.deadline, cluster.settings().tunnel_timeout).await;
        // A pipe ends as it likes; only an end without a word is worth noting.
        self.fault = ended.err().map(Fault::downstream);
        Ok(After::Close)
    }
}

/// Whether the client asks for another protocol: only HTTP/1.1 can, and only without content, which
/// would have to be sent before the switch (RFC 9110, 7.8).
pub(super) fn wants_upgrade(head: &RequestHead) -> Upgrade {
    let asked = head.version == Version::Http11
        && head.body == BodyLength::Empty
        && head.fields.value(FieldId::Upgrade).is_some()
        && head.fields.lists(FieldId::Connection, b"upgrade");
    if asked { Upgrade::Yes } else { Upgrade::No }
}
