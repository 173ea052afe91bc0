//! What holds for whatever is written as a condition or a template, and whatever a client sends.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use sluice_expression::{Condition, MAX_TEXT, Marks, Phase, Scope, Subject, Template, Word};
use sluice_message::{RequestHead, ResponseHead};

/// An exchange in which every text is the same one.
struct Exchange<'d> {
    request: RequestHead,
    response: ResponseHead,
    text: &'d [u8],
}

impl Subject for Exchange<'_> {
    fn request(&self) -> &RequestHead {
        &self.request
    }
    fn response(&self) -> Option<&ResponseHead> {
        Some(&self.response)
    }
    fn client(&self) -> IpAddr {
        Ipv6Addr::from(self.text.first_chunk::<16>().copied().unwrap_or_default()).into()
    }
    fn peer(&self) -> IpAddr {
        self.client()
    }
    fn port(&self) -> u16 {
        self.text.first_chunk::<2>().copied().map_or(0, u16::from_be_bytes)
    }
    fn word(&self, _: Word) -> Option<Cow<'_, [u8]>> {
        (!self.text.is_empty()).then_some(Cow::Borrowed(self.text))
    }
    fn capture(&self, _: &str) -> Option<Cow<'_, [u8]>> {
        self.word(Word::Route)
    }
    fn claim(&self, _: &[Box<str>]) -> Option<Cow<'_, [u8]>> {
        self.word(Word::Route)
    }
    fn note(&self, _: &str) -> Option<Cow<'_, [u8]>> {
        self.word(Word::Route)
    }
    fn unix_ms(&self) -> u64 {
        self.text.first_chunk::<8>().copied().map_or(0, u64::from_be_bytes)
    }
}

fn exchange(text: &[u8]) -> Exchange<'_> {
    let mut request = RequestHead::new();
    let whole = request.fields.append(text).unwrap();
    request.method_text = whole;
    request.path = whole;
    request.target = whole;
    request.query = whole;
    request.authority = whole;
    let mut response = ResponseHead::new();
    for name in [&b"x"[..], b"X", b"cookie", b"host"] {
        request.fields.push(name, text).unwrap();
        response.fields.push(name, text).unwrap();
    }
    Exchange { request, response, text }
}

/// Panics if a promise about expressions is broken: a text up to the first zero byte, behind it what a client
/// sends.
pub(crate) fn run(data: &[u8]) {
    let (text, sent) = data.split_at(data.iter().position(|byte| *byte == 0).unwrap_or(data.len()));
    let text = String::from_utf8_lossy(text);
    let subject = exchange(sent.get(..8 * 1024).unwrap_or(sent));
    for phase in [Phase::Request, Phase::Response] {
        let scope = Scope::new(phase).with_captures(["a", "id"]);
        condition(&text, &scope, &subject);
        template(&text, &scope, &subject);
    }
}

fn condition(text: &str, scope: &Scope, subject: &Exchange<'_>) {
    match Condition::compile(text, scope) {
        Ok(condition) => {
            let held = condition.holds(subject);
            assert_eq!(condition.holds::<dyn Subject>(subject), held);
            assert!(!held || Marks::of(subject.request()).has(condition.marks()));
            // What is deeper or longer by that may be refused.
            if let Ok(contrary) = Condition::compile(&format!("!({text})"), scope) {
                assert_eq!(contrary.holds(subject), !held);
                assert_eq!(contrary.needs(), condition.needs());
            }
        }
        Err(problem) => assert!(text.get(problem.span).is_some()),
    }
}

fn template(text: &str, scope: &Scope, subject: &Exchange<'_>) {
    match Template::compile(text, scope) {
        Ok(template) => {
            let mut rendered = b"before".to_vec();
            let outcome = template.render(subject, &mut rendered);
            assert!(rendered.starts_with(b"before") && rendered.len() <= 6 + 16 * 1024);
            assert!(outcome.is_ok() || rendered.len() == 6);
            if let Some(constant) = template.as_constant() {
                assert_eq!(rendered.get(6..), Some(constant));
                assert!(constant.len() <= MAX_TEXT);
            }
            let mut value = Vec::new();
            assert_eq!(template.render_field_value(subject, &mut value), outcome);
            assert!(value.iter().all(|byte| !byte.is_ascii_control() || *byte == b'\t'));
            assert!(value.len() <= rendered.len() && value.trim_ascii().len() == value.len());
        }
        Err(problem) => assert!(text.get(problem.span).is_some()),
    }
}
