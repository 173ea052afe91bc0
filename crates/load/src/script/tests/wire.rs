//! Scripts over real connections: what a server sees of them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use sluice_message::{Method, ResponseHead};
use sluice_wire::h1::{Decoded, Limits, decode_response};

use super::{Limit, plan};
use crate::source::{Reply, RequestSource, Requests, Step};

/// Answers each connection's requests with 200 and `{"n":…}`, and keeps their first lines.
pub(super) fn server() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let seen = Arc::clone(&kept);
            std::thread::spawn(move || serve(stream, &seen));
        }
    });
    (address, seen)
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<String>>) {
    let mut input = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut chunk) {
        input.extend_from_slice(&chunk[..length]);
        let text = String::from_utf8_lossy(&input).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        if body.len() < length.map_or(0, |length| length.parse().unwrap()) {
            continue;
        }
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(format!("{} {body}", head.lines().next().unwrap()));
            seen.len()
        };
        let body = format!("{{\"n\":{number}}}");
        let status = if head.contains("/fail") { "500 No" } else { "200 OK" };
        if head.contains("/close") {
            return;
        }
        let reply = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(reply.as_bytes()).unwrap();
        input.clear();
    }
}

/// Carries a source out over one connection.
fn drive(mut source: Box<dyn RequestSource>, address: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut out = Vec::new();
    loop {
        out.clear();
        let meta = match source.next(&mut out) {
            Step::Send(meta) => meta,
            Step::Pause(_) => continue,
            Step::End => return,
        };
        stream.write_all(&out).unwrap();
        let mut input = Vec::new();
        let mut head = ResponseHead::new();
        loop {
            let mut chunk = [0; 4096];
            let length = stream.read(&mut chunk).unwrap();
            assert!(length > 0, "closed early");
            input.extend_from_slice(&chunk[..length]);
            let limits = Limits { head: 8192, fields: 64, target: 8192 };
            match decode_response(&input, &limits, Method::Get, &mut head) {
                Ok(Decoded::Complete { consumed }) if input.ends_with(b"}") => {
                    let body = &input[consumed..];
                    let body_length = u64::try_from(body.len()).unwrap();
                    let reply = Reply { head: &head, body, body_length, elapsed: 1 };
                    source.on_response(meta, &reply);
                    break;
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_server_sees_each_request_once_however_many_workers_there_are() {
    let (address, seen) = server();
    let text = format!(
        "variables: [{{name: n, type: sequence}}]\nrunner: {{default_endpoint: \
         'http://{address}'}}\nrequests:\n  - request: {{method: POST, url: '/doc/$[[n]]', body: \
         'b$[[n]]'}}\n    register: {{last: _ctx.response.body_json.n}}\n    assert: {{range: \
         {{_ctx.response.body_json.n: {{gt: 0}}}}}}\n  - request: {{url: '/last/$[[last]]'}}\n"
    );
    let plan = plan(&text, Limit { requests: Some(101), rounds: None });
    drive(plan.warm_up().unwrap(), &address);
    std::thread::scope(|scope| {
        for number in 0..7 {
            let (plan, address) = (&plan, &address);
            scope.spawn(move || drive(plan.worker(number), address));
        }
    });
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 101);
    assert_eq!(plan.counts().invalid, 0);
    assert_eq!(seen[0], "POST /doc/1 HTTP/1.1 b2");
    assert_eq!(seen[1], "GET /last/1 HTTP/1.1 ");
    assert!(!seen.iter().any(|line| line.contains("not_found")));
}
