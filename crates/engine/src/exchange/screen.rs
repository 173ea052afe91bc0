//! What is put right in a request head before it is routed.

use sluice_message::{AmbiguousHeaders, Fault, FaultKind, FieldId, Syntax, is_plain_name};

use super::{Exchange, exhausted};
use crate::answer::Level;

impl Exchange<'_, '_> {
    /// Nearly every head is as it has to be: that costs two comparisons.
    #[inline(always)]
    pub(super) fn screen(&mut self) -> Result<(), Fault> {
        if self.request.fields.is_ambiguous() {
            self.screen_names()?;
        }
        if self.request.authority.is_empty() { self.name_authority() } else { Ok(()) }
    }

    /// Does with headers whose names origins may take for other ones what the listener says.
    #[cold]
    #[inline(never)]
    fn screen_names(&mut self) -> Result<(), Fault> {
        let rule = self.scope.listener.ambiguous_headers;
        let refused = |_| Fault::downstream(FaultKind::Malformed(Syntax::FieldName));
        let dropped = self.request.fields.screen(rule).map_err(refused)?;
        if dropped == 0 {
            return Ok(());
        }
        let meter = self.connection.listener.meter();
        let counter = match rule {
            AmbiguousHeaders::Keep => &meter.dropped_lookalikes,
            _ => &meter.dropped_ambiguous,
        };
        let first = counter.value() == 0;
        counter.add(dropped);
        // Once: clients could fill the log with them.
        if first {
            let fields = &self.request.fields;
            let gone = fields.lines().iter().filter(|line| line.id == FieldId::Removed);
            let name = gone.map(|line| fields.slice(line.name)).find(|name| !is_plain_name(name));
            let name = name.unwrap_or_default().escape_ascii();
            let (listener, client) = (&self.scope.listener.name, self.client);
            let line = format_args!(
                "listener {listener}: header \"{name}\" of client {client} dropped, since servers may take its name \
                 for another one (ambiguous_headers); further ones are counted in \
                 sluice_listener_dropped_headers_total"
            );
            self.worker.fault_log.write(Level::Info, line);
        }
        Ok(())
    }

    /// A request of HTTP/1.0 need not say which host it is for. RFC 9112, 3.3 replaces an empty authority by one that
    /// fits the connection before anything is done with it: the address that the client connected to.
    #[cold]
    #[inline(never)]
    fn name_authority(&mut self) -> Result<(), Fault> {
        let default = if self.connection.security.is_some() { 443 } else { 80 };
        let authority = match self.connection.ends().map(|ends| ends.destination) {
            Some(own) if own.port() != default => own.to_string(),
            Some(own) if own.is_ipv6() => format!("[{}]", own.ip()),
            Some(own) => own.ip().to_string(),
            None => "localhost".to_owned(),
        };
        self.request.set_authority(authority.as_bytes()).map_err(|_| exhausted())
    }
}
