//! Checks by calls: a server gets requests while it says that the service is served.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use sluice_acceptance::http2_origin::{Deed, Http2Origin, Request};
use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{Sluice, get};

/// `HealthCheckRequest { service: "shop.Orders" }`.
const QUESTION: &[u8] = b"\0\0\0\0\x0d\x0a\x0bshop.Orders";

fn field<'r>(request: &'r Request, name: &str) -> &'r str {
    let found = request.fields.iter().find(|(known, _)| known == name);
    found.map_or("", |(_, value)| value.as_str())
}

#[test]
fn a_server_says_itself_whether_it_serves() {
    let says = Arc::new(AtomicU8::new(1));
    let of_origin = Arc::clone(&says);
    let origin = Http2Origin::start(move |request| {
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/grpc.health.v1.Health/Check")
        );
        assert_eq!(field(request, "content-type"), "application/grpc");
        assert_eq!(field(request, "te"), "trailers");
        assert_eq!(request.content, QUESTION);
        let kind = vec![("content-type", "application/grpc")];
        match of_origin.load(Ordering::SeqCst) {
            0 => Deed::Answer(200, [kind, vec![("grpc-status", "5")]].concat(), vec![], vec![]),
            said => {
                let content = vec![0, 0, 0, 0, 2, 8, said];
                Deed::Answer(200, kind, content, vec![("grpc-status", "0")])
            }
        }
    });
    let address = origin.address();
    let upstream = format!(
        "[upstream.api]\nservers = \"{address}\"\nprotocol = \"http2\"\n\
         health = {{ grpc = true, service = \"shop.Orders\", interval = \"10ms\", healthy = 1, \
         unhealthy = 1, initial = \"unhealthy\" }}\n\n[[route]]\nproxy = \"api\"\n"
    );
    let sluice = Sluice::start(&config(&upstream));
    let sample = format!("sluice_server_available{{upstream=\"api\",server=\"{address}\"}}");
    let available = || metric(&sluice.admin(), &sample) == 1;
    assert!(eventually(available));
    for (said, reason) in [
        (2, "unhealthy: not serving"),
        (3, "unhealthy: service unknown"),
        (0, "unhealthy: gRPC status not_found"),
    ] {
        says.store(said, Ordering::SeqCst);
        let told = || get(&sluice.admin(), "/upstreams").text().contains(reason);
        assert!(eventually(told), "{reason}");
        assert!(!available());
    }
    says.store(1, Ordering::SeqCst);
    assert!(eventually(available));
    sluice.stop();
}
