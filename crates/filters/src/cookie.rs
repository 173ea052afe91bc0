//! Cookies: taken out of requests, and written for answers.

use sluice_message::pair::cookie_pairs;
use sluice_message::{FieldId, RequestHead, SpaceExhausted};

/// Takes cookies out whose names `unwanted` knows; the others go on as they were written.
pub(crate) fn hide(
    request: &mut RequestHead,
    unwanted: impl Fn(&[u8]) -> bool,
) -> Result<(), SpaceExhausted> {
    let fields = &mut request.fields;
    let has = |value: &[u8]| cookie_pairs(value).any(|(name, _)| unwanted(name));
    if !fields.values(FieldId::Cookie).any(has) {
        return Ok(());
    }
    let kept: Vec<Vec<u8>> = fields
        .values(FieldId::Cookie)
        .flat_map(|value| value.split(|byte| *byte == b';'))
        .map(<[u8]>::trim_ascii)
        .filter(|pair| !pair.is_empty() && !cookie_pairs(pair).any(|(name, _)| unwanted(name)))
        .map(<[u8]>::to_vec)
        .collect();
    fields.remove(FieldId::Cookie);
    if kept.is_empty() { Ok(()) } else { fields.push(b"cookie", &kept.join(&b"; "[..])) }
}

/// Which requests of other sites bring a cookie (RFC 6265bis, 5.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameSite {
    /// None.
    Strict,
    /// Those that open a page.
    Lax,
    /// All.
    None,
}

/// Who may read a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Servers alone.
    Servers,
    /// Scripts of the page too.
    Scripts,
}

/// How a cookie is written.
#[derive(Clone, Debug)]
pub struct CookieForm {
    /// The paths that it is for.
    pub path: String,
    /// The domain that it is for, if not the host alone.
    pub domain: Option<String>,
    /// Which requests of other sites bring it.
    pub same_site: SameSite,
    /// Who may read it.
    pub readers: Readers,
}

impl CookieForm {
    /// The value of `Set-Cookie`. `scheme` is the request's: what came encrypted is to come back so only.
    /// `age` in seconds, 0 takes the cookie away, `None` keeps it until the browser is closed.
    #[must_use]
    pub fn set(&self, name: &str, value: &str, scheme: &str, age: Option<u64>) -> String {
        let Self { path, domain, same_site, readers } = self;
        let mut text = format!("{name}={value}; Path={path}");
        if let Some(domain) = domain {
            text.push_str("; Domain=");
            text.push_str(domain);
        }
        if let Some(age) = age {
            text.push_str("; Max-Age=");
            text.push_str(&age.to_string());
        }
        // Browsers refuse the prefixes and SameSite=None without it.
        if scheme == "https" || name.starts_with("__") || *same_site == SameSite::None {
            text.push_str("; Secure");
        }
        if *readers == Readers::Servers {
            text.push_str("; HttpOnly");
        }
        text.push_str(match same_site {
            SameSite::Strict => "; SameSite=Strict",
            SameSite::Lax => "; SameSite=Lax",
            SameSite::None => "; SameSite=None",
        });
        text
    }
}

#[cfg(test)]
mod tests {
    use sluice_message::{FieldId, RequestHead};

    use super::{CookieForm, Readers, SameSite, hide};

    #[test]
    fn takes_cookies_out_and_leaves_the_others() {
        let table: [(&[&str], &[&str]); 6] = [
            (&["a=1; sid=2; b=3"], &["a=1; b=3"]),
            (&["sid=2"], &[]),
            (&["a=1", "sid=2;sid=3"], &["a=1"]),
            (&["a=1;b=2"], &["a=1;b=2"]),
            (&["sids=2; xsid=1"], &["sids=2; xsid=1"]),
            (&["lonely; sid=1; c=\"x y\""], &["lonely; c=\"x y\""]),
        ];
        for (lines, wanted) in table {
            let mut head = RequestHead::new();
            for line in lines {
                head.fields.push(b"Cookie", line.as_bytes()).unwrap();
            }
            hide(&mut head, |name| name == b"sid").unwrap();
            let left: Vec<_> = head.fields.values(FieldId::Cookie).collect();
            let wanted: Vec<_> = wanted.iter().map(|line| line.as_bytes()).collect();
            assert_eq!(left, wanted, "{lines:?}");
        }
    }

    #[test]
    fn writes_cookies() {
        let form = CookieForm {
            path: "/".to_owned(),
            domain: None,
            same_site: SameSite::Lax,
            readers: Readers::Servers,
        };
        assert_eq!(form.set("a", "1", "http", None), "a=1; Path=/; HttpOnly; SameSite=Lax");
        assert_eq!(
            form.set("a", "1", "https", Some(60)),
            "a=1; Path=/; Max-Age=60; Secure; HttpOnly; SameSite=Lax"
        );
        let form = CookieForm {
            path: "/x".to_owned(),
            domain: Some("a.example".to_owned()),
            same_site: SameSite::None,
            readers: Readers::Scripts,
        };
        assert_eq!(
            form.set("a", "", "http", Some(0)),
            "a=; Path=/x; Domain=a.example; Max-Age=0; Secure; SameSite=None"
        );
    }
}
