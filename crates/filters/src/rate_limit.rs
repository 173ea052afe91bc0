//! Lets so many requests through in so much time, of each client or whatever else a key says.

use std::sync::Arc;

use sluice_filter::{
    Filter, Owner, Phases, Reply, RequestContext, ResponseContext, ResponseVerdict, Resume, Verdict,
};
use sluice_message::Fields;
use sluice_meter::FilterMeter;

use crate::digits::Digits;
use crate::key_source::KeySource;
use crate::quota::{Demand, Outcome, Quota, Standing, Store, Taken};

/// Rules that one filter may have.
pub const MOST_RATES: usize = 8;

/// One rule.
#[derive(Debug)]
pub struct Rate {
    /// How the rule is called where clients are told of it: letters, digits and `/`.
    pub name: String,
    /// How many.
    pub quota: Quota,
    /// Of whom.
    pub key: KeySource,
}

/// What becomes of requests beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// They are refused with this status.
    Refuse(u16),
    /// They are counted.
    CountOnly,
}

/// What becomes of requests whose key has no room to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// They go on.
    Pass,
    /// They are refused.
    Refuse,
}

/// How clients are told where they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateFields {
    /// `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`.
    Separate,
    /// `RateLimit-Policy`, `RateLimit` (draft-ietf-httpapi-ratelimit-headers).
    Structured,
    /// Not at all, but for `Retry-After`.
    None,
}

/// What is the same for all rules of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateManner {
    /// What becomes of requests beyond the limit.
    pub strictness: Strictness,
    /// What becomes of requests whose key has no room.
    pub when_full: WhenFull,
    /// How clients are told.
    pub fields: RateFields,
}

/// See the module.
#[derive(Debug)]
pub struct RateLimit {
    rates: Box<[Rate]>,
    store: Box<dyn Store>,
    judge: Arc<Judge>,
}

/// What decides once it is known where a key stands.
#[derive(Debug)]
struct Judge {
    manner: RateManner,
    told: Box<[Told]>,
    owner: Owner,
    meter: Arc<FilterMeter>,
}

/// What clients are told of a rule, made once.
#[derive(Debug)]
struct Told {
    limit: Digits,
    /// The rule as an item of `RateLimit-Policy`.
    policy: Vec<u8>,
    name: String,
}

/// Places among [`RateLimit::OUTCOMES`].
const PASSED: usize = 0;
const REFUSED: usize = 1;
const WOULD_REFUSE: usize = 2;
const UNCOUNTED: usize = 3;

const LIMIT: &[u8] = b"ratelimit-limit";
const REMAINING: &[u8] = b"ratelimit-remaining";
const RESET: &[u8] = b"ratelimit-reset";

impl RateLimit {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] =
        &["passed", "refused", "would_refuse", "uncounted"];

    /// With these rules, of which [`MOST_RATES`] are taken, counted in this store.
    #[must_use]
    pub fn new(
        rates: Vec<Rate>,
        manner: RateManner,
        store: Box<dyn Store>,
        meter: Arc<FilterMeter>,
    ) -> Self {
        let rates: Box<[Rate]> = rates.into_iter().take(MOST_RATES).collect();
        let told = rates.iter().map(Told::of).collect();
        let judge = Judge { manner, told, owner: Owner::new(), meter };
        Self { rates, store, judge: Arc::new(judge) }
    }

    #[inline]
    fn take(&self, context: &RequestContext<'_>) -> Taken {
        let now = context.gateway.now();
        match &*self.rates {
            [only] => only.key.with(&context.view(), |key| {
                self.store.take(&[Demand { key, quota: only.quota }], now)
            }),
            several => self.take_several(several, context, now),
        }
    }

    fn take_several(&self, rates: &[Rate], context: &RequestContext<'_>, now: u64) -> Taken {
        let mut keys = Vec::with_capacity(64);
        let mut ends = [0; MOST_RATES];
        for (end, rate) in ends.iter_mut().zip(rates) {
            rate.key.append(&context.view(), &mut keys);
            *end = keys.len();
        }
        let quota = Quota::new(1, 1, 1);
        let mut demands = [Demand { key: &[], quota }; MOST_RATES];
        let mut start = 0;
        for ((demand, rate), end) in demands.iter_mut().zip(rates).zip(ends) {
            let key = keys.get(start..end).unwrap_or_default();
            *demand = Demand { key, quota: rate.quota };
            start = end;
        }
        self.store.take(demands.get(..rates.len()).unwrap_or_default(), now)
    }
}

impl Filter for RateLimit {
    fn phases(&self) -> Phases {
        match self.judge.manner.fields {
            // Only who is refused is told anything, in the refusal itself.
            RateFields::None => Phases::REQUEST_HEAD,
            RateFields::Separate | RateFields::Structured => {
                Phases::REQUEST_HEAD | Phases::RESPONSE_HEAD
            }
        }
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        // A request that was routed anew counts once.
        if context.notes.kept(self.judge.owner).is_some() {
            return Verdict::Continue;
        }
        match self.take(context) {
            Taken::Now(standing) => self.judge.decide(standing, context),
            Taken::Later(standing) => {
                let judge = Arc::clone(&self.judge);
                Verdict::Wait(Box::pin(async move {
                    let standing = standing.await;
                    let resume: Resume = Box::new(move |context| judge.decide(standing, context));
                    resume
                }))
            }
        }
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        if let Some(numbers) = context.notes.kept(self.judge.owner) {
            // A head that is full says nothing of limits.
            let _ = self.judge.tell(numbers, &mut context.response.fields);
        }
        ResponseVerdict::Continue
    }
}

impl Judge {
    #[inline]
    fn decide(&self, standing: Standing, context: &mut RequestContext<'_>) -> Verdict {
        let worker = context.gateway.worker();
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let rule = u32::try_from(standing.rule).unwrap_or(u32::MAX);
        let (remaining, reset) = (small(standing.remaining), small(standing.reset));
        match (standing.outcome, self.manner.strictness) {
            (Outcome::Passed, _) => {
                self.meter.count(worker, PASSED);
                context.notes.keep(self.owner, [rule, remaining, reset, 0]);
                Verdict::Continue
            }
            (Outcome::Refused { retry_after }, Strictness::Refuse(status)) => {
                self.meter.count(worker, REFUSED);
                let retry_after = small(retry_after);
                context.notes.keep(self.owner, [rule, 0, reset, retry_after]);
                self.refuse(status, retry_after)
            }
            (Outcome::Refused { .. }, Strictness::CountOnly) => {
                self.meter.count(worker, WOULD_REFUSE);
                context.notes.keep(self.owner, NOTHING);
                Verdict::Continue
            }
            (Outcome::Unknown, strictness) => {
                self.meter.count(worker, UNCOUNTED);
                context.notes.keep(self.owner, NOTHING);
                match (self.manner.when_full, strictness) {
                    (WhenFull::Refuse, Strictness::Refuse(status)) => {
                        Verdict::refuse(status, "too many clients are counted")
                    }
                    _ => Verdict::Continue,
                }
            }
        }
    }

    /// Who is refused is told when to come back in any case. Where nothing else is told, nobody looks at the
    /// answer later: so it is told here.
    #[cold]
    fn refuse(&self, status: u16, retry_after: u32) -> Verdict {
        let mut reply = Reply::refusal(status, "too many requests");
        if self.manner.fields == RateFields::None {
            // A short answer has room for a line.
            let _ = reply.fields.push(b"retry-after", Digits::of(retry_after).text());
        }
        Verdict::Respond(Box::new(reply))
    }

    /// Tells the client where it stands. A dry run tells nothing.
    fn tell(
        &self,
        [rule, remaining, reset, retry_after]: [u32; 4],
        fields: &mut Fields,
    ) -> Result<(), sluice_message::SpaceExhausted> {
        let Some(told) = usize::try_from(rule).ok().and_then(|rule| self.told.get(rule)) else {
            return Ok(());
        };
        if self.manner.strictness == Strictness::CountOnly {
            return Ok(());
        }
        if retry_after > 0 && self.manner.fields != RateFields::None {
            fields.push(b"retry-after", Digits::of(retry_after).text())?;
        }
        match self.manner.fields {
            RateFields::None => Ok(()),
            RateFields::Separate => {
                // Of several limits the one that leaves the least is told, the origin's own included.
                let theirs = fields.values_of(REMAINING).next().and_then(number);
                if theirs.is_some_and(|theirs| theirs <= remaining) {
                    return Ok(());
                }
                if theirs.is_some() {
                    let ours = [LIMIT, REMAINING, RESET];
                    fields
                        .remove_named(|name| ours.iter().any(|our| our.eq_ignore_ascii_case(name)));
                }
                fields.push(LIMIT, told.limit.text())?;
                fields.push(REMAINING, Digits::of(remaining).text())?;
                fields.push(RESET, Digits::of(reset).text())
            }
            RateFields::Structured => {
                let (remaining, reset) = (Digits::of(remaining), Digits::of(reset));
                let item =
                    [b"\"", told.name.as_bytes(), b"\";r=", remaining.text(), b";t=", reset.text()];
                for told in &self.told {
                    fields.push(b"ratelimit-policy", &told.policy)?;
                }
                fields.push(b"ratelimit", &item.concat())
            }
        }
    }
}

/// The numbers of a request that nothing is told of.
const NOTHING: [u32; 4] = [u32::MAX; 4];

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl Told {
    fn of(rate: &Rate) -> Self {
        let burst = rate.quota.burst();
        Self {
            limit: Digits::of(u32::try_from(burst).unwrap_or(u32::MAX)),
            policy: format!("\"{}\";q={burst};w={}", rate.name, rate.quota.window()).into_bytes(),
            name: rate.name.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(fields: RateFields, strictness: Strictness) -> Judge {
        let rate = |name: &str, count, period| {
            let quota = Quota::new(count, period, count);
            Rate { name: name.to_owned(), quota, key: KeySource::Client { ipv6_prefix: 64 } }
        };
        let rates = [rate("10/s", 10, 1_000_000_000), rate("7/90s", 7, 90_000_000_000)];
        let manner = RateManner { strictness, when_full: WhenFull::Pass, fields };
        let meter = Arc::new(FilterMeter::new(1, RateLimit::OUTCOMES));
        let told = rates.iter().map(Told::of).collect();
        Judge { manner, told, owner: Owner::new(), meter }
    }

    fn told(judge: &Judge, numbers: [u32; 4], before: &[(&str, &str)]) -> Vec<String> {
        let mut fields = Fields::new();
        for (name, value) in before {
            fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        judge.tell(numbers, &mut fields).unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        fields.iter().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect()
    }

    #[test]
    fn clients_are_told_where_they_stand() {
        let force = Strictness::Refuse(429);
        let separate = judge(RateFields::Separate, force);
        let limits = ["ratelimit-limit: 7", "ratelimit-remaining: 3", "ratelimit-reset: 52"];
        assert_eq!(told(&separate, [1, 3, 52, 0], &[]), limits);
        let refused = told(&separate, [0, 0, 1, 2], &[]);
        assert_eq!(refused[..2], ["retry-after: 2", "ratelimit-limit: 10"]);
        // The origin leaves more, or less.
        let more = [("RateLimit-Limit", "9"), ("RateLimit-Remaining", "4")];
        assert_eq!(told(&separate, [1, 3, 52, 0], &more), limits);
        let less = [("RateLimit-Remaining", "2")];
        assert_eq!(told(&separate, [1, 3, 52, 0], &less), ["RateLimit-Remaining: 2"]);

        let structured = judge(RateFields::Structured, force);
        let expected = [
            "ratelimit-policy: \"10/s\";q=10;w=1",
            "ratelimit-policy: \"7/90s\";q=7;w=91",
            "ratelimit: \"7/90s\";r=3;t=52",
        ];
        assert_eq!(told(&structured, [1, 3, 52, 0], &[]), expected);
        let none = judge(RateFields::None, force);
        assert_eq!(told(&none, [0, 0, 1, 2], &[]), [""; 0]);
        let Verdict::Respond(reply) = none.refuse(429, 2) else { panic!("it is refused") };
        assert_eq!(reply.fields.values_of(b"retry-after").collect::<Vec<_>>(), [b"2"]);
        let silent = judge(RateFields::Separate, Strictness::CountOnly);
        assert_eq!(told(&silent, [0, 1, 1, 0], &[]), [""; 0]);
        assert_eq!(told(&separate, NOTHING, &[]), [""; 0]);
    }
}
