//! Scripted requests: what a source says is what happens.

use super::*;
use crate::source::{
    Content, Failure as Lost, Reply, RequestMeta, RequestSource, Requests, Step, Verdict,
};
use sluice_message::Method;
use std::sync::Mutex;

/// Two rounds of: a request to the first place, a pause, a request to the second.
#[derive(Debug)]
struct Script {
    urls: Vec<String>,
    heard: Arc<Mutex<Vec<String>>>,
}

struct Round {
    step: u32,
    steps: u32,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Requests for Script {
    fn targets(&self) -> &[String] {
        &self.urls
    }

    fn worker(&self, _: u32) -> Box<dyn RequestSource> {
        Box::new(Round { step: 0, steps: 6, heard: Arc::clone(&self.heard) })
    }

    fn warm_up(&self) -> Option<Box<dyn RequestSource>> {
        Some(Box::new(Round { step: 0, steps: 3, heard: Arc::clone(&self.heard) }))
    }
}

impl RequestSource for Round {
    fn next(&mut self, out: &mut Vec<u8>) -> Step {
        let step = self.step;
        self.step += 1;
        if step >= self.steps {
            return Step::End;
        }
        if step % 3 == 1 {
            return Step::Pause(Duration::from_millis(1));
        }
        out.extend_from_slice(format!("GET /{step} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        let target = u32::from(step % 3 == 2);
        let content = if target == 0 { Content::Gather } else { Content::Discard };
        Step::Send(RequestMeta { id: step, target, method: Method::Get, content })
    }

    fn on_response(&mut self, request: RequestMeta, reply: &Reply<'_>) -> Verdict {
        let body = String::from_utf8_lossy(reply.body).into_owned();
        let heard = format!("{} {} {}", request.id, reply.head.status, body);
        self.heard.lock().unwrap().push(heard);
        assert!(reply.elapsed > 0);
        match reply.head.status {
            200 => Verdict::Expected,
            _ => Verdict::UnexpectedStatus,
        }
    }

    fn on_failure(&mut self, request: RequestMeta, failure: Lost) {
        self.heard.lock().unwrap().push(format!("{} {failure:?}", request.id));
    }
}

fn scripted(urls: Vec<String>, extent: Extent) -> (Plan, Arc<Mutex<Vec<String>>>) {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let plan = plan(&urls[0], 1);
    let targets = urls.iter().map(|url| {
        let target = Target::parse(url).unwrap();
        let endpoints = target.endpoints().unwrap();
        Place::new(target, endpoints, &Trust::Anything).unwrap()
    });
    let targets = targets.collect();
    let script = Script { urls, heard: Arc::clone(&heard) };
    let expected = Expected { statuses: Statuses::any(), body: None };
    let work = Work::Scripted(Arc::new(script));
    (Plan { targets, work, extent, expected, connections: 1, ..plan }, heard)
}

#[test]
fn a_script_is_carried_out_in_its_order() {
    let (good, bad) = (Server::start(always(HELLO)), Server::start(always(MISSING)));
    let (plan, heard) = scripted(vec![good.url(), bad.url()], Extent::default());
    let outcome = outcome(plan);
    let expected = ["0 200 hello", "2 404 ", "0 200 hello", "2 404 ", "3 200 hello", "5 404 "]
        .map(str::to_owned);
    assert_eq!(*heard.lock().unwrap(), expected);
    // The warm-up is not counted.
    assert_eq!((outcome.requests, outcome.responses), (4, 4));
    assert_eq!(outcome.errors, Errors { unexpected_status: 2, ..Errors::default() });
    // The warm-up's connection goes with it.
    assert_eq!((good.connections(), bad.connections()), (2, 2));
    assert_eq!(outcome.bytes_received, 2 * (HELLO.len() + MISSING.len()) as u64);
}

#[test]
fn a_script_hears_of_failures_and_goes_on() {
    let (good, closing) = (
        Server::start(always(HELLO)),
        Server::start(|connection| {
            connection.read_request();
        }),
    );
    let extent = Extent { duration: None, requests: Some(3) };
    let (plan, heard) = scripted(vec![good.url(), closing.url()], extent);
    let outcome = outcome(plan);
    let expected =
        ["0 200 hello", "2 Read", "0 200 hello", "2 Read", "3 200 hello"].map(str::to_owned);
    assert_eq!(*heard.lock().unwrap(), expected);
    assert_eq!((outcome.requests, outcome.errors.read), (3, 1));
}

#[test]
fn an_unreachable_first_target_is_told() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (plan, _) = scripted(vec![format!("http://{free}/")], Extent::default());
    let failure = run(plan, &Stopper::default(), silence()).unwrap_err();
    assert!(matches!(failure, Failure::Unreachable(_)), "{failure:?}");
}
