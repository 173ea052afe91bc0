//! Encrypted connections against servers of the test.

mod servers;

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::task::{Poll, ready};

use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::words::distance;
use super::*;
use crate::{Endpoint, connect, run};

/// A server of one connection that answers what it gets, in capitals; and its certificate.
fn server(name: &str) -> (SocketAddr, String) {
    server_of(name, (2000, 4000))
}

/// The same with a certificate that is valid between these years.
fn server_of(name: &str, (from, to): (i32, i32)) -> (SocketAddr, String) {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // A name of its own: issuers are found by it.
    params.distinguished_name.push(DnType::CommonName, address.to_string());
    let key = KeyPair::generate().unwrap();
    let cert = params.self_signed(&key).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let session = ServerConnection::new(Arc::new(config)).unwrap();
        let mut stream = StreamOwned::new(session, socket);
        let mut buffer = vec![0; 100_000];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..length].to_ascii_uppercase()).is_err() {
                return;
            }
        }
    });
    (address, cert.pem())
}

/// Sends `question` over an encrypted connection and reads as much back.
fn ask(address: SocketAddr, name: &str, trust: &Trust, question: Vec<u8>) -> io::Result<Vec<u8>> {
    let client = TlsClient::new(name, &ClientSettings::new(trust.clone())).unwrap();
    run(async move {
        let stream = connect(&Endpoint::Tcp(address)).await?;
        let stream = client.connect(stream).await?;
        let (mut sent, mut answer) = (0, Vec::new());
        poll_fn(|cx| {
            while sent < question.len() {
                match stream.poll_write(cx, &question[sent..])? {
                    Poll::Ready(length) => sent += length,
                    Poll::Pending => break,
                }
            }
            while answer.len() < question.len() {
                answer.reserve(1);
                ready!(stream.poll_readable(cx));
                if ready!(stream.poll_read(cx, &mut answer))? == 0 {
                    break;
                }
            }
            Poll::Ready(io::Result::Ok(()))
        })
        .await?;
        assert!(!stream.is_closed());
        Ok(answer)
    })
    .unwrap()
}

/// Why a handshake failed.
fn reason(error: &io::Error) -> Reason {
    error.get_ref().unwrap().downcast_ref::<HandshakeError>().unwrap().reason
}

#[test]
fn bytes_go_both_ways_however_many() {
    for length in [1, 1000, 20_000, 3_000_000] {
        let (address, certificate) = server("localhost");
        let trust = Trust::Pem(certificate.into_bytes());
        let answer = ask(address, "localhost", &trust, vec![b'a'; length]).unwrap();
        assert!(answer == vec![b'A'; length], "{} of {length}", answer.len());
    }
}

#[test]
fn a_certificate_is_looked_at_unless_nobody_wants_it() {
    let (address, certificate) = server("localhost");
    let trust = Trust::Pem(certificate.clone().into_bytes());
    let error = ask(address, "other.example", &trust, b"x".to_vec()).unwrap_err();
    assert!(reason(&error) == Reason::CertificateRefused, "{error:?}");
    assert!(error.to_string().contains("not for \"other.example\" but for localhost"), "{error}");
    let (address, _) = server("localhost");
    let error = ask(address, "localhost", &trust, b"x".to_vec()).unwrap_err();
    assert!(error.to_string().contains("nobody who is trusted has issued it"), "{error}");
    let (address, _) = server("localhost");
    let answer = ask(address, "other.example", &Trust::Anything, b"x".to_vec()).unwrap();
    assert_eq!(answer, b"X");
}

#[test]
fn a_certificate_has_its_time() {
    for (years, part) in [((1990, 1991), "it expired "), ((3000, 3001), "not valid yet, only in ")]
    {
        let (address, certificate) = server_of("localhost", years);
        let trust = Trust::Pem(certificate.into_bytes());
        let error = ask(address, "localhost", &trust, b"x".to_vec()).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains(" days"), "{error}");
    }
    let at = |seconds| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    assert_eq!(distance(at(10), at(40)), "30 seconds");
    assert_eq!(distance(at(10), at(7300)), "2 hours");
}

#[test]
fn a_server_without_tls_is_told_from_one_that_leaves() {
    for (greeting, part) in [(&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "TLS"), (b"", "closed")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let _ = socket.read(&mut [0; 4096]);
            socket.write_all(greeting).unwrap();
        });
        let error = ask(address, "localhost", &Trust::Anything, b"x".to_vec()).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn what_cannot_be_trusted_or_named_is_told() {
    let new = |host: &str, trust: Trust| TlsClient::new(host, &ClientSettings::new(trust));
    let said = new("localhost", Trust::Pem(b"nothing".to_vec())).unwrap_err();
    assert!(said.contains("no certificate"), "{said}");
    assert_eq!(Trust::pem(b"nothing".to_vec()), Err(said));
    let broken = "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n";
    assert!(new("localhost", Trust::Pem(broken.as_bytes().to_vec())).is_err());
    let said = new("a b", Trust::Anything).unwrap_err();
    assert!(said.contains("no name"), "{said}");
    assert!(new("127.0.0.1", Trust::Anything).is_ok());
}
