//! Our server and our client against each other, and the server against clients that are none.

use std::cell::RefCell;
use std::net::Shutdown;
use std::rc::Rc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, Issuer, KeyPair, KeyUsagePurpose, SignatureAlgorithm,
};

use super::*;
use crate::{Binding, Deadline, Listener, Stream, spawn, yield_now};

/// A certificate of the tests, and its text.
struct Made {
    certificate: Certificate,
    pem: Vec<u8>,
}

fn made(names: &[&str]) -> Made {
    made_with(names, &rcgen::PKCS_ECDSA_P256_SHA256)
}

fn made_with(names: &[&str], algorithm: &'static SignatureAlgorithm) -> Made {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names.clone()).unwrap();
    let key = KeyPair::generate_for(algorithm).unwrap();
    // A name of its own: issuers are found by it.
    let name = key.public_key_pem().replace(char::is_whitespace, "");
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let pem = params.self_signed(&key).unwrap().pem().into_bytes();
    let certificate = Certificate::from_pem(&pem, key.serialize_pem().as_bytes()).unwrap();
    Made { certificate, pem }
}

/// An issuer, its certificate, and a certificate it gave to a client.
struct Authority {
    issuer: Vec<u8>,
    client: Certificate,
}

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let issuer = params.self_signed(&key).unwrap().pem().into_bytes();
    let signer = Issuer::new(params, key);
    let params = CertificateParams::new(["client.example".to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    let pem = params.signed_by(&key, &signer).unwrap().pem();
    let client = Certificate::from_pem(pem.as_bytes(), key.serialize_pem().as_bytes()).unwrap();
    Authority { issuer, client }
}

/// Both ends of connections of one thread.
struct Pair {
    server: TlsServer,
    listener: Listener,
    endpoint: Endpoint,
}

impl Pair {
    fn new(server: TlsServer) -> Self {
        let binding = Binding::bind(&Endpoint::Tcp("127.0.0.1:0".parse().unwrap()), 1).unwrap();
        let endpoint = binding.endpoint().clone();
        Self { server, listener: binding.listeners(0).unwrap().remove(0), endpoint }
    }

    /// A connection that no handshake was done over: the client's end and the server's.
    async fn raw(&self) -> (Stream, Stream) {
        let client = connect(&self.endpoint).await.unwrap();
        (client, self.listener.accept().await.unwrap().into_stream().unwrap())
    }

    /// What each side has of a handshake.
    async fn meet(
        &self,
        client: &TlsClient,
    ) -> (Result<Stream, HandshakeError>, Result<Stream, HandshakeError>) {
        let (near, mut far) = self.raw().await;
        let result = Rc::new(RefCell::new(None));
        let (server, slot) = (self.server.clone(), Rc::clone(&result));
        spawn(async move {
            let done = server.accept(&mut far).await;
            *slot.borrow_mut() = Some(done.map(|()| far));
        });
        let near = client.connect(near).await;
        loop {
            if let Some(far) = result.borrow_mut().take() {
                return (near, far);
            }
            yield_now().await;
        }
    }

    async fn joined(&self, client: &TlsClient) -> (Stream, Stream) {
        let (near, far) = self.meet(client).await;
        (near.unwrap(), far.unwrap())
    }
}

fn server(list: &[&Made]) -> TlsServer {
    with(ServerSettings::default(), list)
}

fn with(settings: ServerSettings, list: &[&Made]) -> TlsServer {
    let list: Vec<_> = list.iter().map(|made| made.certificate.clone()).collect();
    TlsServer::new(&settings, &list).unwrap()
}

fn client(name: &str, trust: &Made) -> TlsClient {
    let mut settings = ClientSettings::new(Trust::Pem(trust.pem.clone()));
    settings.terms.protocols.clear();
    TlsClient::new(name, &settings).unwrap()
}

async fn send(stream: &Stream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let taken = poll_fn(|cx| stream.poll_write(cx, bytes)).await.unwrap();
        bytes = &bytes[taken..];
    }
}

/// A byte that differs from those of other places.
fn mark(at: usize) -> u8 {
    u8::try_from(at % 251).unwrap()
}

async fn receive(stream: &Stream, length: usize) -> Vec<u8> {
    let mut buffer = Vec::new();
    while buffer.len() < length {
        buffer.reserve(100);
        poll_fn(|cx| stream.poll_readable(cx)).await;
        if poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await.unwrap() == 0 {
            break;
        }
    }
    buffer
}

/// Runs a test with both ends in one thread.
fn test(server: TlsServer, body: impl AsyncFnOnce(Pair) + 'static) {
    run(async move { body(Pair::new(server)).await }).unwrap();
}

#[test]
fn server_and_client_understand_each_other_and_say_what_was_agreed_upon() {
    let made = made(&["localhost"]);
    let client = client("localhost", &made);
    test(server(&[&made]), async move |pair| {
        let (near, far) = pair.joined(&client).await;
        send(&near, b"question").await;
        assert_eq!(receive(&far, 8).await, b"question");
        let both = poll_fn(|cx| far.poll_write_two(cx, b"the ", b"answer")).await.unwrap();
        assert_eq!((both, receive(&near, 10).await), (10, b"the answer".to_vec()));
        for security in [near.security().unwrap(), far.security().unwrap()] {
            assert_eq!(security.version, Version::Tls13);
            assert_eq!(security.suite, "TLS_AES_128_GCM_SHA256");
            assert_eq!(security.group, Some("X25519MLKEM768"));
            assert_eq!((security.protocol, security.handshake), (None, Handshake::Full));
        }
        assert_eq!(far.security().unwrap().server_name.as_deref(), Some("localhost"));
        assert!(far.security().unwrap().peer_certificate.is_none());
        let shown = near.security().unwrap().peer_certificate.unwrap().der;
        assert_eq!(shown, made.certificate.der());
        assert!(!near.is_stale(), "tickets are no reason to leave");
        drop(far);
        poll_fn(|cx| near.poll_closed(cx)).await;
        assert!(near.is_stale());
    });
}

#[test]
fn versions_suites_and_groups_are_those_that_were_asked_for() {
    let made = made(&["localhost"]);
    let trust = Trust::Pem(made.pem.clone());
    let terms = Terms {
        versions: vec![Version::Tls12],
        suites: vec!["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256".to_owned()],
        groups: vec!["x25519".to_owned()],
        protocols: Vec::new(),
    };
    let old = ClientSettings { terms: terms.clone(), ..ClientSettings::new(trust.clone()) };
    let mixed = terms.clone();
    let old = TlsClient::new("localhost", &old).unwrap();
    let server = server(&[&made]);
    let new_only = Terms { versions: vec![Version::Tls13], ..Terms::default() };
    let strict = ServerSettings { terms: new_only, ..ServerSettings::default() };
    let strict = with(strict, &[&made]);
    test(server, async move |mut pair| {
        let (near, far) = pair.joined(&old).await;
        let security = far.security().unwrap();
        assert_eq!((security.version, security.group), (Version::Tls12, Some("X25519")));
        assert_eq!(security.suite, terms.suites[0]);
        send(&near, &[b'x'; 40_000]).await;
        assert_eq!(receive(&far, 40_000).await.len(), 40_000);
        pair.server = strict;
        let (near, far) = pair.meet(&old).await;
        assert_eq!(far.unwrap_err().reason, Reason::Version);
        assert_eq!(near.unwrap_err().reason, Reason::Version);
    });
    let wrong = Terms { suites: vec!["TLS_NULL".to_owned()], ..Terms::default() };
    let settings = ServerSettings { terms: wrong, ..ServerSettings::default() };
    assert!(TlsServer::new(&settings, &[]).unwrap_err().contains("TLS_NULL"));
    let wrong = Terms { groups: vec!["x448".to_owned()], ..Terms::default() };
    let settings = ServerSettings { terms: wrong, ..ServerSettings::default() };
    assert!(TlsServer::new(&settings, &[]).unwrap_err().contains("x448"));
    let mixed = Terms { versions: vec![Version::Tls13], ..mixed };
    let settings = ServerSettings { terms: mixed, ..ServerSettings::default() };
    assert!(TlsServer::new(&settings, &[]).is_err(), "no suite of that version");
}

#[test]
fn a_certificate_is_chosen_by_name_and_kind_of_key() {
    let exact = made(&["www.example.org"]);
    let wild = made(&["*.example.org", "example.org"]);
    let rsa = made_with(&["*.example.org", "example.org"], &rcgen::PKCS_ED25519);
    let first = made(&["fallback.example"]);
    let rows = [
        ("www.example.org", &exact),
        ("WWW.Example.Org", &exact),
        ("other.example.org", &wild),
        ("example.org", &wild),
        ("a.b.example.org", &first),
        ("unknown.example", &first),
        ("127.0.0.1", &first),
    ]
    .map(|(name, expected)| (name, expected.certificate.der().to_vec()));
    let every = ClientSettings::new(Trust::Anything);
    let every = ClientSettings { terms: Terms::default(), ..every };
    test(server(&[&first, &rsa, &wild, &exact]), async move |pair| {
        for (name, expected) in rows {
            let client = TlsClient::new(name, &every).unwrap();
            let (near, _far) = pair.joined(&client).await;
            let shown = near.security().unwrap().peer_certificate.unwrap().der;
            assert_eq!(shown, expected, "{name}");
        }
    });
}

#[test]
fn certificates_are_replaced_while_connections_stay() {
    let (old, new) = (made(&["localhost"]), made(&["localhost"]));
    let (old_client, new_client) = (client("localhost", &old), client("localhost", &new));
    test(server(&[&old]), async move |pair| {
        let (near, far) = pair.joined(&old_client).await;
        pair.server.replace(&[new.certificate]);
        let (newer, _newer_far) = pair.joined(&new_client).await;
        assert!(newer.security().is_some());
        let (refused, told) = pair.meet(&old_client).await;
        assert_eq!(refused.unwrap_err().reason, Reason::CertificateRefused);
        assert_eq!(told.unwrap_err().reason, Reason::Distrusted);
        send(&near, b"still").await;
        assert_eq!(receive(&far, 5).await, b"still");
        pair.server.replace(&[]);
        let (_, told) = pair.meet(&new_client).await;
        assert_eq!(told.unwrap_err().reason, Reason::NoCertificate);
    });
}

#[test]
fn a_ticket_shortens_the_next_handshake_also_of_another_server_with_its_keys() {
    let made = made(&["localhost"]);
    let keys = Arc::new(TicketKeys::parse(&"0b".repeat(32)).unwrap());
    let settings =
        || ServerSettings { ticket_keys: Some(Arc::clone(&keys)), ..ServerSettings::default() };
    let (one, other) = (with(settings(), &[&made]), with(settings(), &[&made]));
    let stranger = server(&[&made]);
    for versions in [vec![Version::Tls13], vec![Version::Tls12]] {
        let settings = ClientSettings {
            terms: Terms { versions, ..Terms::default() },
            resumption: Reuse::Tickets,
            ..ClientSettings::new(Trust::Pem(made.pem.clone()))
        };
        let client = TlsClient::new("localhost", &settings).unwrap();
        let (full, resumed) = (Handshake::Full, Handshake::Resumed);
        let servers = [(one.clone(), full), (one.clone(), resumed), (other.clone(), resumed)];
        let servers =
            servers.into_iter().chain([(stranger.clone(), full), (stranger.clone(), resumed)]);
        let servers: Vec<_> = servers.collect();
        test(one.clone(), async move |mut pair| {
            for (server, expected) in servers {
                pair.server = server;
                let (near, far) = pair.joined(&client).await;
                send(&far, b"x").await;
                assert_eq!(receive(&near, 1).await, b"x", "tickets come before it");
                assert_eq!(far.security().unwrap().handshake, expected);
                assert_eq!(near.security().unwrap().handshake, expected);
            }
        });
    }
}

#[test]
fn much_goes_both_ways_at_once_however_slow_the_reader() {
    const LENGTH: usize = 4_000_000;
    let made = made(&["localhost"]);
    let client = client("localhost", &made);
    test(server(&[&made]), async move |pair| {
        let (near, far) = pair.joined(&client).await;
        let (near, far) = (Rc::new(near), Rc::new(far));
        let content: Rc<Vec<u8>> = Rc::new((0..LENGTH).map(|at| mark(at / 7)).collect());
        for stream in [&near, &far] {
            let (stream, content) = (Rc::clone(stream), Rc::clone(&content));
            spawn(async move {
                let mut at = 0;
                let mut step = 1;
                while at < LENGTH {
                    // Pieces of changing sizes, in one part or two, and never the same twice.
                    step = step * 7 % 60_013;
                    let end = (at + step).min(LENGTH);
                    let middle = at + (end - at) / 3;
                    let (first, second) = (&content[at..middle], &content[middle..end]);
                    at += poll_fn(|cx| match at % 2 {
                        0 => stream.poll_write_two(cx, first, second),
                        _ => stream.poll_write(cx, &content[at..end]),
                    })
                    .await
                    .unwrap();
                }
            });
        }
        for _ in 0..1000 {
            yield_now().await;
        }
        for stream in [&near, &far] {
            assert!(receive(stream, LENGTH).await == *content);
        }
    });
}

#[test]
fn bytes_offered_again_in_other_pieces_arrive_once() {
    let made = made(&["localhost"]);
    let client = client("localhost", &made);
    test(server(&[&made]), async move |pair| {
        let (near, far) = pair.joined(&client).await;
        // Until the socket takes no more.
        let mut sent: usize = 0;
        loop {
            let piece = [mark(sent / 10_000); 10_000];
            match poll_fn(|cx| Poll::Ready(near.poll_write(cx, &piece))).await {
                Poll::Ready(taken) => assert_eq!(taken.unwrap(), 10_000),
                Poll::Pending => break,
            }
            sent += 10_000;
        }
        let reader = spawned(async move { receive(&far, sent + 10_000).await });
        // The same bytes, in smaller pieces.
        for _ in 0..10 {
            send(&near, &[mark(sent / 10_000); 1000]).await;
        }
        let got = reader.await;
        assert_eq!(got.len(), sent + 10_000);
        assert!(got.iter().enumerate().all(|(at, byte)| *byte == mark(at / 10_000)));
    });
}

/// Runs a task beside this one; its result is waited for later.
fn spawned<T: 'static>(task: impl Future<Output = T> + 'static) -> impl Future<Output = T> {
    let slot = Rc::new(RefCell::new(None));
    let inner = Rc::clone(&slot);
    spawn(async move { *inner.borrow_mut() = Some(task.await) });
    async move {
        loop {
            if let Some(result) = slot.borrow_mut().take() {
                return result;
            }
            yield_now().await;
        }
    }
}

#[test]
fn one_side_ends_and_the_other_goes_on() {
    let made = made(&["localhost"]);
    let client = client("localhost", &made);
    test(server(&[&made]), async move |pair| {
        let (near, far) = pair.joined(&client).await;
        send(&near, b"all").await;
        near.shut_down(Shutdown::Write);
        assert_eq!(receive(&far, 100).await, b"all");
        // The end stays the end.
        assert_eq!(receive(&far, 100).await, b"");
        send(&far, &[b'y'; 50_000]).await;
        far.shut_down(Shutdown::Write);
        assert_eq!(receive(&near, 100_000).await.len(), 50_000);
    });
}

#[test]
fn an_aborted_answer_does_not_look_like_a_whole_one() {
    let made = made(&["localhost"]);
    let client = client("localhost", &made);
    test(server(&[&made]), async move |pair| {
        let (near, far) = pair.joined(&client).await;
        far.abort_on_close();
        drop(far);
        let mut buffer = Vec::with_capacity(100);
        let error = poll_fn(|cx| near.poll_read(cx, &mut buffer)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn what_is_no_handshake_is_refused_with_its_reason() {
    let made = made(&["localhost"]);
    test(server(&[&made]), async move |pair| {
        let garbage: [(&[u8], Reason); 4] = [
            (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", Reason::PlainHttp),
            (&[0; 100], Reason::NotTls),
            // A record of the right form with nothing sensible in it.
            (&[22, 3, 1, 0, 5, 1, 0, 0, 1, 7], Reason::NotTls),
            (b"", Reason::Closed),
        ];
        for (bytes, expected) in garbage {
            let (near, mut far) = pair.raw().await;
            send(&near, bytes).await;
            near.shut_down(Shutdown::Write);
            let error = pair.server.accept(&mut far).await.unwrap_err();
            assert_eq!(error.reason, expected, "{error}");
        }
    });
}

#[test]
fn a_client_that_says_nothing_can_be_given_up() {
    let made = made(&["localhost"]);
    test(server(&[&made]), async move |pair| {
        for bytes in [&b""[..], &[22, 3, 1]] {
            let (near, mut far) = pair.raw().await;
            send(&near, bytes).await;
            let deadline = Deadline::new();
            let limit = Duration::from_millis(20);
            assert!(deadline.limit(limit, pair.server.accept(&mut far)).await.is_err());
        }
    });
}

#[test]
fn clients_prove_who_they_are_where_they_have_to() {
    let made = made(&["localhost"]);
    let (known, unknown) = (authority("known"), authority("unknown"));
    let asking = |clients| with(ServerSettings { clients, ..ServerSettings::default() }, &[&made]);
    let required = asking(ClientCertificates::Required(known.issuer.clone()));
    let optional = asking(ClientCertificates::Optional(known.issuer.clone()));
    let client = |certificate: Option<&Certificate>| {
        let settings = ClientSettings::new(Trust::Pem(made.pem.clone()));
        let settings = ClientSettings {
            certificate: certificate.cloned(),
            terms: Terms::default(),
            ..settings
        };
        TlsClient::new("localhost", &settings).unwrap()
    };
    let clients = [client(None), client(Some(&known.client)), client(Some(&unknown.client))];
    let shown = known.client.der().to_vec();
    test(required.clone(), async move |mut pair| {
        for (server, nobody) in [(required, Err(Reason::CertificateMissing)), (optional, Ok(None))]
        {
            pair.server = server;
            let expected = [nobody, Ok(Some(shown.clone())), Err(Reason::CertificateRefused)];
            for (client, expected) in clients.iter().zip(expected) {
                let (_near, far) = pair.meet(client).await;
                let certificate = far
                    .map_err(|error| error.reason)
                    .map(|far| far.security().unwrap().peer_certificate.map(|it| it.der));
                assert_eq!(certificate, expected);
            }
        }
    });
}

#[test]
fn who_a_client_is_stays_known_when_a_ticket_shortens_the_handshake() {
    let made = made(&["localhost"]);
    let known = authority("known");
    let clients = ClientCertificates::Required(known.issuer.clone());
    let keys = Arc::new(TicketKeys::parse(&"0c".repeat(32)).unwrap());
    let asking = |clients| {
        let ticket_keys = Some(Arc::clone(&keys));
        with(ServerSettings { clients, ticket_keys, ..ServerSettings::default() }, &[&made])
    };
    let (strict, open) = (asking(clients), asking(ClientCertificates::Unasked));
    let shown = known.client.der().to_vec();
    for version in [Version::Tls13, Version::Tls12] {
        let client = |certificate| {
            let settings = ClientSettings {
                certificate,
                terms: Terms { versions: vec![version], ..Terms::default() },
                resumption: Reuse::Tickets,
                ..ClientSettings::new(Trust::Pem(made.pem.clone()))
            };
            TlsClient::new("localhost", &settings).unwrap()
        };
        let (somebody, nobody) = (client(Some(known.client.clone())), client(None));
        let (strict, open, shown) = (strict.clone(), open.clone(), shown.clone());
        test(strict.clone(), async move |mut pair| {
            for expected in [Handshake::Full, Handshake::Resumed] {
                let (near, far) = pair.joined(&somebody).await;
                send(&far, b"x").await;
                assert_eq!(receive(&near, 1).await, b"x");
                let security = far.security().unwrap();
                assert_eq!(security.handshake, expected, "{version:?}");
                assert_eq!(security.peer_certificate.unwrap().der, shown);
            }
            // A ticket of a server that asks for nothing opens no door where something is asked.
            pair.server = open;
            let (near, far) = pair.joined(&nobody).await;
            send(&far, b"x").await;
            assert_eq!(receive(&near, 1).await, b"x");
            pair.server = strict;
            let (_near, far) = pair.meet(&nobody).await;
            assert_eq!(far.unwrap_err().reason, Reason::CertificateMissing, "{version:?}");
        });
    }
}

#[test]
fn a_protocol_is_chosen_or_the_handshake_fails() {
    let made = made(&["localhost"]);
    let speaking = |list: &[&str]| Terms {
        protocols: list.iter().map(|it| it.as_bytes().to_vec()).collect(),
        ..Terms::default()
    };
    let terms = speaking(&["h2", "http/1.1"]);
    let server = with(ServerSettings { terms, ..ServerSettings::default() }, &[&made]);
    type Row<'r> = (&'r [&'r str], Result<Option<&'r [u8]>, Reason>);
    let rows: [Row<'_>; 4] = [
        (&[], Ok(None)),
        (&["http/1.1"], Ok(Some(b"http/1.1"))),
        (&["http/1.1", "h2"], Ok(Some(b"h2"))),
        (&["spdy"], Err(Reason::Protocol)),
    ];
    let rows = rows.map(|(list, expected)| {
        let settings = ClientSettings::new(Trust::Pem(made.pem.clone()));
        let settings = ClientSettings { terms: speaking(list), ..settings };
        (TlsClient::new("localhost", &settings).unwrap(), expected)
    });
    test(server, async move |pair| {
        for (client, expected) in rows {
            let (near, far) = pair.meet(&client).await;
            let expected = expected.map(|it| it.map(<[u8]>::to_vec));
            let chosen = |stream: Stream| stream.security().unwrap().protocol;
            assert_eq!(near.map(chosen).map_err(|error| error.reason), expected);
            assert_eq!(far.map(chosen).map_err(|error| error.reason), expected);
        }
    });
}

#[test]
fn handshakes_leave_room_for_others_in_every_turn() {
    run(async {
        let begun = Rc::new(RefCell::new(Vec::new()));
        for _ in 0..20 {
            let begun = Rc::clone(&begun);
            spawn(async move {
                super::super::pace::begin().await;
                begun.borrow_mut().push(crate::now());
            });
        }
        while begun.borrow().len() < 20 {
            yield_now().await;
        }
        let begun = begun.borrow();
        for turn in begun.iter() {
            assert!(begun.iter().filter(|it| *it == turn).count() <= 4, "{begun:?}");
        }
    })
    .unwrap();
}

#[test]
fn what_cannot_be_shown_is_told() {
    let (one, other) = (made(&["a.example"]), KeyPair::generate().unwrap());
    let said = Certificate::from_pem(&one.pem, other.serialize_pem().as_bytes()).unwrap_err();
    assert!(said.contains("does not belong"), "{said}");
    let said = Certificate::from_pem(&one.pem, &one.pem).unwrap_err();
    assert!(said.contains("no private key"), "{said}");
    let said = Certificate::from_pem(b"nothing", &one.pem).unwrap_err();
    assert!(said.contains("no certificate"), "{said}");
    assert_eq!(one.certificate.names(), ["a.example"]);
}
