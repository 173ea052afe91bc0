//! Taking servers out of service and bringing them back: the pages that change something.

use std::sync::Arc;

use serde_json::{Value, json};
use sluice_control::{Service, ShownPlace, Status, Unknown};
use sluice_engine::{Report, ReportAnswer};
use sluice_message::RequestHead;
use sluice_message::pair::decoded;

/// A page that takes a server out, or brings it back: `/upstreams/{name}/servers/{address}/drain`.
pub(crate) struct Switch {
    pub(crate) status: Arc<Status>,
    pub(crate) service: Service,
}

impl Report for Switch {
    fn report(&self, head: &RequestHead) -> ReportAnswer {
        // Every page in a browser on this machine can send a POST to loopback, but none without
        // telling where it came from (Fetch standard, 3.1).
        if head.fields.values_of(b"origin").next().is_some() {
            return answer(403, &json!({ "error": "pages of a browser may not do this" }));
        }
        let mut segments = head.path().split(|&byte| byte == b'/').skip(2).step_by(2);
        let mut segment = || segments.next().map(unescaped).unwrap_or_default();
        let (upstream, server) = (segment(), segment());
        match self.status.serve(&upstream, &server, self.service) {
            Ok(places) => {
                let places = places.iter().map(place).collect::<Value>();
                answer(200, &json!({ "upstream": upstream, "servers": places }))
            }
            Err(Unknown::Upstream(known)) => {
                let error = format!("there is no upstream \"{upstream}\"");
                answer(404, &json!({ "error": error, "upstreams": known }))
            }
            Err(Unknown::Server(known)) => {
                let error = format!("the upstream \"{upstream}\" has no server \"{server}\"");
                answer(404, &json!({ "error": error, "servers": known }))
            }
        }
    }
}

fn answer(status: u16, document: &Value) -> ReportAnswer {
    ReportAnswer { status, ..crate::json::answer(document) }
}

fn place(place: &ShownPlace) -> Value {
    json!({
        "address": place.address,
        "available": place.state.is_available(),
        "out": place.state.reasons(),
        "active": place.meter.balance(|meter| meter.active.value()),
    })
}

/// What a segment of a path stands for (RFC 3986, 2.1): unlike in a query, `+` is itself.
fn unescaped(segment: &[u8]) -> String {
    let plus = |&byte: &u8| if byte == b'+' { b"%2B".to_vec() } else { vec![byte] };
    let bytes: Vec<u8> = segment.iter().flat_map(plus).collect();
    String::from_utf8_lossy(&decoded(&bytes).collect::<Vec<u8>>()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_stand_for_names() {
        for (segment, name) in [
            ("unix:%2Frun%2Fa.sock", "unix:/run/a.sock"),
            ("[::1]:80", "[::1]:80"),
            ("a+b%20c", "a+b c"),
            ("", ""),
        ] {
            assert_eq!(unescaped(segment.as_bytes()), name);
        }
    }
}
