//! The respond filter: gives an answer itself, at once or after a while.

use std::sync::Arc;
use std::time::Duration;

use sluice_expression::Template;
use sluice_filter::{Filter, Phases, Reply, RequestContext, Resume, Verdict};
use sluice_meter::FilterMeter;

/// An answer.
#[derive(Clone, Debug)]
pub struct Mock {
    /// 200 to 599.
    pub status: u16,
    /// Names, which are valid, and values.
    pub fields: Vec<(Box<str>, Template)>,
    /// The content.
    pub body: MockBody,
    /// How long the client waits for it.
    pub delay: Duration,
}

/// The content of an answer.
#[derive(Clone, Debug)]
pub enum MockBody {
    /// Always this.
    Bytes(Arc<[u8]>),
    /// What this becomes.
    Template(Template),
}

/// See the module.
#[derive(Debug)]
pub struct Respond {
    mock: Mock,
    meter: Arc<FilterMeter>,
}

impl Respond {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = &["answered", "failed"];

    /// Gives this answer.
    #[must_use]
    pub fn new(mock: Mock, meter: Arc<FilterMeter>) -> Self {
        Self { mock, meter }
    }

    /// `None` if it is larger than an answer may be.
    fn reply(&self, context: &RequestContext<'_>) -> Option<Reply> {
        let Mock { status, fields, body, .. } = &self.mock;
        let view = context.view();
        let mut reply = Reply::new(*status);
        let mut value = Vec::new();
        for (name, template) in fields {
            value.clear();
            template.render_field_value(&view, &mut value).ok()?;
            reply.fields.push(name.as_bytes(), &value).ok()?;
        }
        let mut content = Vec::new();
        match body {
            MockBody::Bytes(bytes) => content.extend_from_slice(bytes),
            MockBody::Template(template) => {
                template.render(&view, &mut content).ok()?;
            }
        }
        reply.body = content.into();
        Some(reply)
    }
}

impl Filter for Respond {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let worker = context.gateway.worker();
        let Some(reply) = self.reply(context).map(Box::new) else {
            self.meter.count(worker, 1);
            return Verdict::refuse(500, "the answer is too long");
        };
        self.meter.count(worker, 0);
        if self.mock.delay.is_zero() {
            return Verdict::Respond(reply);
        }
        let sleep = context.gateway.sleep(self.mock.delay);
        Verdict::Wait(Box::pin(async move {
            sleep.await;
            let resume: Resume = Box::new(move |_| Verdict::Respond(reply));
            resume
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, lines};
    use sluice_expression::{Phase, Scope};

    fn template(text: &str) -> Template {
        Template::compile(text, &Scope::new(Phase::Request)).unwrap()
    }

    fn filter(mock: Mock) -> Respond {
        Respond::new(mock, Arc::new(FilterMeter::new(1, Respond::OUTCOMES)))
    }

    #[test]
    fn answers_are_made_of_the_request() {
        let mut mock = Mock {
            status: 418,
            fields: vec![("x-path".into(), template("{request.parameter.p}"))],
            body: MockBody::Template(template("{{\"path\":\"{request.path}\"}}")),
            delay: Duration::ZERO,
        };
        let mut scene = Scene::new("GET", "/a?p=b%0d%0aset-cookie:c", &[]);
        let reply = scene.ask(&filter(mock.clone())).unwrap();
        assert_eq!((reply.status, reply.body.bytes().unwrap()), (418, &b"{\"path\":\"/a\"}"[..]));
        assert_eq!(lines(&reply.fields), ["x-path: b  set-cookie:c"]);
        assert!(scene.lent.slept.borrow().is_empty());
        mock.delay = Duration::from_millis(250);
        mock.body = MockBody::Bytes(Arc::from(&b"bytes"[..]));
        let reply = scene.ask(&filter(mock)).unwrap();
        assert_eq!(reply.body.bytes().unwrap(), b"bytes");
        assert_eq!(*scene.lent.slept.borrow(), [Duration::from_millis(250)]);
    }

    #[test]
    fn an_answer_that_grows_too_long_is_none() {
        let long = "a".repeat(16_000);
        let mock = Mock {
            status: 200,
            fields: Vec::new(),
            body: MockBody::Template(template("{request.header.x}{request.header.x}")),
            delay: Duration::ZERO,
        };
        let reply = Scene::new("GET", "/", &[("x", &long)]).ask(&filter(mock)).unwrap();
        assert_eq!(reply.status, 500);
    }
}
