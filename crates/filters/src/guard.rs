//! The guard: refuses requests by method and size.

use std::sync::Arc;

use sluice_filter::{Filter, Phases, Reply, RequestContext, Verdict};
use sluice_message::{BodyLength, Method, RequestHead};
use sluice_meter::FilterMeter;

/// What requests may be like.
#[derive(Clone, Debug)]
pub struct GuardLimits {
    /// Methods that are let through; empty = all.
    pub methods: Vec<String>,
    /// Bytes of path and query.
    pub target: u64,
    /// Bytes of all header fields.
    pub header: u64,
    /// Header fields.
    pub fields: u64,
    /// Bytes of content.
    pub body: Option<u64>,
    /// Whether content has to say how long it is.
    pub length: Length,
}

/// Whether content has to say how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// It may.
    Optional,
    /// It has to.
    Required,
}

/// See the module.
#[derive(Debug)]
pub struct Guard {
    limits: GuardLimits,
    /// Those of the methods that have a word of their own.
    known: Vec<Method>,
    /// Value of `Allow`.
    allow: Vec<u8>,
    meter: Arc<FilterMeter>,
}

/// Places among [`Guard::OUTCOMES`].
const PASSED: usize = 0;
const REFUSED: usize = 1;

impl Guard {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = &["passed", "refused"];

    /// A guard with these limits.
    #[must_use]
    pub fn new(limits: GuardLimits, meter: Arc<FilterMeter>) -> Self {
        let known = limits.methods.iter().map(|name| Method::of(name.as_bytes()));
        let known = known.filter(|method| *method != Method::Extension).collect();
        let allow = limits.methods.join(", ").into_bytes();
        Self { limits, known, allow, meter }
    }

    fn refusal(&self, request: &RequestHead) -> Option<Reply> {
        let limits = &self.limits;
        if !self.allows(request) {
            let reply = Reply::refusal(405, "method not allowed here");
            // One line fits.
            return reply.with_field(b"allow", &self.allow).ok();
        }
        let refuse = |status, reason| Some(Reply::refusal(status, reason));
        if bytes(request.target()) > limits.target {
            return refuse(414, "target too long");
        }
        if limits.header < u64::MAX || limits.fields < u64::MAX {
            let sizes = request.fields.iter().map(|(name, value)| bytes(name) + bytes(value));
            let (count, sum) = sizes.fold((0, 0), |(count, sum), size| (count + 1, sum + size));
            if count > limits.fields || sum > limits.header {
                return refuse(431, "header too large");
            }
        }
        match request.body {
            BodyLength::Known(length) if limits.body.is_some_and(|most| length > most) => {
                refuse(413, "content too large")
            }
            BodyLength::Framed if limits.length == Length::Required => {
                refuse(411, "content of unknown length")
            }
            _ => None,
        }
    }

    fn allows(&self, request: &RequestHead) -> bool {
        if self.limits.methods.is_empty() {
            return true;
        }
        match request.method {
            Method::Extension => {
                let text = request.method_text();
                self.limits.methods.iter().any(|name| name.as_bytes() == text)
            }
            method => self.known.contains(&method),
        }
    }
}

impl Filter for Guard {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let worker = context.gateway.worker();
        if let Some(reply) = self.refusal(context.request) {
            self.meter.count(worker, REFUSED);
            return Verdict::Respond(Box::new(reply));
        }
        self.meter.count(worker, PASSED);
        if let Some(most) = self.limits.body {
            context.notes.limit_body(most);
        }
        Verdict::Continue
    }
}

fn bytes(text: &[u8]) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> GuardLimits {
        GuardLimits {
            methods: Vec::new(),
            target: u64::MAX,
            header: u64::MAX,
            fields: u64::MAX,
            body: None,
            length: Length::Optional,
        }
    }

    fn head(method: &str, target: &str, lines: &[(&str, &str)], body: BodyLength) -> RequestHead {
        let mut head = RequestHead::new();
        head.method = Method::of(method.as_bytes());
        head.method_text = head.fields.append(method.as_bytes()).unwrap();
        head.target = head.fields.append(target.as_bytes()).unwrap();
        for (name, value) in lines {
            head.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        head.body = body;
        head
    }

    #[test]
    fn requests_are_refused_for_what_they_are() {
        let get = |lines: &[(&str, &str)]| head("GET", "/abc", lines, BodyLength::Empty);
        let methods = |names: &[&str]| GuardLimits {
            methods: names.iter().map(|name| (*name).to_owned()).collect(),
            ..limits()
        };
        let post = |body| head("POST", "/", &[], body);
        let (framed, known) = (BodyLength::Framed, BodyLength::Known(11));
        let rows: [(GuardLimits, RequestHead, Option<u16>); 13] = [
            (limits(), get(&[("a", "b")]), None),
            (methods(&["GET", "PURGE"]), get(&[]), None),
            (methods(&["PURGE", "HEAD"]), get(&[]), Some(405)),
            (methods(&["PURGE"]), head("PURGE", "/", &[], BodyLength::Empty), None),
            (methods(&["PURGE"]), head("PURG", "/", &[], BodyLength::Empty), Some(405)),
            (GuardLimits { target: 4, ..limits() }, get(&[]), None),
            (GuardLimits { target: 3, ..limits() }, get(&[]), Some(414)),
            (GuardLimits { fields: 1, ..limits() }, get(&[("a", "b"), ("a", "c")]), Some(431)),
            (GuardLimits { header: 5, ..limits() }, get(&[("ab", "cde")]), None),
            (GuardLimits { header: 4, ..limits() }, get(&[("ab", "cde")]), Some(431)),
            (GuardLimits { body: Some(10), ..limits() }, post(known), Some(413)),
            (GuardLimits { body: Some(10), ..limits() }, post(framed), None),
            (GuardLimits { length: Length::Required, ..limits() }, post(framed), Some(411)),
        ];
        for (limits, head, status) in rows {
            let shown = format!("{limits:?}");
            let meter = Arc::new(FilterMeter::new(1, Guard::OUTCOMES));
            let reply = Guard::new(limits, meter).refusal(&head);
            assert_eq!(reply.as_ref().map(|reply| reply.status), status, "{shown}");
            if status == Some(405) {
                assert!(reply.unwrap().fields.values_of(b"allow").next().is_some());
            }
        }
    }
}
