//! Whether an answer may be kept, for how long, and what may be made of it later (RFC 9111, 3 and 4).

use std::ops::RangeInclusive;

use sluice_message::{Fields, parse_http_date};

use crate::directives::{Directives, Flag, seconds};

/// What the configuration says about answers.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Names of targeted fields in lower case, the most important first (RFC 9213).
    pub targeted: Vec<Box<[u8]>>,
    /// Seconds that answers with these statuses are fresh for, where the origin does not say. The first counts.
    pub lifetimes: Vec<(RangeInclusive<u16>, u64)>,
    /// Seconds that a stale answer is given for while it is refreshed, where the origin does not say.
    pub stale_while_revalidate: u64,
    /// Seconds that a stale answer is given for while the origin fails, where the origin does not say.
    pub stale_if_error: u64,
    /// What requests with cookies come to.
    pub cookies: Cookies,
    /// What answers come to that set cookies.
    pub set_cookie: SetCookie,
}

/// What requests with cookies come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cookies {
    /// Their answers are kept if the origin says that they are for everybody.
    Careful,
    /// They are like others.
    Ignore,
    /// They go to the origin, and their answers are not kept.
    Bypass,
}

/// What answers come to that set cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetCookie {
    /// They are not kept.
    Refuse,
    /// They are kept without the cookies, which the first client alone gets.
    Strip,
}

/// What is to be known of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) fields: &'a Fields,
    /// Whether the request had `Authorization`.
    pub(crate) authorized: bool,
    /// Whether it had `Cookie`.
    pub(crate) cookies: bool,
    /// Seconds since 1970 when the answer came.
    pub(crate) now: u64,
    /// Seconds it took to come.
    pub(crate) delay: u64,
}

/// For how long and how an answer may be given again. Seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// How long it is fresh, from when the origin made it (RFC 9111, 4.2.1).
    pub(crate) lifetime: u64,
    /// How old it was when it came (RFC 9111, 4.2.3).
    pub(crate) age: u64,
    pub(crate) stale_while_revalidate: u64,
    pub(crate) stale_if_error: u64,
    pub(crate) staleness: Staleness,
    pub(crate) immutable: bool,
    /// Names of fields that are not kept; lower case.
    pub(crate) withheld: Vec<Box<[u8]>>,
}

/// Whether an answer may be given when it is no longer fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staleness {
    /// Under the conditions that are met then.
    Allowed,
    /// Only as the origin says with `stale-while-revalidate` or `stale-if-error` (RFC 9111, 5.2.2.10).
    AsSaid,
    /// Never (RFC 9111, 5.2.2.2 and 5.2.2.8).
    Forbidden,
    /// Not even while it would be fresh (RFC 9111, 5.2.2.4).
    AlwaysAsk,
}

/// Why an answer is not kept. In the words of the detail of `Cache-Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Status,
    NoStore,
    Private,
    Authorization,
    Cookie,
    SetCookie,
    NoLifetime,
    ClearSiteData,
    Vary,
    TooLarge,
    NoLength,
    Space,
}

impl Refusal {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::NoStore => "no-store",
            Self::Private => "private",
            Self::Authorization => "authorization",
            Self::Cookie => "cookie",
            Self::SetCookie => "set-cookie",
            Self::NoLifetime => "no-lifetime",
            Self::ClearSiteData => "clear-site-data",
            Self::Vary => "vary",
            Self::TooLarge => "too-large",
            Self::NoLength => "no-length",
            Self::Space => "no-space",
        }
    }
}

/// Statuses whose meaning this cache knows (RFC 9111, 3: `must-understand`).
const fn is_understood(status: u16) -> bool {
    matches!(
        status,
        200 | 203 | 204 | 300 | 301 | 302 | 303 | 307 | 308 | 404 | 405 | 410 | 414 | 451 | 500
            ..=504
    )
}

impl Rules {
    /// Whether a shared cache may keep the answer to a GET request (RFC 9111, 3), and on what terms.
    pub(crate) fn judge(&self, answer: &Answer<'_>) -> Result<Terms, Refusal> {
        // Parts are not put together, and 304 is no answer of its own.
        if answer.status < 200 || matches!(answer.status, 206 | 304) {
            return Err(Refusal::Status);
        }
        let targeted =
            self.targeted.iter().find_map(|name| Directives::targeted(answer.fields, name));
        let is_targeted = targeted.is_some();
        let said = targeted.unwrap_or_else(|| Directives::of(answer.fields));
        // RFC 9111, 5.2.2.3: who understands the status may leave `no-store` out of account.
        let understood = said.has(Flag::MustUnderstand) && is_understood(answer.status);
        if said.has(Flag::MustUnderstand) && !understood {
            return Err(Refusal::Status);
        }
        if said.has(Flag::NoStore) && !understood {
            return Err(Refusal::NoStore);
        }
        if said.has(Flag::Private) {
            return Err(Refusal::Private);
        }
        let open = said.has(Flag::Public) || said.s_maxage.is_some();
        // RFC 9111, 3.5.
        if answer.authorized && !open && !said.has(Flag::MustRevalidate) {
            return Err(Refusal::Authorization);
        }
        if answer.cookies && self.cookies != Cookies::Ignore && !open && !is_targeted {
            return Err(Refusal::Cookie);
        }
        if answer.fields.values_of(b"vary").any(|line| items(line).any(|name| name == b"*")) {
            return Err(Refusal::Vary);
        }
        let mut withheld = said.withheld.clone();
        let sets = answer.fields.values_of(b"set-cookie").next().is_some();
        if sets && !withheld.iter().any(|name| **name == *b"set-cookie") {
            match self.set_cookie {
                SetCookie::Refuse => return Err(Refusal::SetCookie),
                SetCookie::Strip => withheld.push((*b"set-cookie").into()),
            }
        }
        let own = lifetime(&said, is_targeted, answer);
        // It empties the browser of whoever gets it: the answer to somebody who signs out, unless the origin itself
        // says that others may get it.
        let clears = answer.fields.values_of(b"clear-site-data").next().is_some();
        if clears && own.is_none() && !said.has(Flag::Public) {
            return Err(Refusal::ClearSiteData);
        }
        let lifetime = own.or_else(|| self.lifetime_of(answer.status));
        let lifetime = match lifetime {
            _ if said.has(Flag::NoCache) => 0,
            Some(lifetime) => lifetime,
            // Allowed, and good for nothing but being asked for again.
            None if said.has(Flag::Public) => 0,
            None => return Err(Refusal::NoLifetime),
        };
        let staleness = staleness(&said);
        let patience = |said: Option<u64>, otherwise: u64| match staleness {
            Staleness::Allowed => said.unwrap_or(otherwise),
            Staleness::AsSaid => said.unwrap_or(0),
            Staleness::Forbidden | Staleness::AlwaysAsk => 0,
        };
        let terms = Terms {
            lifetime,
            age: age(answer),
            stale_while_revalidate: patience(
                said.stale_while_revalidate,
                self.stale_while_revalidate,
            ),
            stale_if_error: patience(said.stale_if_error, self.stale_if_error),
            staleness,
            immutable: said.has(Flag::Immutable),
            withheld,
        };
        let has = |name: &[u8]| answer.fields.values_of(name).next().is_some();
        // What is no date says nothing of when it was changed (RFC 9110, 8.8.2).
        let modified = answer.fields.values_of(b"last-modified").next();
        let is_date = |value| parse_http_date(value, answer.now).is_some();
        let comparable = has(b"etag") || modified.is_some_and(is_date);
        let longest = terms.stale_while_revalidate.max(terms.stale_if_error);
        // It could never be given to anybody.
        if lifetime.saturating_add(longest) <= terms.age && !comparable {
            return Err(Refusal::NoLifetime);
        }
        Ok(terms)
    }

    /// Seconds that an answer with this status is fresh for if its origin does not say.
    fn lifetime_of(&self, status: u16) -> Option<u64> {
        self.lifetimes
            .iter()
            .find(|(range, _)| range.contains(&status))
            .map(|(_, seconds)| *seconds)
    }
}

/// How long the answer is fresh by its origin's word (RFC 9111, 4.2.1; RFC 9213, 2.2).
fn lifetime(said: &Directives, targeted: bool, answer: &Answer<'_>) -> Option<u64> {
    if let Some(seconds) = said.s_maxage.or(said.max_age) {
        return Some(seconds);
    }
    if targeted {
        return None;
    }
    let mut lines = answer.fields.values_of(b"expires");
    let first = lines.next()?;
    // RFC 9111, 5.3: what is no date has passed already. So has what is said twice.
    let expires = parse_http_date(first, answer.now).filter(|_| lines.next().is_none());
    Some(expires.map_or(0, |expires| expires.saturating_sub(date(answer))))
}

/// When the origin made the answer, in seconds since 1970.
pub(crate) fn date(answer: &Answer<'_>) -> u64 {
    let date = answer.fields.values_of(b"date").next();
    date.and_then(|value| parse_http_date(value, answer.now)).unwrap_or(answer.now)
}

/// How old the answer was when it came (RFC 9111, 4.2.3).
fn age(answer: &Answer<'_>) -> u64 {
    let apparent = answer.now.saturating_sub(date(answer));
    let told = answer.fields.values_of(b"age").next();
    // RFC 9111, 5.1: of a list the first counts, and what is no number is ignored.
    let told = told.and_then(|value| items(value).next()).and_then(seconds).unwrap_or(0);
    apparent.max(told.saturating_add(answer.delay))
}

fn staleness(said: &Directives) -> Staleness {
    if said.has(Flag::NoCache) {
        return Staleness::AlwaysAsk;
    }
    if said.has(Flag::MustRevalidate) || said.has(Flag::ProxyRevalidate) {
        return Staleness::Forbidden;
    }
    // To a shared cache s-maxage means proxy-revalidate, too; what the origin says of the time after it counts.
    if said.s_maxage.is_some() { Staleness::AsSaid } else { Staleness::Allowed }
}

/// The members of a list (RFC 9110, 5.6.1).
pub(crate) fn items(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests;
