//! gRPC in the judgement of grpc-go: its interoperability client and server, with the gateway in between.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::process::Command;

use sluice_acceptance::tls::{Made, made};
use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{Peer, Scratch, Sluice, get};

/// All cases but those that need credentials of somebody's cloud, or several servers that know their numbers.
const CASES: &[&str] = &[
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
    "orca_per_rpc",
    "orca_oob",
    "rpc_soak",
    "channel_soak",
];

/// The server of grpc-go.
fn server(more: &[&str]) -> Peer {
    Peer::start(|_, address| {
        let mut command = Command::new("server");
        command.args(["--port", address.rsplit(':').next().unwrap()]).args(more);
        command
    })
}

fn gateway(listener: &str, upstream: &str) -> Sluice {
    let text = format!("{upstream}\n\n[[route]]\nname = \"api\"\nproxy = \"api\"\n");
    let text = config(&text).replacen("127.0.0.1:0\"\n\n[", "127.0.0.1:0\"\nLISTENER\n\n[", 2);
    // The first one is the admin's.
    let text = text.replacen("LISTENER\n", "", 1).replacen("LISTENER", listener, 1);
    Sluice::start(&text)
}

/// A case that the client may lose against itself: it takes the call back and asks for the answer at once, and where the
/// answer is quicker than its own news of having given up (seen once in forty runs on a busy machine), it is content.
const RACES: &str = "cancel_after_begin";

/// How often such a case is tried.
const TRIES: usize = 5;

/// Runs every case; what the client said of those that failed.
fn failures(web: &str, more: &[&str]) -> Vec<String> {
    let port = web.rsplit(':').next().unwrap().trim_end_matches('/');
    let failure = |case: &&str| {
        let done = Command::new("client")
            .args(["--server_host", "127.0.0.1", "--server_port", port, "--test_case", case])
            .args(["--soak_iterations", "20", "--service_config_json", BACKEND_METRICS])
            .args(more)
            .output()
            .expect("grpc-go's interop client is installed: `make test` does that");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        (!done.status.success()).then(|| format!("{case}: {said}"))
    };
    let tries = |case: &str| if case == RACES { TRIES } else { 1 };
    let outcome = |case: &&str| {
        let mut failures: Vec<_> = (0..tries(case)).map_while(|_| failure(case)).collect();
        if failures.len() == tries(case) { failures.pop() } else { None }
    };
    CASES.iter().filter_map(outcome).collect()
}

const BACKEND_METRICS: &str =
    "{ \"loadBalancingConfig\": [{ \"test_backend_metrics_load_balancer\": {} }]}";

#[test]
fn all_cases_without_tls() {
    let peer = server(&[]);
    let upstream = format!("[upstream.api]\nservers = \"{}\"\nprotocol = \"http2\"", peer.address);
    let checked = format!("{upstream}\nhealth = {{ grpc = true, interval = \"20ms\" }}");
    let sluice = gateway("", &checked);
    let failed = failures(&sluice.address("web"), &[]);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let calls = |status: &str| {
        let name = format!("sluice_route_grpc_calls_total{{route=\"api\",status=\"{status}\"}}");
        metric(&sluice.admin(), &name)
    };
    // It has no service of health, as the check finds out; alone it is asked all the same.
    let server = format!("{{upstream=\"api\",server=\"{}\"}}", peer.address);
    assert!(eventually(
        || metric(&sluice.admin(), &format!("sluice_server_available{server}")) == 0
    ));
    let page = get(&sluice.admin(), "/upstreams").text();
    assert!(page.contains("unhealthy: gRPC status unimplemented"), "{page}");
    // The client of the cases is gone: what it took back is counted when the gateway has heard of it.
    assert!(eventually(|| calls("cancelled") >= 2), "{}", calls("cancelled"));
    assert!(calls("ok") > 40, "{}", calls("ok"));
    assert_eq!(calls("unimplemented"), 2);
    sluice.stop();
}

#[test]
fn all_cases_over_tls() {
    let scratch = Scratch::new();
    let Made { cert, key } = made(&["foo.test.google.fr"]);
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let (cert_file, key_file) = (path("a.pem"), path("a.key"));
    std::fs::write(&cert_file, cert).unwrap();
    std::fs::write(&key_file, key).unwrap();
    let peer = server(&["--use_tls", "--tls_cert_file", &cert_file, "--tls_key_file", &key_file]);
    let upstream = format!(
        "[upstream.api]\nservers = \"https://{}\"\nprotocol = \"negotiate\"\n\
         tls = {{ server_name = \"foo.test.google.fr\", ca = \"{cert_file}\" }}",
        peer.address
    );
    let listener =
        format!("tls = {{ certificates = [{{ cert = \"{cert_file}\", key = \"{key_file}\" }}] }}");
    let sluice = gateway(&listener, &upstream);
    let more = [
        "--use_tls",
        "--use_test_ca",
        "--ca_file",
        &cert_file,
        "--server_host_override",
        "foo.test.google.fr",
    ];
    let failed = failures(&sluice.address("web"), &more);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    sluice.stop();
}
