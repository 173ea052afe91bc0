//! Calls that are tried again because of how they ended.

use std::future::pending;
use std::time::Duration;

use sluice_upstream::{Cluster, Server};

use super::upload::Upload;
use crate::exchange::{Exchange, Stop};
use crate::waiting::Unserved;

/// A server may ask for so much patience before the call is tried again; who asks for more is not asked
/// again, and the client hears of it.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What a server says about trying again (gRPC A6, "Pushback").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pushback {
    /// Nothing, or how long to wait.
    After(Duration),
    /// It is not to be done.
    Never,
}

impl Pushback {
    /// What is no number of milliseconds means that there is to be no other try.
    fn of(value: Option<&[u8]>) -> Self {
        let Some(value) = value else { return Self::After(Duration::ZERO) };
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u32>().ok());
        number.map_or(Self::Never, |number| Self::After(Duration::from_millis(number.into())))
    }
}

impl Exchange<'_, '_> {
    /// Whether the request is a call that may be tried again because of how it ended. Whoever names the
    /// ends after which that is done says that it does no harm then: all calls are POST requests.
    pub(super) fn is_repeatable_call(&self, cluster: &Cluster) -> bool {
        self.call.is_some() && !cluster.settings().retry.on.calls().is_empty()
    }

    /// Whether the call has ended in a way to try it again after, and its server lets us. Only when
    /// nothing else has come of the answer (gRPC A6, "Trailers-Only").
    #[cold]
    pub(super) fn is_refused_call(&self, cluster: &Cluster, upload: &Upload) -> bool {
        let calls = cluster.settings().retry.on.calls();
        if calls.is_empty() || upload.is_gone() {
            return false;
        }
        let left = self.within_call(Some(LONGEST_PAUSE)).unwrap_or(LONGEST_PAUSE);
        let soon = match self.pushback() {
            Pushback::After(pause) => pause <= left,
            Pushback::Never => false,
        };
        soon && self.status_alone().is_some_and(|status| calls.has(status))
    }

    fn pushback(&self) -> Pushback {
        Pushback::of(self.response.fields.values_of(b"grpc-retry-pushback-ms").next())
    }

    /// Takes note of a call that is tried again, and waits as long as the server asks for.
    pub(super) async fn note_refused_call(
        &mut self,
        cluster: &Cluster,
        server: &Server,
    ) -> Result<(), Stop> {
        self.end_call(cluster, Some(server), None);
        match self.pushback() {
            Pushback::After(Duration::ZERO) | Pushback::Never => Ok(()),
            Pushback::After(pause) => match self.wait_for(pause, pending::<()>()).await {
                Err(Unserved::Gone(fault)) => Err(fault.into()),
                _ => Ok(()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_say_how_long_to_wait() {
        let after = |ms| Pushback::After(Duration::from_millis(ms));
        let rows = [
            (None, after(0)),
            (Some("0"), after(0)),
            (Some("250"), after(250)),
            (Some("-1"), Pushback::Never),
            (Some("soon"), Pushback::Never),
            (Some(""), Pushback::Never),
            (Some("99999999999"), Pushback::Never),
        ];
        for (value, expected) in rows {
            assert_eq!(Pushback::of(value.map(str::as_bytes)), expected, "{value:?}");
        }
    }
}
