//! The body_replace filter: replaces texts in content while it passes.

use std::sync::Arc;

use sluice_filter::{
    Broken, Filter, Owner, Phases, RequestContext, ResponseCondition, ResponseContext,
    ResponseVerdict, Transform, Verdict,
};
use sluice_message::Fields;
use sluice_meter::FilterMeter;

use crate::altered::{drop_digests, forget_bytes, weaken};
use crate::media_range::{MediaRange, media_type};
use crate::replace::{Replacement, ReplacementStream};

/// Whose content is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// That of requests.
    Request,
    /// That of answers.
    Response,
}

/// See the module.
#[derive(Debug)]
pub struct BodyReplace {
    direction: Direction,
    replacements: Box<[Replacement]>,
    types: Box<[MediaRange]>,
    /// Whose notes are its own.
    owner: Owner,
    meter: Arc<FilterMeter>,
}

/// Places among [`BodyReplace::OUTCOMES`].
const SEARCHED: usize = 0;
const OTHER_TYPE: usize = 1;
const ENCODED: usize = 2;
const PARTIAL: usize = 3;

impl BodyReplace {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = &["searched", "other_type", "encoded", "partial"];

    /// Replaces one after the other in content of these types.
    #[must_use]
    pub fn new(
        direction: Direction,
        replacements: Vec<Replacement>,
        types: Vec<MediaRange>,
        meter: Arc<FilterMeter>,
    ) -> Self {
        let (replacements, types) = (replacements.into(), types.into());
        Self { direction, replacements, types, owner: Owner::new(), meter }
    }

    /// What is to be counted of content with these fields: whether it can be searched.
    fn judge(&self, fields: &Fields) -> usize {
        let coded = |coding: &[u8]| !coding.trim_ascii().eq_ignore_ascii_case(b"identity");
        if fields.values_of(b"content-encoding").any(coded) {
            return ENCODED;
        }
        let media = media_type(fields);
        if self.types.iter().any(|range| range.holds(media)) { SEARCHED } else { OTHER_TYPE }
    }

    fn transform(&self) -> Box<dyn Transform> {
        let streams = self.replacements.iter().map(Replacement::stream).collect();
        Box::new(Replacing { streams, buffers: [Vec::new(), Vec::new()] })
    }

    fn judge_answer(&self, context: &ResponseContext<'_>) -> usize {
        // A part of the origin's content is no part of what it would have become (RFC 9110, 15.3.7).
        if context.response.status == 206 { PARTIAL } else { self.judge(&context.response.fields) }
    }
}

impl Filter for BodyReplace {
    fn phases(&self) -> Phases {
        match self.direction {
            Direction::Request => Phases::REQUEST_BODY,
            Direction::Response => {
                Phases::REQUEST_HEAD | Phases::RESPONSE_HEAD | Phases::RESPONSE_BODY
            }
        }
    }

    fn response_condition(&self) -> ResponseCondition {
        match self.direction {
            Direction::Request => ResponseCondition::Refused,
            // A plain response is asked for whatever the response will say.
            Direction::Response => ResponseCondition::Prepared,
        }
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        // Compressed content could not be searched.
        context.request.fields.remove_read_as(b"accept-encoding");
        Verdict::Continue
    }

    fn request_body(&self, context: &mut RequestContext<'_>) -> Option<Box<dyn Transform>> {
        let outcome = self.judge(&context.request.fields);
        self.meter.count(context.gateway.worker(), outcome);
        if outcome != SEARCHED {
            return None;
        }
        drop_digests(&mut context.request.fields);
        Some(self.transform())
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        let outcome = self.judge_answer(context);
        self.meter.count(context.gateway.worker(), outcome);
        if outcome == SEARCHED {
            let fields = &mut context.response.fields;
            forget_bytes(fields);
            weaken(fields);
        }
        // Filters in front of this one may put the content into a coding afterwards.
        context.notes.keep(self.owner, [u32::from(outcome == SEARCHED), 0, 0, 0]);
        ResponseVerdict::Continue
    }

    fn response_body(&self, context: &mut ResponseContext<'_>) -> Option<Box<dyn Transform>> {
        let searched = match context.notes.kept(self.owner) {
            Some([searched, ..]) => searched == 1,
            None => self.judge_answer(context) == SEARCHED,
        };
        searched.then(|| self.transform())
    }
}

/// Replacements, each in what the one before it made.
#[derive(Debug)]
struct Replacing {
    streams: Vec<ReplacementStream>,
    buffers: [Vec<u8>; 2],
}

impl Transform for Replacing {
    fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        let Self { streams, buffers: [current, next] } = self;
        pass(streams, piece, (current, next));
        out.append(current);
        Ok(())
    }

    fn end(&mut self, _: &mut Option<Fields>, out: &mut Vec<u8>) -> Result<(), Broken> {
        let Self { streams, buffers: [current, next] } = self;
        let mut rest = streams.as_mut_slice();
        while let [first, others @ ..] = rest {
            let mut last = Vec::new();
            first.end(&mut last);
            pass(others, &last, (current, next));
            out.append(current);
            rest = others;
        }
        Ok(())
    }
}

/// What becomes of a piece is in `current` afterwards.
fn pass(
    streams: &mut [ReplacementStream],
    piece: &[u8],
    (current, next): (&mut Vec<u8>, &mut Vec<u8>),
) {
    current.clear();
    current.extend_from_slice(piece);
    for stream in streams {
        next.clear();
        stream.push(current, next);
        std::mem::swap(current, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replace::{Case, Occurrences};
    use crate::scene::Scene;

    fn filter(direction: Direction, pairs: &[(&str, &str)]) -> BodyReplace {
        let text = |(text, with): &(&str, &str)| {
            Replacement::of_text(text, with, Case::Matters, Occurrences::All).unwrap()
        };
        let types = vec![
            MediaRange::Prefix("text/".into()),
            MediaRange::Exact("application/json".into()),
            MediaRange::Suffix("+xml".into()),
        ];
        let meter = Arc::new(FilterMeter::new(1, BodyReplace::OUTCOMES));
        BodyReplace::new(direction, pairs.iter().map(text).collect(), types, meter)
    }

    fn through(transform: &mut dyn Transform, pieces: &[&str]) -> String {
        let mut out = Vec::new();
        for piece in pieces {
            transform.push(piece.as_bytes(), &mut out).unwrap();
            transform.flush(&mut out);
        }
        transform.end(&mut None, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_works_on_what_the_one_before_made() {
        let filter = filter(Direction::Response, &[("aa", "b"), ("bb", "c"), ("cx", "y")]);
        let mut scene = Scene::new("GET", "/", &[]).answered(200, &[("content-type", "text/html")]);
        for pieces in [&["aaaax"][..], &["a", "a", "a", "a", "x"], &["aaa", "ax"]] {
            let transform = scene.with_response(|context| filter.response_body(context));
            assert_eq!(through(&mut *transform.unwrap(), pieces), "y", "{pieces:?}");
        }
        let transform = scene.with_response(|context| filter.response_body(context));
        assert_eq!(through(&mut *transform.unwrap(), &["aaaac", "a"]), "cca");
    }

    #[test]
    fn content_that_can_be_searched_is() {
        let filter = filter(Direction::Response, &[("a", "b")]);
        type Lines = &'static [(&'static str, &'static str)];
        let rows: [(u16, Lines, bool); 12] = [
            (200, &[("content-type", "text/html; charset=utf-8")], true),
            (404, &[("content-type", "Text/Plain")], true),
            (200, &[("content-type", "application/json")], true),
            (200, &[("content-type", "application/jsonp")], false),
            (200, &[("content-type", "image/svg+xml;x")], true),
            (200, &[("content-type", "image/png")], false),
            (200, &[("content-type", "tex")], false),
            (200, &[], false),
            (206, &[("content-type", "text/html")], false),
            (200, &[("content-type", "text/html"), ("content-encoding", "gzip")], false),
            (200, &[("content-type", "text/html"), ("content-encoding", "identity")], true),
            (200, &[("content-type", "text/html"), ("content-encoding", "identity, br")], false),
        ];
        for (status, lines, searched) in rows {
            let mut scene = Scene::new("GET", "/", &[]).answered(status, lines);
            scene.answer(&filter);
            let transform = scene.with_response(|context| filter.response_body(context));
            assert_eq!(transform.is_some(), searched, "{status} {lines:?}");
        }
    }

    #[test]
    fn what_said_something_of_the_old_content_goes() {
        let filter = filter(Direction::Response, &[("a", "b")]);
        let lines = [
            ("ETag", "\"x\""),
            ("Accept-Ranges", "bytes"),
            ("Content-Digest", "sha-256=:x:"),
            ("Last-Modified", "y"),
        ];
        let html = [&[("content-type", "text/html")][..], &lines].concat();
        let mut scene = Scene::new("GET", "/", &[]).answered(200, &html);
        scene.answer(&filter);
        let expected = ["content-type: text/html", "Last-Modified: y", "etag: W/\"x\""];
        assert_eq!(scene.response_lines(), expected);
        let mut weak = Scene::new("GET", "/", &[])
            .answered(200, &[("content-type", "text/html"), ("etag", "W/\"x\"")]);
        weak.answer(&filter);
        assert_eq!(weak.response_lines()[1], "etag: W/\"x\"");
        let mut other = Scene::new("GET", "/", &[]).answered(200, &lines);
        other.answer(&filter);
        assert_eq!(other.response_lines().len(), 4);
    }

    #[test]
    fn requests_are_searched_or_ask_for_what_can_be() {
        let lines = [("Accept-Encoding", "gzip"), ("content-type", "text/plain")];
        let mut scene = Scene::new("POST", "/", &lines);
        assert!(scene.ask(&filter(Direction::Response, &[("a", "b")])).is_none());
        assert_eq!(scene.request_lines(), ["content-type: text/plain"]);
        let request = filter(Direction::Request, &[("a", "b")]);
        assert_eq!(request.phases(), Phases::REQUEST_BODY);
        let transform = scene.with_request(|context| request.request_body(context));
        assert_eq!(through(&mut *transform.unwrap(), &["banana"]), "bbnbnb");
        let mut other = Scene::new("POST", "/", &[("content-type", "image/png")]);
        assert!(other.with_request(|context| request.request_body(context)).is_none());
    }
}
