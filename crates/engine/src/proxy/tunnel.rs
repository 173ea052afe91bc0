//! Protocols that a request switches to: two pipes.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use sluice_conn::h2::ClientStream;
use sluice_conn::{PipeLimits, Relay, Upstream, tunnel};
use sluice_message::{
    BodyLength, Fault, FaultKind, FieldId, Persistence, RequestHead, ResponseHead, Retry, Span,
    Syntax, Version,
};
use sluice_meter::TunnelMeter;
use sluice_upstream::Cluster;
use sluice_wire::h1::Upgrade;
use sluice_wire::websocket;

use crate::exchange::{After, Exchange, Stop, exhausted};
use crate::patience::end_after;

const KEY: &[u8] = b"sec-websocket-key";
const ACCEPT: &[u8] = b"sec-websocket-accept";

/// A tunnel is counted as open for as long as this lives.
struct Open<'m>(&'m TunnelMeter);

impl<'m> Open<'m> {
    fn new(meter: &'m TunnelMeter) -> Self {
        meter.opened.increment();
        meter.open.add(1);
        Self(meter)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.add(-1);
    }
}

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
        let websocket = asks_for_websocket(self.request);
        let mut body = BodyLength::Empty;
        if !self.downstream.is_own() {
            agree(self.request, self.response)?;
            body = BodyLength::UntilClose;
        }
        self.status = self.response.status;
        let downstream = &mut *self.downstream;
        let mut framing = downstream.framing(body, Persistence::KeepAlive, None);
        framing.upgrade = Upgrade::Yes;
        downstream.send_head(self.response, &framing);
        downstream.become_pipe();
        upstream.become_pipe();
        let up = Relay {
            source: downstream.channel,
            receiver: &mut *downstream.receiver,
            sink: upstream.channel.lend(),
            sender: &mut *upstream.sender,
        };
        let down = Relay {
            source: upstream.channel.lend(),
            receiver: &mut *upstream.receiver,
            sink: downstream.channel,
            sender: &mut *downstream.sender,
        };
        let settings = cluster.settings();
        let end = end_after(settings.tunnel_lifetime);
        let meter = &cluster.meter().tunnels;
        let _open = Open::new(if websocket { &meter.websocket } else { &meter.other });
        let limits = PipeLimits { idle: settings.tunnel_timeout, end };
        let ended = tunnel(up, down, downstream.deadline, limits).await;
        // A pipe ends as it likes; only an end without a word is worth noting.
        self.fault = ended.err().map(Fault::downstream);
        Ok(match ended {
            Ok(()) | Err(FaultKind::TimedOut) => After::Close,
            // Whoever is still there must not take what came for all there was.
            Err(_) => After::Abort,
        })
    }

    /// Asks an origin that speaks HTTP/1.1 for WebSocket, as its client has asked in another way: what
    /// the protocols of the two have no common word for is said here (RFC 8441, 5; RFC 6455, 4.1).
    #[cold]
    pub(super) fn ask_for_websocket(&mut self) -> Result<(), Fault> {
        let random = || RandomState::new().hash_one(self.worker.index).to_ne_bytes();
        let mut nonce = [0; 16];
        for (place, byte) in nonce.iter_mut().zip(random().into_iter().chain(random())) {
            *place = byte;
        }
        let fields = &mut self.request.fields;
        fields.remove_read_as(KEY);
        let pushed = fields.push(b"upgrade", b"websocket");
        pushed.and_then(|()| fields.push(KEY, &websocket::key(nonce))).map_err(|_| exhausted())
    }
}

/// Whether a stream to an origin is to become a pipe for this request: only WebSocket has a word for it.
///
/// # Errors
/// The origin does not take such requests.
#[cold]
pub(super) fn ask(request: &RequestHead, stream: &ClientStream) -> Result<Upgrade, Fault> {
    if !asks_for_websocket(request) || request.fields.values_of(KEY).next().is_none() {
        return Ok(Upgrade::No);
    }
    match stream.may_be_pipe() {
        true => Ok(Upgrade::Yes),
        false => Err(Fault::upstream(FaultKind::UpgradeRefused, Retry::Never)),
    }
}

/// Says an origin's agreement to an extended CONNECT (RFC 8441, 5) in the words of HTTP/1.1, which are
/// those the rest of the gateway understands.
#[cold]
pub(super) fn translate(request: &RequestHead, response: &mut ResponseHead) -> Result<(), Fault> {
    if !(200..=299).contains(&response.status) {
        return Ok(());
    }
    response.status = 101;
    response.reason = Span::default();
    let key = request.fields.values_of(KEY).next().unwrap_or_default();
    let fields = &mut response.fields;
    fields.remove_named(|name| name.eq_ignore_ascii_case(ACCEPT));
    let pushed = fields.push(b"upgrade", b"websocket");
    let accept = websocket::accept(key);
    pushed.and_then(|()| fields.push(ACCEPT, &accept)).map_err(|_| exhausted())
}

/// Makes the origin's agreement one to an extended CONNECT, if it is one to what was asked.
fn agree(request: &RequestHead, response: &mut ResponseHead) -> Result<(), Fault> {
    let key = request.fields.values_of(KEY).next().unwrap_or_default();
    let accept = websocket::accept(key);
    let fields = &response.fields;
    let one = fields.values_of(ACCEPT).count() == 1;
    let accepted = one && fields.values_of(ACCEPT).all(|value| value == &*accept);
    if !accepted || !fields.lists(FieldId::Upgrade, b"websocket") {
        let fault = FaultKind::Malformed(Syntax::Upgrade);
        return Err(Fault::upstream(fault, Retry::Never));
    }
    response.status = 200;
    response.reason = Span::default();
    response.fields.remove_named(|name| name.eq_ignore_ascii_case(ACCEPT));
    Ok(())
}

fn asks_for_websocket(head: &RequestHead) -> bool {
    head.fields.lists(FieldId::Upgrade, b"websocket")
}

/// Whether the client asks for another protocol: in HTTP/1.1 only without content, which would have to
/// be sent before the switch (RFC 9110, 7.8); in HTTP/2 by an extended CONNECT.
pub(super) fn wants_upgrade(head: &RequestHead) -> Upgrade {
    let asked = match head.version {
        Version::Http11 => {
            head.body == BodyLength::Empty
                && head.fields.value(FieldId::Upgrade).is_some()
                && head.fields.lists(FieldId::Connection, b"upgrade")
        }
        Version::Http2 => !head.protocol.is_empty(),
        Version::Http10 => false,
    };
    if asked { Upgrade::Yes } else { Upgrade::No }
}

/// Whether an origin's answer refuses what the client of an extended CONNECT would take for a tunnel
/// (RFC 8441, 5): success without a switch.
pub(super) fn is_hollow(request: &RequestHead, status: u16) -> bool {
    !request.protocol.is_empty() && (200..=299).contains(&status)
}
