//! Runs over TLS, against a server of the test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;

/// A server that answers each read with a hello, and its certificate in PEM.
fn server() -> (SocketAddr, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(session, socket);
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(1..) = stream.read(&mut buffer) {
                    if stream.write_all(HELLO).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, made.cert.pem().into_bytes())
}

fn over(address: SocketAddr, trust: &Trust, requests: u64) -> Plan {
    let mut plan = plan("http://127.0.0.1/", requests);
    let target = Target::parse("https://localhost/").unwrap();
    plan.targets = vec![Place::new(target, vec![Endpoint::Tcp(address)], trust).unwrap()];
    plan
}

#[test]
fn requests_are_answered_over_tls() {
    let (address, certificate) = server();
    for trust in [Trust::Pem(certificate), Trust::Anything] {
        let outcome = outcome(over(address, &trust, 200));
        assert_eq!((outcome.responses, outcome.errors), (200, Errors::default()));
        assert_eq!(outcome.bytes_received, 200 * HELLO.len() as u64);
    }
    let mode = Mode::Open { rate_per_second: 200.0 };
    let outcome = outcome(Plan { mode, ..over(address, &Trust::Anything, 50) });
    assert_eq!((outcome.responses, outcome.errors), (50, Errors::default()));
}

#[test]
fn a_certificate_that_is_not_believed_ends_the_run() {
    let ((address, _), (_, other)) = (server(), server());
    let plan = over(address, &Trust::Pem(other), 10);
    let failure = run(plan, &Stopper::default(), silence()).unwrap_err();
    let Failure::Unreachable(reason) = failure else { panic!("{failure:?}") };
    assert!(reason.contains("certificate is not accepted") && reason.contains("--ca"), "{reason}");
}
