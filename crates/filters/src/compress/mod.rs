//! The compress filter: content of answers made smaller on its way to clients.

mod cost;
mod encoding;
mod identity;
mod judge;
mod store;

use std::sync::Arc;

use sluice_coding::{Coding, Wish, wish};
use sluice_filter::{
    Filter, Owner, Phases, Reply, RequestContext, ResponseCondition, ResponseContext,
    ResponseVerdict, SharedBytes, Transform, Verdict,
};
use sluice_message::{FieldId, Fields, Method, RequestHead, SpaceExhausted};
use sluice_meter::FilterMeter;

use crate::altered::{forget_bytes, has_directive, vary_by_encoding, weaken, weaken_known};
use crate::media_range::MediaRange;
use cost::{FAST, is_short, passing};
use encoding::{Encoding, Keeping, Nothing, compress};
use identity::Prints;
use judge::{Judgement, judge};
use sluice_coding::Extent;
use store::{Print, Store};

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
    /// Bytes of what was compressed once and is kept.
    pub memory: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Compress {
    options: CompressOptions,
    prints: Prints,
    /// What was compressed once, unless nothing is to be kept.
    store: Option<Arc<Store>>,
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
    /// What it is kept by, if it can be.
    print: Option<Print>,
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
        let store = (options.memory > 0).then(|| Arc::new(Store::new(options.memory)));
        Self { options, prints: Prints::default(), store, owner: Owner::new(), meter }
    }

    fn look(&self, request: &RequestHead) -> Memo {
        let fields = &request.fields;
        Memo {
            wish: wish(fields.values_of(b"accept-encoding"), &self.options.codings),
            guarded: self.options.breach == Breach::Prevented && is_foreign(fields),
            untouched: has_directive(fields, b"no-transform"),
            chosen: None,
            print: None,
        }
    }

    /// What was made of the answer's content before, or what it is to be kept by.
    fn recall(
        &self,
        context: &ResponseContext<'_>,
        coding: Coding,
    ) -> (Option<SharedBytes>, Option<Print>) {
        let Some(store) = &self.store else { return (None, None) };
        let print = self.prints.of(context, coding);
        (print.and_then(|print| store.find(print, context.whole.bytes())), print)
    }

    /// How content is put into a coding and kept. What takes long is done elsewhere, and what passes meanwhile is
    /// compressed fast.
    fn encode(
        &self,
        context: &ResponseContext<'_>,
        coding: Coding,
        print: Option<Print>,
    ) -> Encoding {
        let level = self.options.levels.of(coding);
        let extent = judge::extent(context.response);
        let passing = Encoding::new(coding, passing(coding, level), extent);
        let (Some(store), Some(print)) = (&self.store, print) else { return passing };
        let largest = store.largest();
        if matches!(extent, Extent::Endless)
            || matches!(extent, Extent::Known(bytes) if usize::try_from(bytes).is_ok_and(|it| it > largest))
        {
            return passing;
        }
        let Some(filling) = store.begin(print) else {
            // Somebody makes it at this moment, and there may be many like this one.
            return Encoding::new(coding, FAST.min(level), extent);
        };
        let plain = identity::kept(context.whole);
        let short = matches!(extent, Extent::Known(bytes) if is_short(coding, level, bytes));
        if short {
            return Encoding::new(coding, level, extent)
                .keeping(Keeping::coded(filling, plain, largest));
        }
        let fast = Encoding::new(coding, FAST.min(level), extent);
        let elsewhere = context.gateway.elsewhere();
        match plain {
            Some(plain) => {
                // Whoever waits for it comes later.
                drop(elsewhere(Box::new(move || {
                    if let Some(coded) = compress((coding, level), &plain) {
                        filling.put(Some(plain), coded.into());
                    }
                })));
                fast
            }
            None => fast.keeping(Keeping::plain(filling, (coding, level), largest, elsewhere)),
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

    fn response_condition(&self) -> ResponseCondition {
        // The request is only looked at: which codings its client accepts.
        ResponseCondition::Prepared
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
        (memo.chosen, memo.print) = (None, None);
        let judgement = judge(&self.options, &memo, context.response);
        // By what the origin says, before any of it is changed.
        let (mut found, print) = match judgement {
            Judgement::Coded(coding) => self.recall(context, coding),
            _ => (None, None),
        };
        let fields = &mut context.response.fields;
        if judgement == Judgement::Unchanged && weaken_known(&context.request.fields, fields) {
            // An answer without room stays right: only what is kept of it is used less.
            let _ = vary_by_encoding(fields);
        }
        // Without room to say so it must not differ.
        let said = !judgement.may_differ() || vary_by_encoding(fields).is_ok();
        match judgement {
            Judgement::Coded(coding) if said && announce(fields, coding).is_ok() => {
                (memo.chosen, memo.print) = (Some(coding), print);
            }
            _ => found = None,
        }
        let outcome = if found.is_some() { judge::REUSED } else { judgement.outcome() };
        self.meter.count(context.gateway.worker(), outcome);
        if found.is_some() {
            memo.chosen = None;
        }
        context.notes.keep(self.owner, memo.numbers());
        match found {
            None => ResponseVerdict::Continue,
            Some(coded) => ResponseVerdict::Replace(Box::new(replacement(context, coded))),
        }
    }

    fn response_body(&self, context: &mut ResponseContext<'_>) -> Option<Box<dyn Transform>> {
        let memo = self.memo(context);
        let coding = memo.chosen?;
        // Another filter may have put an answer of its own in the place of this one.
        let last = context.response.fields.values_of(b"content-encoding").last();
        if last != Some(coding.name().as_bytes()) {
            return None;
        }
        if context.request.method == Method::Head {
            // Nothing comes: what is said of its length goes all the same.
            return Some(Box::new(Nothing));
        }
        Some(Box::new(self.encode(context, coding, memo.print)))
    }
}

/// The answer with content that was compressed before.
fn replacement(context: &ResponseContext<'_>, coded: SharedBytes) -> Reply {
    let mut fields = context.response.fields.clone();
    fields.remove(FieldId::ContentLength);
    Reply { status: context.response.status, fields, body: coded.into(), reason: None }
}

impl Memo {
    fn of([told, one, two, three]: [u32; 4]) -> Self {
        let coding = |number: u32| {
            let place = usize::try_from(number & 0xf).ok()?.checked_sub(1)?;
            Coding::ALL.get(place).copied()
        };
        let wish = match (coding(told), told & ONLY) {
            (None, _) => Wish::Plain,
            (Some(coding), 0) => Wish::Coded(coding),
            (Some(coding), _) => Wish::CodedOnly(coding),
        };
        let print = Print(u64::from(one) << 32 | u64::from(two), three);
        Self {
            wish,
            guarded: told & GUARDED != 0,
            untouched: told & UNTOUCHED != 0,
            chosen: coding(told >> 4),
            print: (told & PRINTED != 0).then_some(print),
        }
    }

    fn numbers(self) -> [u32; 4] {
        let number = |coding| {
            let place = Coding::ALL.iter().position(|known| *known == coding).unwrap_or(0);
            u32::try_from(place + 1).unwrap_or(0)
        };
        let flag = |holds, flag| if holds { flag } else { 0 };
        let wish = match self.wish {
            Wish::Plain => 0,
            Wish::Coded(coding) => number(coding),
            Wish::CodedOnly(coding) => number(coding) | ONLY,
        };
        let told = wish
            | self.chosen.map_or(0, number) << 4
            | flag(self.guarded, GUARDED)
            | flag(self.untouched, UNTOUCHED)
            | flag(self.print.is_some(), PRINTED);
        let Print(long, three) = self.print.unwrap_or(Print(0, 0));
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(0);
        [told, half(long >> 32), half(long), three]
    }
}

/// Flags of a memo, beside the codings in its lowest byte.
const ONLY: u32 = 1 << 8;
const GUARDED: u32 = 1 << 9;
const UNTOUCHED: u32 = 1 << 10;
const PRINTED: u32 = 1 << 11;

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
