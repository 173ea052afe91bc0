//! Who may get a decision that was asked for on behalf of one request.

use sluice_expression::push_framed;
use sluice_filter::{Fetched, RequestContext};
use sluice_message::{Fields, parse_http_date};

use super::decisions::Sharing;
use super::personal::is_personal;
use super::{AuthProtocol, Decision, Inner, http};

/// Headers of the question that a decision depends on, and their values (RFC 9110, 12.5.5).
#[derive(Debug)]
pub(super) struct Selecting {
    names: Vec<Box<[u8]>>,
    values: Vec<u8>,
}

/// What a response says about sharing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowance {
    /// It is for one request alone.
    Nobody,
    /// It may be shared for so many seconds.
    Seconds(u64),
    /// It says nothing.
    Unsaid,
}

impl Inner {
    /// Who may get a decision, by the response it was made of. What it depends on is noted in it.
    pub(super) fn share(
        &self,
        decision: &mut Decision,
        answer: &Fetched,
        context: &RequestContext<'_>,
    ) -> Sharing {
        let Some(cache) = &self.settings.cache else { return Sharing::Nobody };
        let now = context.gateway.unix_ms() / 1000;
        let most = match &decision.denied {
            // Without the cookies that come with it a refusal may lead nowhere.
            Some(denial) if denial.fields.iter().any(|(name, _)| is_personal(name)) => {
                return Sharing::Nobody;
            }
            Some(_) => cache.negative_ttl.as_secs(),
            None => cache.ttl.as_secs(),
        };
        let seconds = match allowance(&answer.fields, now) {
            Allowance::Nobody => return Sharing::Nobody,
            Allowance::Seconds(seconds) => seconds.min(most),
            Allowance::Unsaid => most,
        };
        let names = names_in_vary(&answer.fields);
        if !names.is_empty() && !matches!(self.settings.protocol, AuthProtocol::Grpc(_)) {
            let Some(values) = self.values(&names, context) else { return Sharing::Nobody };
            decision.selecting = Some(Selecting { names, values });
        }
        match seconds {
            0 => Sharing::Waiting,
            seconds => Sharing::Until(now.saturating_add(seconds)),
        }
    }

    /// What the service is told of a request in these headers.
    fn values(&self, names: &[Box<[u8]>], context: &RequestContext<'_>) -> Option<Vec<u8>> {
        let asked = http::question(self, context).ok()?;
        let mut all = Vec::new();
        for name in names {
            let mut values = Vec::new();
            asked.fields.values_of(name).for_each(|value| push_framed(&mut values, value));
            push_framed(&mut all, &values);
        }
        Some(all)
    }
}

impl Decision {
    /// Whether it is for this request, which has its key.
    pub(super) fn is_for(&self, inner: &Inner, context: &RequestContext<'_>) -> bool {
        let Some(Selecting { names, values }) = &self.selecting else { return true };
        inner.values(names, context).is_some_and(|now| now == *values)
    }
}

/// The names in `Vary`, in lower case.
fn names_in_vary(fields: &Fields) -> Vec<Box<[u8]>> {
    let lines = fields.values_of(b"vary");
    let names = lines.flat_map(|line| line.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let names = names.filter(|name| !name.is_empty());
    names.map(|name| name.to_ascii_lowercase().into_boxed_slice()).collect()
}

/// What a response says about being shared (RFC 9111, 3 and 4.2.1).
fn allowance(fields: &Fields, now: u64) -> Allowance {
    let (mut age, mut shared_age) = (None, None);
    for value in fields.values_of(b"cache-control") {
        for directive in value.split(|byte| *byte == b',') {
            let directive = directive.trim_ascii();
            let (name, argument) = match directive.iter().position(|byte| *byte == b'=') {
                Some(at) => directive.split_at(at),
                None => (directive, &b""[..]),
            };
            let is = |known: &[u8]| name.trim_ascii_end().eq_ignore_ascii_case(known);
            // `private` and `no-cache` of single headers too: what is left of a decision without them is unknown.
            if is(b"no-store") || is(b"no-cache") || is(b"private") {
                return Allowance::Nobody;
            }
            if is(b"max-age") {
                age = age.or(Some(seconds(argument)));
            }
            if is(b"s-maxage") {
                shared_age = shared_age.or(Some(seconds(argument)));
            }
        }
    }
    if fields.values_of(b"vary").any(|line| line.split(|byte| *byte == b',').any(is_star)) {
        return Allowance::Nobody;
    }
    match shared_age.or(age).or_else(|| expiry(fields, now)) {
        Some(0) => Allowance::Nobody,
        Some(seconds) => Allowance::Seconds(seconds),
        None => Allowance::Unsaid,
    }
}

fn is_star(name: &[u8]) -> bool {
    name.trim_ascii() == b"*"
}

/// The seconds behind the equals sign of a directive; none if they cannot be read (RFC 9111, 4.2.1).
fn seconds(argument: &[u8]) -> u64 {
    let digits = argument.get(1..).unwrap_or_default().trim_ascii();
    let quoted = digits.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let digits = quoted.unwrap_or(digits);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    let text = std::str::from_utf8(digits).unwrap_or_default();
    // Only a number that does not fit is left (RFC 9111, 1.2.2).
    text.parse().unwrap_or(1 << 31)
}

/// The seconds until `Expires`; none if that is no date (RFC 9111, 5.3).
fn expiry(fields: &Fields, now: u64) -> Option<u64> {
    let expires = fields.values_of(b"expires").next()?;
    let date = fields.values_of(b"date").next().and_then(|date| parse_http_date(date, now));
    let until = parse_http_date(expires, now).unwrap_or(0);
    Some(until.saturating_sub(date.unwrap_or(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_says_who_may_share_it() {
        use Allowance::{Nobody, Seconds, Unsaid};
        let rows: [(&[(&str, &str)], Allowance); 21] = [
            (&[], Unsaid),
            (&[("Cache-Control", "public")], Unsaid),
            (&[("Cache-Control", "max-age=60")], Seconds(60)),
            (&[("Cache-Control", "public, max-age=\"5\"")], Seconds(5)),
            (&[("Cache-Control", "max-age=60, s-maxage=7")], Seconds(7)),
            (&[("Cache-Control", "max-age=60, max-age=5")], Seconds(60)),
            (&[("Cache-Control", "max-age=99999999999999999999999")], Seconds(1 << 31)),
            (&[("Cache-Control", "max-age=0")], Nobody),
            (&[("Cache-Control", "max-age=x")], Nobody),
            (&[("Cache-Control", "max-age=1.5")], Nobody),
            (&[("Cache-Control", "Max-Age = 7")], Seconds(7)),
            (&[("Cache-Control", "private")], Nobody),
            (&[("Cache-Control", "PRIVATE, max-age=60")], Nobody),
            (&[("Cache-Control", "private=\"set-cookie\", max-age=60")], Nobody),
            (&[("Cache-Control", "max-age=60"), ("Cache-Control", "no-store")], Nobody),
            (&[("Cache-Control", "no-cache, max-age=60")], Nobody),
            (&[("Vary", "accept, *")], Nobody),
            (&[("Vary", "accept")], Unsaid),
            (&[("Expires", "0")], Nobody),
            (
                &[
                    ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
                    ("Expires", "Sun, 06 Nov 1994 08:49:47 GMT"),
                ],
                Seconds(10),
            ),
            (
                &[("Expires", "Sun, 06 Nov 1994 08:49:47 GMT"), ("Cache-Control", "max-age=3")],
                Seconds(3),
            ),
        ];
        for (lines, expected) in rows {
            let mut fields = Fields::new();
            for (name, value) in lines {
                fields.push(name.as_bytes(), value.as_bytes()).unwrap();
            }
            assert_eq!(allowance(&fields, 784_111_777), expected, "{lines:?}");
        }
    }
}
