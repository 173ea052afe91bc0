//! The compress filter: content of answers made smaller on its way to clients.

mod encoding;
mod judge;

use std::sync::Arc;

use sluice_coding::{Coding, Wish, wish};
use sluice_filter::{
    Filter, Owner, Phases, RequestContext, ResponseContext, ResponseVerdict, Transform, Verdict,
};
use sluice_message::{FieldId, Fields, RequestHead, SpaceExhausted};
use sluice_meter::FilterMeter;

use crate::altered::{forget_bytes, has_directive, vary_by_encoding, weaken, weaken_known};
use crate::media_range::MediaRange;
use encoding::{Encoding, Nothing};
use judge::{Judgement, judge};

/// How much is done to make content smaller, per coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// 1 to 9.
    pub gzip: u32,
    /// 0 to 11.
    pub brotli: u32,
    /// 1 to 22.
    pub zstd: u32,
}

/// What becomes of answers by whose length another site might learn something: those to requests that a
/// page of another site makes with the user's credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// They are left as they are.
    Prevented,
    /// They are made smaller like others.
    Ignored,
}

/// What is made smaller, and how.
#[derive(Clone, Debug)]
pub struct CompressOptions {
    /// The codings, the best first.
    pub codings: Vec<Coding>,
    /// How much is done.
    pub levels: Levels,
    /// Media types.
    pub types: Vec<MediaRange>,
    /// Bytes below which content stays as it is.
    pub minimum: u64,
    /// What becomes of answers to other sites.
    pub breach: Breach,
}

/// See the module.
#[derive(Debug)]
pub struct Compress {
    options: CompressOptions,
    /// Whose notes are its own.
    owner: Owner,
    meter: Arc<FilterMeter>,
}

/// What is known of a request and its answer, kept in notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memo {
    wish: Wish,
    /// The answer may tell another site something.
    guarded: bool,
    /// The client wants content as it is.
    untouched: bool,
    /// What the content of the answer is to become, once that is known.
    chosen: Option<Coding>,
}

impl Levels {
    const fn of(self, coding: Coding) -> u32 {
        match coding {
            Coding::Gzip | Coding::Deflate => self.gzip,
            Coding::Brotli => self.brotli,
            Coding::Zstd => self.zstd,
        }
    }
}

impl Compress {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = judge::OUTCOMES;

    /// With these options.
    #[must_use]
    pub fn new(options: CompressOptions, meter: Arc<FilterMeter>) -> Self {
        Self { options, owner: Owner::new(), meter }
    }

    fn look(&self, request: &RequestHead) -> Memo {
        let fields = &request.fields;
        Memo {
            wish: wish(fields.values_of(b"accept-encoding"), &self.options.codings),
            guarded: self.options.breach == Breach::Prevented && is_foreign(fields),
            untouched: has_directive(fields, b"no-transform"),
            chosen: None,
        }
    }

    /// What was noted when the request came. Where another filter has answered before, it is as it came.
    fn memo(&self, context: &ResponseContext<'_>) -> Memo {
        match context.notes.kept(self.owner) {
            Some(numbers) => Memo::of(numbers),
            None => self.look(context.request),
        }
    }
}

impl Filter for Compress {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD | Phases::RESPONSE_HEAD | Phases::RESPONSE_BODY
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        // Filters behind this one may ask the origin for something else. A request that is routed anew has been
        // changed by them already.
        if context.notes.kept(self.owner).is_none() {
            context.notes.keep(self.owner, self.look(context.request).numbers());
        }
        Verdict::Continue
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        let mut memo = self.memo(context);
        let judgement = judge(&self.options, &memo, context.response);
        let fields = &mut context.response.fields;
        if judgement == Judgement::Unchanged && weaken_known(&context.request.fields, fields) {
            // An answer without room stays right: only what is kept of it is used less.
            let _ = vary_by_encoding(fields);
        }
        if judgement.may_differ() && vary_by_encoding(fields).is_err() {
            // Without room to say so it must not differ.
            memo.chosen = None;
        } else if let Judgement::Coded(coding) = judgement {
            memo.chosen = announce(fields, coding).is_ok().then_some(coding);
        }
        self.meter.count(context.gateway.worker(), judgement.outcome());
        context.notes.keep(self.owner, memo.numbers());
        ResponseVerdict::Continue
    }

    fn response_body(&self, context: &mut ResponseContext<'_>) -> Option<Box<dyn Transform>> {
        let coding = self.memo(context).chosen?;
        let fields = &context.response.fields;
        // Another filter may have put an answer of its own in the place of this one.
        let mut last = None;
        for value in fields.values_of(b"content-encoding") {
            last = Some(value);
        }
        if last != Some(coding.name().as_bytes()) {
            return None;
        }
        if context.request.method == sluice_message::Method::Head {
            // Nothing comes: what is said of its length goes all the same.
            return Some(Box::new(Nothing));
        }
        let extent = judge::extent(context.response);
        let level = self.options.levels.of(coding);
        Some(Box::new(Encoding::new(coding, level, extent)))
    }
}

impl Memo {
    fn of([wish, flags, chosen, _]: [u32; 4]) -> Self {
        let coding = |number: u32| {
            let place = usize::try_from(number).ok()?.checked_sub(1)?;
            Coding::ALL.get(place).copied()
        };
        let wish = match (coding(wish & 0xff), wish >> 8) {
            (None, _) => Wish::Plain,
            (Some(coding), 0) => Wish::Coded(coding),
            (Some(coding), _) => Wish::CodedOnly(coding),
        };
        Self { wish, guarded: flags & 1 != 0, untouched: flags & 2 != 0, chosen: coding(chosen) }
    }

    fn numbers(self) -> [u32; 4] {
        let number = |coding| {
            let place = Coding::ALL.iter().position(|known| *known == coding).unwrap_or(0);
            u32::try_from(place + 1).unwrap_or(0)
        };
        let wish = match self.wish {
            Wish::Plain => 0,
            Wish::Coded(coding) => number(coding),
            Wish::CodedOnly(coding) => number(coding) | 0x100,
        };
        let flags = u32::from(self.guarded) | u32::from(self.untouched) << 1;
        [wish, flags, self.chosen.map_or(0, number), 0]
    }
}

/// Whether a page of another site makes the request, without the user having clicked there, and with what the
/// user is known by: such a page may put its own text beside a secret and look at the length (BREACH).
fn is_foreign(fields: &Fields) -> bool {
    let says = |name: &[u8], what: &[u8]| fields.values_of(name).any(|value| value == what);
    says(b"sec-fetch-site", b"cross-site")
        && !says(b"sec-fetch-user", b"?1")
        && (fields.value(FieldId::Cookie).is_some()
            || fields.values_of(b"authorization").next().is_some())
}

/// Says that the content is in this coding.
fn announce(fields: &mut Fields, coding: Coding) -> Result<(), SpaceExhausted> {
    // None of those that are there names a coding.
    fields.remove_named(|name| name.eq_ignore_ascii_case(b"content-encoding"));
    fields.push(b"content-encoding", coding.name().as_bytes())?;
    forget_bytes(fields);
    weaken(fields);
    Ok(())
}

#[cfg(test)]
mod tests;
