//! A filter that panics costs the request it panics in, and nothing else, wherever it does.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of a test; a filter that panics is what it is about"
)]
#![allow(missing_docs, unreachable_pub, reason = "a test")]

mod gateway;

use std::sync::Arc;

use gateway::Gateway;
use sluice_filter::{
    Broken, DoneContext, Filter, Link, Phases, RequestContext, ResponseContext, ResponseVerdict,
    Resume, Transform, Verdict, compute,
};
use sluice_message::{BodyLength, Fields};
use sluice_testkit::http2::Http2Client;
use sluice_testkit::{Asked, ByteScript, Origin, behaviour, get};
use sluice_wire::h2::End;

/// Where the filter panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    RequestHead,
    /// While it waits for something.
    Waiting,
    /// When it is called back.
    CalledBack,
    /// On another thread, which does something for it.
    Elsewhere,
    /// When it has seen the content it asked for.
    Gathered,
    RequestBody,
    RequestPiece,
    RequestEnd,
    ResponseHead,
    ResponseBody,
    ResponsePiece,
    ResponseEnd,
    Done,
}

/// Panics where it is told to, if the request says so.
#[derive(Debug)]
struct Trap(Place);

/// What requests say that the filter is to panic in.
const QUERY: &[u8] = b"trap";

impl Trap {
    fn trip(&self, here: Place, query: &[u8]) {
        assert!(self.0 != here || query != QUERY, "on purpose");
    }
}

impl Filter for Trap {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD
            | Phases::REQUEST_BODY
            | Phases::RESPONSE_HEAD
            | Phases::RESPONSE_BODY
            | Phases::DONE
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let query = context.request.query();
        self.trip(Place::RequestHead, query);
        context.notes.set(&"query".into(), query);
        let armed = query == QUERY;
        let go_on = || -> Resume { Box::new(|_| Verdict::Continue) };
        match self.0 {
            Place::Waiting if armed => {
                let soon = context.gateway.sleep(std::time::Duration::from_millis(1));
                Verdict::Wait(Box::pin(async move {
                    soon.await;
                    panic!("on purpose")
                }))
            }
            Place::CalledBack if armed => Verdict::Wait(Box::pin(async {
                let resume: Resume = Box::new(|_| panic!("on purpose"));
                resume
            })),
            Place::Elsewhere if armed => {
                let done = compute(context.gateway, || panic!("on purpose"));
                Verdict::Wait(Box::pin(async move {
                    let _: Option<()> = done.await;
                    go_on()
                }))
            }
            Place::Gathered if armed => Verdict::Gather(1024, Box::new(|_| panic!("on purpose"))),
            _ => Verdict::Continue,
        }
    }

    fn request_body(&self, context: &mut RequestContext<'_>) -> Option<Box<dyn Transform>> {
        self.trip(Place::RequestBody, context.request.query());
        let armed = context.request.query() == QUERY;
        let places = (Place::RequestPiece, Place::RequestEnd);
        Some(Box::new(Mine {
            piece: armed && self.0 == places.0,
            end: armed && self.0 == places.1,
        }))
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        self.trip(Place::ResponseHead, context.request.query());
        ResponseVerdict::Continue
    }

    fn response_body(&self, context: &mut ResponseContext<'_>) -> Option<Box<dyn Transform>> {
        self.trip(Place::ResponseBody, context.request.query());
        let armed = context.request.query() == QUERY;
        let places = (Place::ResponsePiece, Place::ResponseEnd);
        Some(Box::new(Mine {
            piece: armed && self.0 == places.0,
            end: armed && self.0 == places.1,
        }))
    }

    fn on_done(&self, done: &DoneContext<'_>) {
        self.trip(Place::Done, done.notes.get("query").unwrap_or_default());
    }
}

/// Content that passes as it is, or not at all.
#[derive(Debug)]
struct Mine {
    piece: bool,
    end: bool,
}

impl Transform for Mine {
    fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        assert!(!self.piece, "on purpose");
        out.extend_from_slice(piece);
        Ok(())
    }

    fn end(&mut self, _: &mut Option<Fields>, _: &mut Vec<u8>) -> Result<(), Broken> {
        assert!(!self.end, "on purpose");
        Ok(())
    }
}

/// Does nothing: the one before and behind.
#[derive(Debug)]
struct Idle;

impl Filter for Idle {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD | Phases::RESPONSE_HEAD | Phases::DONE
    }
}

/// What a client sees of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Status(u16),
    /// An answer that did not come whole.
    BrokenOff,
}

/// A connection.
enum Client {
    Http1(ByteScript),
    Http2(Box<Http2Client>),
}

impl Client {
    fn connect(version: u8, address: &str) -> Self {
        match version {
            1 => Self::Http1(ByteScript::connect(address)),
            _ => Self::Http2(Box::new(Http2Client::connect(address))),
        }
    }

    /// A request with content.
    fn ask(&mut self, path: &str) -> Seen {
        match self {
            Self::Http1(client) => {
                client.send(format!(
                    "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
                ));
                match client.read_response(Asked::Get) {
                    Ok(response) => Seen::Status(response.status),
                    Err(_) => Seen::BrokenOff,
                }
            }
            Self::Http2(client) => {
                let stream = client.begin(("POST", path), &[], BodyLength::Framed);
                client.send(stream, b"abc", End::Stream);
                let answer = client.wait(stream);
                match answer.reset {
                    Some(code) if code != sluice_wire::h2::ErrorCode::NO_ERROR => Seen::BrokenOff,
                    _ => Seen::Status(answer.status()),
                }
            }
        }
    }
}

/// What a client sees, over every version, and that nobody else sees anything.
fn costs_one_request(place: Place, route: &str, expected: Seen) {
    for version in [1, 2] {
        let case = format!("{place:?} {route} HTTP/{version}");
        let origin = Origin::start(behaviour::mirror);
        let link =
            |name: &str, filter: Arc<dyn Filter>| Link { name: name.into(), filter, when: None };
        let gateway = Gateway::start(&origin, || {
            vec![
                link("outer", Arc::new(Idle)),
                link("trap", Arc::new(Trap(place))),
                link("inner", Arc::new(Idle)),
            ]
        });
        let good = format!("/{route}");
        let bad = format!("{good}?trap");
        let mut other = Client::connect(version, &gateway.address);
        assert_eq!(other.ask(&good), Seen::Status(200), "{case}");
        let mut client = Client::connect(version, &gateway.address);
        assert_eq!(client.ask(&good), Seen::Status(200), "{case}");
        assert_eq!(client.ask(&bad), expected, "{case}");
        // The next request goes over the same connection where the one before left it whole.
        let whole = version == 2 || expected != Seen::BrokenOff;
        let after = match whole && !leaves_content_unread(place) {
            true => client.ask(&good),
            false => Client::connect(version, &gateway.address).ask(&good),
        };
        assert_eq!(after, Seen::Status(200), "{case}");
        assert_eq!(other.ask(&good), Seen::Status(200), "{case}");
        assert_eq!(get(&gateway.address, &good).status, 200, "{case}");
        let log = gateway.log();
        let line = format!("error: {} panicked: on purpose\n", culprit(place));
        assert_eq!(log.matches(&line).count(), 1, "{case}: {log}");
        assert_eq!(gateway.metric("sluice_panics_total"), 1, "{case}: {log}");
        // What happens behind an answer is not the client's misfortune.
        let faults = u64::from(place != Place::Done);
        let sample = "sluice_faults_total{side=\"internal\",reason=\"broken\"}";
        assert_eq!(gateway.metric(sample), faults, "{case}: {log}");
        let route = format!(", route {route}, ");
        let told = log.lines().filter(|line| {
            line.contains(": broken, client 127.0.0.1, request \"")
                && line.contains(&route)
                && line.ends_with(", answered 500")
        });
        assert_eq!(told.count(), usize::try_from(faults).unwrap(), "{case}: {log}");
    }
}

/// Who is named. Content goes through what filters have made, which has no name of its own.
fn culprit(place: Place) -> &'static str {
    match place {
        Place::RequestPiece | Place::RequestEnd | Place::ResponsePiece | Place::ResponseEnd => {
            "an exchange"
        }
        _ => "filter \"trap\"",
    }
}

/// Content in the middle of which an exchange ends cannot be skipped: the connection ends with it.
fn leaves_content_unread(place: Place) -> bool {
    place == Place::RequestPiece
}

const REFUSED: Seen = Seen::Status(500);

#[test]
fn on_the_way_to_the_origin() {
    let both = ["direct", "proxied"];
    for place in
        [Place::RequestHead, Place::Waiting, Place::CalledBack, Place::Elsewhere, Place::Gathered]
    {
        for route in both {
            costs_one_request(place, route, REFUSED);
        }
    }
}

#[test]
fn in_the_content_of_a_request() {
    for place in [Place::RequestBody, Place::RequestPiece, Place::RequestEnd] {
        costs_one_request(place, "proxied", REFUSED);
    }
}

#[test]
fn at_the_head_of_an_answer() {
    for place in [Place::ResponseHead, Place::ResponseBody] {
        for route in ["direct", "proxied"] {
            costs_one_request(place, route, REFUSED);
        }
    }
}

#[test]
fn in_the_content_of_an_answer() {
    for place in [Place::ResponsePiece, Place::ResponseEnd] {
        // Its head is on the way already.
        for route in ["direct", "proxied"] {
            costs_one_request(place, route, Seen::BrokenOff);
        }
    }
}

#[test]
fn when_all_is_over() {
    for route in ["direct", "proxied"] {
        costs_one_request(Place::Done, route, Seen::Status(200));
    }
}
