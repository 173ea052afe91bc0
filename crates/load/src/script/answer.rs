//! What a script may ask of an answer: the names of its parts and their values.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::source::Reply;

/// A part of an answer, or a registered value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Status,
    Header(Box<[u8]>),
    Body,
    BodyLength,
    /// The JSON document of the body, or what stands at a path in it.
    BodyJson(Box<[Step]>),
    Elapsed,
    Registered(usize),
}

/// One step into a JSON document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(Box<str>),
    Index(usize),
}

impl Part {
    /// The part a name means; `registered` are the names that requests register.
    pub(crate) fn named(name: &str, registered: &[String]) -> Option<Self> {
        if name == "_ctx.elapsed" {
            return Some(Self::Elapsed);
        }
        let Some(part) = name.strip_prefix("_ctx.response.") else {
            return registered.iter().position(|known| known == name).map(Self::Registered);
        };
        match part {
            "status" | "status_code" => return Some(Self::Status),
            "body" => return Some(Self::Body),
            "body_length" | "body_size" => return Some(Self::BodyLength),
            _ => {}
        }
        if let Some(header) = part.strip_prefix("header.").filter(|header| !header.is_empty()) {
            return Some(Self::Header(header.as_bytes().into()));
        }
        let path = part.strip_prefix("body_json")?;
        if !path.is_empty() && !path.starts_with(['.', '[']) {
            return None;
        }
        steps(path.strip_prefix('.').unwrap_or(path)).map(Self::BodyJson)
    }

    /// Whether the content of the answer is needed for it.
    pub(crate) const fn needs_body(&self) -> bool {
        matches!(self, Self::Body | Self::BodyJson(_))
    }

    /// Whether it is the status.
    pub(crate) const fn is_status(&self) -> bool {
        matches!(self, Self::Status)
    }
}

/// `a.b[0].c` in steps.
fn steps(path: &str) -> Option<Box<[Step]>> {
    let mut steps = Vec::new();
    for part in path.split('.').filter(|_| !path.is_empty()) {
        let (key, indices) = part.split_at(part.find('[').unwrap_or(part.len()));
        if !key.is_empty() {
            steps.push(Step::Key(key.into()));
        } else if indices.is_empty() {
            return None;
        }
        let mut rest = indices;
        while let Some(inside) = rest.strip_prefix('[') {
            let (number, behind) = inside.split_once(']')?;
            steps.push(Step::Index(number.parse().ok()?));
            rest = behind;
        }
        if !rest.is_empty() {
            return None;
        }
    }
    Some(steps.into())
}

/// An answer with what was worked out about it so far.
pub(crate) struct Answer<'a> {
    pub(crate) reply: &'a Reply<'a>,
    pub(crate) registered: &'a [Option<Vec<u8>>],
    /// The body as JSON; nothing if it is none, or nobody asked.
    pub(crate) json: Option<Json>,
}

/// A value of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fact<'a> {
    Number(f64),
    Text(Cow<'a, str>),
    Json(&'a Json),
}

impl<'a> Answer<'a> {
    /// The value of a part, if the answer has it.
    pub(crate) fn fact(&'a self, part: &Part) -> Option<Fact<'a>> {
        match part {
            Part::Status => Some(Fact::Number(f64::from(self.reply.head.status))),
            Part::Header(name) => {
                let fields = &self.reply.head.fields;
                let (_, value) =
                    fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(name))?;
                Some(Fact::Text(String::from_utf8_lossy(value)))
            }
            Part::Body => Some(Fact::Text(String::from_utf8_lossy(self.reply.body))),
            Part::BodyLength => Some(Fact::Number(float(self.reply.body_length))),
            Part::BodyJson(path) => {
                let mut at = self.json.as_ref()?;
                for step in path {
                    at = match step {
                        Step::Key(key) => match at {
                            // `a.0` is an element too.
                            Json::Array(list) => list.get(key.parse::<usize>().ok()?)?,
                            _ => at.get(&**key)?,
                        },
                        Step::Index(index) => at.get(index)?,
                    };
                }
                Some(Fact::Json(at))
            }
            Part::Elapsed => Some(Fact::Number(float(self.reply.elapsed) / 1e6)),
            Part::Registered(slot) => {
                let value = self.registered.get(*slot)?.as_ref()?;
                Some(Fact::Text(String::from_utf8_lossy(value)))
            }
        }
    }
}

impl Fact<'_> {
    /// As a number, if it is one or a text that spells one.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.trim().parse().ok(),
            Self::Json(Json::String(text)) => text.trim().parse().ok(),
            Self::Json(json) => json.as_f64(),
        }
    }

    /// As a text: what is registered, and what texts are compared with.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Number(number) => Cow::Owned(number.to_string()),
            Self::Text(text) => Cow::Borrowed(text),
            Self::Json(Json::String(text)) => Cow::Borrowed(text),
            Self::Json(json) => Cow::Owned(json.to_string()),
        }
    }
}

#[expect(clippy::as_conversions, reason = "lengths and times beyond 2^53 lose their last digits")]
pub(crate) const fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts() {
        let registered = ["id".to_owned()];
        let key = |key: &str| Step::Key(key.into());
        let json = |steps: Vec<Step>| Some(Part::BodyJson(steps.into()));
        let rows = [
            ("_ctx.response.status", Some(Part::Status)),
            ("_ctx.response.header.X-Id", Some(Part::Header(b"X-Id".as_slice().into()))),
            ("_ctx.response.header.", None),
            ("_ctx.response.body", Some(Part::Body)),
            ("_ctx.response.body_length", Some(Part::BodyLength)),
            ("_ctx.response.body_json", json(vec![])),
            ("_ctx.response.body_json.a.b", json(vec![key("a"), key("b")])),
            (
                "_ctx.response.body_json.a[2][0].b",
                json(vec![key("a"), Step::Index(2), Step::Index(0), key("b")]),
            ),
            ("_ctx.response.body_json[1]", json(vec![Step::Index(1)])),
            ("_ctx.response.body_json.a..b", None),
            ("_ctx.response.body_json.a[x]", None),
            ("_ctx.response.body_jsonx", None),
            ("_ctx.elapsed", Some(Part::Elapsed)),
            ("id", Some(Part::Registered(0))),
            ("_ctx.request.method", None),
            ("other", None),
        ];
        for (name, expected) in rows {
            assert_eq!(Part::named(name, &registered), expected, "{name}");
        }
    }
}
