//! `Cache-Control` and its kin, as an answer or a request says it (RFC 9111, 5.2).

use std::borrow::Cow;

use sluice_message::Fields;

/// Seconds that are meant for ever (RFC 9111, 1.2.2).
pub(crate) const FOREVER: u64 = 1 << 31;

/// What an answer says about keeping it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    flags: u16,
    pub(crate) max_age: Option<u64>,
    pub(crate) s_maxage: Option<u64>,
    /// RFC 5861, 3.
    pub(crate) stale_while_revalidate: Option<u64>,
    /// RFC 5861, 4.
    pub(crate) stale_if_error: Option<u64>,
    /// Names of fields that `no-cache` or `private` is about, if not the whole answer is meant; lower case.
    pub(crate) withheld: Vec<Box<[u8]>>,
}

/// A directive without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flag {
    NoStore = 1,
    NoCache = 2,
    Private = 4,
    Public = 8,
    MustRevalidate = 16,
    ProxyRevalidate = 32,
    MustUnderstand = 64,
    /// RFC 8246.
    Immutable = 128,
}

impl Flag {
    const fn bit(self) -> u16 {
        match self {
            Self::NoStore => 1,
            Self::NoCache => 2,
            Self::Private => 4,
            Self::Public => 8,
            Self::MustRevalidate => 16,
            Self::ProxyRevalidate => 32,
            Self::MustUnderstand => 64,
            Self::Immutable => 128,
        }
    }
}

/// What a request says about being answered from what is kept (RFC 9111, 5.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) no_store: bool,
    pub(crate) no_cache: bool,
    pub(crate) only_if_cached: bool,
    pub(crate) max_age: Option<u64>,
    /// How much too old an answer may be.
    pub(crate) max_stale: u64,
    pub(crate) min_fresh: u64,
    /// RFC 5861, 4.
    pub(crate) stale_if_error: Option<u64>,
}

impl Directives {
    /// Whether the directive is there.
    pub(crate) const fn has(&self, flag: Flag) -> bool {
        self.flags & flag.bit() != 0
    }

    /// What the lines of `Cache-Control` say together.
    pub(crate) fn of(fields: &Fields) -> Self {
        let mut all = Self::default();
        for line in fields.values_of(b"cache-control") {
            for (name, value) in Items(line) {
                all.take(&name.to_ascii_lowercase(), value.as_deref());
            }
        }
        all
    }

    /// What a targeted field says (RFC 9213, 2.1): a dictionary of structured fields. `None` if the field is
    /// absent, empty, or anything but that: it is as if it was not there (section 2.2).
    pub(crate) fn targeted(fields: &Fields, name: &[u8]) -> Option<Self> {
        let lines = fields.values_of(name).collect::<Vec<_>>();
        let whole = lines.join(&b", "[..]);
        let (mut all, mut rest) = (Self::default(), whole.trim_ascii());
        if rest.is_empty() {
            return None;
        }
        loop {
            let (key, value);
            (key, value, rest) = member(rest)?;
            match value {
                Member::Integer(number) => all.take(key, Some(number)),
                // RFC 9213, 2.1: a number is an integer. `max-age="60"` is of another type, and the field counts for
                // nothing.
                Member::Text(_) if is_number(key) => return None,
                Member::Text(text) => all.take(key, Some(&text)),
                // A flag that says false is not there.
                Member::False if is_number(key) => return None,
                Member::False => {}
                Member::True if is_number(key) => return None,
                Member::True => all.take(key, None),
            }
            rest = rest.trim_ascii_start();
            match rest.split_first() {
                None => return Some(all),
                Some((b',', behind)) => rest = behind.trim_ascii_start(),
                Some(_) => return None,
            }
            if rest.is_empty() {
                return None;
            }
        }
    }

    /// A directive, its name in lower case. Of several with a number the first counts (RFC 9111, 4.2.1).
    fn take(&mut self, name: &[u8], value: Option<&[u8]>) {
        let number = |place: &mut Option<u64>| {
            place.get_or_insert_with(|| value.and_then(seconds).unwrap_or(0));
        };
        let flag = match name {
            b"max-age" => return number(&mut self.max_age),
            b"s-maxage" => return number(&mut self.s_maxage),
            b"stale-while-revalidate" => return number(&mut self.stale_while_revalidate),
            b"stale-if-error" => return number(&mut self.stale_if_error),
            b"no-store" => Flag::NoStore,
            b"no-cache" => Flag::NoCache,
            b"private" => Flag::Private,
            b"public" => Flag::Public,
            b"must-revalidate" => Flag::MustRevalidate,
            b"proxy-revalidate" => Flag::ProxyRevalidate,
            b"must-understand" => Flag::MustUnderstand,
            b"immutable" => Flag::Immutable,
            _ => return,
        };
        if let (Flag::NoCache | Flag::Private, Some(names)) = (flag, value) {
            let names = names.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
            let names = names.filter(|name| !name.is_empty());
            let known = self.withheld.len();
            self.withheld.extend(names.map(|name| name.to_ascii_lowercase().into_boxed_slice()));
            if self.withheld.len() > known {
                return;
            }
        }
        self.flags |= flag.bit();
    }
}

impl Wishes {
    /// What the lines of `Cache-Control` say together; `Pragma` says it to whom knows no better
    /// (RFC 9111, 5.4).
    pub(crate) fn of(fields: &Fields) -> Self {
        let (mut wishes, mut any) = (Self::default(), false);
        for line in fields.values_of(b"cache-control") {
            any = true;
            for (name, value) in Items(line) {
                wishes.take(&name.to_ascii_lowercase(), value.as_deref());
            }
        }
        if !any {
            let old =
                |line: &[u8]| Items(line).any(|(name, _)| name.eq_ignore_ascii_case(b"no-cache"));
            wishes.no_cache = fields.values_of(b"pragma").any(old);
        }
        wishes
    }

    fn take(&mut self, name: &[u8], value: Option<&[u8]>) {
        let number = value.and_then(seconds);
        match name {
            b"no-store" => self.no_store = true,
            b"no-cache" => self.no_cache = true,
            b"only-if-cached" => self.only_if_cached = true,
            b"max-age" => self.max_age = self.max_age.or(Some(number.unwrap_or(0))),
            b"max-stale" if value.is_none() => self.max_stale = FOREVER,
            b"max-stale" => self.max_stale = self.max_stale.max(number.unwrap_or(0)),
            b"min-fresh" => self.min_fresh = self.min_fresh.max(number.unwrap_or(FOREVER)),
            b"stale-if-error" => self.stale_if_error = self.stale_if_error.or(number),
            _ => {}
        }
    }
}

/// Whether the value of the directive is a number.
fn is_number(name: &[u8]) -> bool {
    matches!(name, b"max-age" | b"s-maxage" | b"stale-while-revalidate" | b"stale-if-error")
}

/// Seconds of a directive; what no number holds is for ever, and what is no number is nothing
/// (RFC 9111, 1.2.2 and 4.2.1).
pub(crate) fn seconds(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| {
        sum.saturating_mul(10).saturating_add(u64::from(digit.wrapping_sub(b'0'))).min(FOREVER)
    };
    Some(value.iter().fold(0, add))
}

/// The directives of a line, with values whether they are quoted or not (RFC 9111, 5.2).
struct Items<'a>(&'a [u8]);

impl<'a> Iterator for Items<'a> {
    type Item = (&'a [u8], Option<Cow<'a, [u8]>>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.0.is_empty() {
                return None;
            }
            let (mut quoted, mut escaped) = (false, false);
            let end = self.0.iter().position(|&byte| {
                if escaped {
                    escaped = false;
                } else if quoted && byte == b'\\' {
                    escaped = true;
                } else {
                    quoted ^= byte == b'"';
                }
                byte == b',' && !quoted
            });
            let end = end.unwrap_or(self.0.len());
            let item = self.0.get(..end).unwrap_or_default().trim_ascii();
            self.0 = self.0.get(end.saturating_add(1)..).unwrap_or_default();
            if item.is_empty() {
                continue;
            }
            let Some(equals) = item.iter().position(|&byte| byte == b'=') else {
                return Some((item, None));
            };
            let (name, value) = item.split_at(equals);
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            return Some((name.trim_ascii(), Some(unquoted(value))));
        }
    }
}

/// A value without its quotes and escapes.
fn unquoted(value: &[u8]) -> Cow<'_, [u8]> {
    let Some(inner) = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else {
        return Cow::Borrowed(value);
    };
    if !inner.contains(&b'\\') {
        return Cow::Borrowed(inner);
    }
    let mut plain = Vec::new();
    let mut bytes = inner.iter();
    while let Some(&byte) = bytes.next() {
        plain.extend(if byte == b'\\' { bytes.next().copied() } else { Some(byte) });
    }
    Cow::Owned(plain)
}

/// The value of a member of a dictionary (RFC 8941, 3.2).
enum Member<'a> {
    Integer(&'a [u8]),
    Text(Vec<u8>),
    True,
    False,
}

/// Key and value of the first member, and what follows it; parameters are read over (RFC 9213, 2.1).
fn member(text: &[u8]) -> Option<(&[u8], Member<'_>, &[u8])> {
    let (key, mut rest) = key(text)?;
    let mut value = Member::True;
    if let Some(behind) = rest.strip_prefix(b"=") {
        (value, rest) = item(behind)?;
    }
    while let Some(behind) = rest.strip_prefix(b";") {
        let after_key;
        (_, after_key) = self::key(behind.trim_ascii_start())?;
        rest = match after_key.strip_prefix(b"=") {
            Some(behind) => item(behind)?.1,
            None => after_key,
        };
    }
    Some((key, value, rest))
}

/// A key and what follows it (RFC 8941, 3.1.2).
fn key(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let allowed = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*');
    let end = text.iter().position(|byte| !allowed(byte)).unwrap_or(text.len());
    let begins = matches!(text.first(), Some(b'a'..=b'z' | b'*'));
    begins.then(|| text.split_at(end))
}

/// An integer, a string, a truth or a token, and what follows it.
fn item(text: &[u8]) -> Option<(Member<'_>, &[u8])> {
    match text.first()? {
        b'?' => match text.get(1)? {
            b'1' => Some((Member::True, text.get(2..)?)),
            b'0' => Some((Member::False, text.get(2..)?)),
            _ => None,
        },
        b'"' => {
            let mut plain = Vec::new();
            let mut at = 1;
            loop {
                match *text.get(at)? {
                    b'"' => return Some((Member::Text(plain), text.get(at + 1..)?)),
                    b'\\' => {
                        at += 1;
                        plain.push(*text.get(at).filter(|byte| matches!(byte, b'"' | b'\\'))?);
                    }
                    byte @ 0x20..=0x7e => plain.push(byte),
                    _ => return None,
                }
                at += 1;
            }
        }
        b'0'..=b'9' => {
            let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
            let (digits, rest) = text.split_at(end);
            // A number with a fraction is no number of seconds.
            let whole = digits.len() <= 15 && rest.first() != Some(&b'.');
            whole.then_some((Member::Integer(digits), rest))
        }
        b'a'..=b'z' | b'A'..=b'Z' | b'*' => {
            let end = text.iter().position(|byte| matches!(byte, b',' | b';' | b' ' | b'\t'));
            let (token, rest) = text.split_at(end.unwrap_or(text.len()));
            Some((Member::Text(token.to_vec()), rest))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(name: &str, lines: &[&str]) -> Fields {
        let mut fields = Fields::new();
        for line in lines {
            fields.push(name.as_bytes(), line.as_bytes()).unwrap();
        }
        fields
    }

    /// Flags, max-age, s-maxage, stale-while-revalidate, stale-if-error, fields.
    type Expected<'a> = (&'a [Flag], [Option<u64>; 4], &'a [&'a str]);

    fn expected((flags, numbers, withheld): &Expected<'_>) -> Directives {
        Directives {
            flags: flags.iter().map(|flag| flag.bit()).sum(),
            max_age: numbers[0],
            s_maxage: numbers[1],
            stale_while_revalidate: numbers[2],
            stale_if_error: numbers[3],
            withheld: withheld.iter().map(|name| name.as_bytes().into()).collect(),
        }
    }

    #[test]
    fn cache_control_is_read_as_it_is_written_in_the_wild() {
        use Flag::{Immutable, MustRevalidate, NoCache, NoStore, Private, Public};
        const NONE: [Option<u64>; 4] = [None; 4];
        let aged = |seconds| [Some(seconds), None, None, None];
        let table: &[(&[&str], Expected<'_>)] = &[
            (&[], (&[], NONE, &[])),
            (&["max-age=60"], (&[], aged(60), &[])),
            // Names without case, values quoted or not (RFC 9111, 5.2).
            (&["MAX-AGE=\"60\""], (&[], aged(60), &[])),
            (&["public,,max-age=60 , immutable"], (&[Public, Immutable], aged(60), &[])),
            (&["no-store", "max-age=1"], (&[NoStore], aged(1), &[])),
            // RFC 9111, 4.2.1: of several the first counts, and nonsense is stale.
            (&["max-age=60, max-age=5"], (&[], aged(60), &[])),
            (&["max-age=1.5"], (&[], aged(0), &[])),
            (&["max-age=-1"], (&[], aged(0), &[])),
            (&["max-age"], (&[], aged(0), &[])),
            // RFC 9111, 1.2.2: more than fits.
            (&["max-age=99999999999999999999999"], (&[], aged(FOREVER), &[])),
            (&["private"], (&[Private], NONE, &[])),
            (&["private=\"Set-Cookie, X-A\""], (&[], NONE, &["set-cookie", "x-a"])),
            (&["no-cache=X-B, must-revalidate"], (&[MustRevalidate], NONE, &["x-b"])),
            (&["no-cache=\"\""], (&[NoCache], NONE, &[])),
            (&["ext=\"no-store, max-age=5\", public"], (&[Public], NONE, &[])),
            (&["ext=\"a\\\"b, no-store\""], (&[], NONE, &[])),
            (&["no-storex, xpublic"], (&[], NONE, &[])),
            (
                &["s-maxage=1, stale-while-revalidate=2, stale-if-error=3"],
                (&[], [None, Some(1), Some(2), Some(3)], &[]),
            ),
        ];
        for (lines, wanted) in table {
            assert_eq!(
                Directives::of(&fields("Cache-Control", lines)),
                expected(wanted),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn targeted_fields_are_structured_or_ignored() {
        use Flag::{NoStore, Public};
        let good: &[(&[&str], Expected<'_>)] = &[
            (&["max-age=60"], (&[], [Some(60), None, None, None], &[])),
            (&["max-age=60;a=1;b, public"], (&[Public], [Some(60), None, None, None], &[])),
            (&["no-store", "max-age=5"], (&[NoStore], [Some(5), None, None, None], &[])),
            (&["no-store=?0, public=?1"], (&[Public], [None; 4], &[])),
            (&["private=\"x-a\""], (&[], [None; 4], &["x-a"])),
            (&["other=token, public"], (&[Public], [None; 4], &[])),
        ];
        for (lines, wanted) in good {
            let read =
                Directives::targeted(&fields("CDN-Cache-Control", lines), b"cdn-cache-control");
            assert_eq!(read, Some(expected(wanted)), "{lines:?}");
        }
        // RFC 9213, 2.2: as if it was not there.
        let bad: &[&[&str]] = &[
            &[],
            &[""],
            &["max-age=60,"],
            &["Max-Age=60"],
            &["max-age=\"60"],
            &["max-age=1.5"],
            &["max-age"],
            &["max-age = 60"],
            &["max-age=60 public"],
            &["max-age=-1"],
            &["max-age=\"60\""],
            &["s-maxage=token"],
            &["max-age=?0"],
            &["public, stale-if-error=\"5\""],
            &["public=?2"],
            &["=5"],
            &["a=;b"],
        ];
        for lines in bad {
            let read =
                Directives::targeted(&fields("CDN-Cache-Control", lines), b"cdn-cache-control");
            assert_eq!(read, None, "{lines:?}");
        }
    }

    #[test]
    fn requests_have_wishes() {
        let wish = |lines: &[(&str, &str)]| {
            let mut fields = Fields::new();
            for (name, value) in lines {
                fields.push(name.as_bytes(), value.as_bytes()).unwrap();
            }
            Wishes::of(&fields)
        };
        let none = Wishes::default();
        assert_eq!(wish(&[]), none);
        let table = [
            ("no-cache", Wishes { no_cache: true, ..none }),
            ("No-Store, only-if-cached", Wishes { no_store: true, only_if_cached: true, ..none }),
            ("max-age=0", Wishes { max_age: Some(0), ..none }),
            ("max-age=x", Wishes { max_age: Some(0), ..none }),
            ("max-stale", Wishes { max_stale: FOREVER, ..none }),
            ("max-stale=5, min-fresh=7", Wishes { max_stale: 5, min_fresh: 7, ..none }),
            ("max-stale=x", none),
            ("stale-if-error=9", Wishes { stale_if_error: Some(9), ..none }),
        ];
        for (value, expected) in table {
            assert_eq!(wish(&[("cache-control", value)]), expected, "{value}");
        }
        // RFC 9111, 5.4.
        assert_eq!(wish(&[("pragma", "no-cache")]), Wishes { no_cache: true, ..none });
        assert!(!wish(&[("pragma", "no-cache"), ("cache-control", "max-age=5")]).no_cache);
    }
}
