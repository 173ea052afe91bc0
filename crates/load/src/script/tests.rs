//! Scripts read and carried out, without and with real connections.

mod dsl;
mod engine;
mod problems;
mod rounds;
mod values;
mod wire;

use std::io;
use std::path::Path;
use std::sync::Arc;

use sluice_message::ResponseHead;

use super::{Form, Limit, Plan, Script, Text};
use crate::source::{Reply, RequestMeta, RequestSource, Requests, Step, Verdict};

/// Reads a script that may use the file `words.txt` and the variable `HOST` of the environment.
fn read(text: &str) -> Result<Script, super::Problems> {
    read_as(Text { name: "s.yml", text, form: Form::Yaml, base: None })
}

fn read_as(text: Text<'_>) -> Result<Script, super::Problems> {
    let environment = |name: &str| (name == "HOST").then(|| "http://from.environment".to_owned());
    let files = |path: &Path| match path.to_str() {
        Some("words.txt") => Ok(b"one\r\ntwo\nthr\"ee\n".to_vec()),
        Some("empty.txt") => Ok(Vec::new()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    Script::read(text, &environment, &files)
}

fn plan(text: &str, limit: Limit) -> Arc<Plan> {
    let script = read(text).unwrap_or_else(|problems| panic!("{problems}"));
    Arc::new(script).plan(limit)
}

/// The next request as text; nothing at the end.
fn send(source: &mut dyn RequestSource) -> Option<(String, RequestMeta)> {
    let mut out = Vec::new();
    loop {
        match source.next(&mut out) {
            Step::Send(meta) => return Some((String::from_utf8(out).unwrap(), meta)),
            Step::Pause(_) => {}
            Step::End => return None,
        }
    }
}

/// Sends a request and answers it with 200 and a body.
fn answered(source: &mut dyn RequestSource, body: &str) -> Option<String> {
    let (text, meta) = send(source)?;
    answer(source, meta, (200, body));
    Some(text)
}

fn answer(
    source: &mut dyn RequestSource,
    meta: RequestMeta,
    (status, body): (u16, &str),
) -> Verdict {
    let head = ResponseHead { status, ..ResponseHead::default() };
    let reply = Reply {
        head: &head,
        body: body.as_bytes(),
        body_length: u64::try_from(body.len()).unwrap(),
        elapsed: 1000,
    };
    source.on_response(meta, &reply)
}

fn worker(plan: &Arc<Plan>) -> Box<dyn RequestSource> {
    plan.worker(0)
}

/// What stands behind the head.
fn body(request: &str) -> &str {
    request.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}
