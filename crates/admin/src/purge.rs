//! Taking answers out of a cache: a page that changes something.

use std::sync::Arc;

use serde_json::{Value, json};
use sluice_control::Status;
use sluice_engine::{Report, ReportAnswer};
use sluice_message::pair::{decoded, query_pairs};
use sluice_message::{PathRules, PathSpellings, RequestHead};
use sluice_meter::{PurgeTarget, Thoroughness};

/// The page `/caches/{name}/purge`.
pub(crate) struct Purge {
    pub(crate) status: Arc<Status>,
}

/// What the query of a request asks for.
#[derive(Debug, PartialEq, Eq)]
struct Wish {
    /// `url`, `prefix`, `tag` or `all`.
    kind: String,
    value: String,
    thoroughness: Thoroughness,
}

impl Report for Purge {
    fn report(&self, head: &RequestHead) -> ReportAnswer {
        // Pages of a browser can send a POST to loopback, but not without telling where they came from.
        if head.fields.values_of(b"origin").next().is_some() {
            return answer(403, &json!({ "error": "pages of a browser may not do this" }));
        }
        let name = head.path().split(|&byte| byte == b'/').nth(2).unwrap_or_default();
        let name = text(name);
        let Some(wish) = wish(head.query()) else {
            let error = "ask with one of ?url=, ?prefix=, ?tag= and ?all, and &soft to have things confirmed";
            return answer(400, &json!({ "error": error }));
        };
        let Some(target) = target(&wish) else {
            let error = format!("\"{}\" is no URL like http://host/path", wish.value);
            return answer(400, &json!({ "error": error }));
        };
        match self.status.purge(&name, target, wish.thoroughness) {
            Ok(hits) => answer(200, &json!({ "cache": name, "purged": hits })),
            Err(known) => {
                let error = format!("there is no cache \"{name}\"");
                answer(404, &json!({ "error": error, "caches": known }))
            }
        }
    }
}

fn answer(status: u16, document: &Value) -> ReportAnswer {
    ReportAnswer { status, ..crate::json::answer(document) }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&decoded(bytes).collect::<Vec<u8>>()).into_owned()
}

/// One thing to purge, and how.
fn wish(query: &[u8]) -> Option<Wish> {
    let (mut found, mut thoroughness) = (None, Thoroughness::Hard);
    for (name, value) in query_pairs(query) {
        let (name, value) = (text(name), text(value));
        match name.as_str() {
            "soft" => thoroughness = Thoroughness::Soft,
            "url" | "prefix" | "tag" | "all" if found.is_none() => found = Some((name, value)),
            _ => return None,
        }
    }
    let (kind, value) = found?;
    let value = if kind == "url" { as_sent(&value).unwrap_or(value) } else { value };
    Some(Wish { kind, value, thoroughness })
}

/// A URL with the path in the spelling that requests are sent, and kept, with.
fn as_sent(url: &str) -> Option<String> {
    let host = url.find("://")? + 3;
    let path = host + url.get(host..)?.find('/')?;
    let end = url.get(path..)?.find('?').map_or(url.len(), |at| path + at);
    // What a listener or route may keep is no reason to refuse it here.
    let mut spellings = PathSpellings::default();
    PathRules::DEFAULT.read(url.get(path..end)?.as_bytes(), &mut spellings).ok()?;
    let sent = String::from_utf8(spellings.sent).ok()?;
    Some([url.get(..path)?, &sent, url.get(end..)?].concat())
}

fn target(wish: &Wish) -> Option<PurgeTarget<'_>> {
    let parts = || {
        let (scheme, rest) = wish.value.split_once("://")?;
        let scheme = ["http", "https"].into_iter().find(|known| *known == scheme)?;
        let slash = rest.find('/').unwrap_or(rest.len());
        let (authority, target) = rest.split_at_checked(slash)?;
        let target = if target.is_empty() { "/" } else { target };
        (!authority.is_empty()).then_some((scheme, authority.as_bytes(), target.as_bytes()))
    };
    match wish.kind.as_str() {
        "url" => parts().map(|(scheme, host, target)| PurgeTarget::Url(scheme, host, target)),
        "prefix" => parts().map(|(scheme, host, target)| PurgeTarget::Prefix(scheme, host, target)),
        "tag" => Some(PurgeTarget::Tag(wish.value.as_bytes())),
        _ => Some(PurgeTarget::All),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_name_one_thing() {
        let ask = |query: &str| wish(query.as_bytes());
        let one = ask("url=http%3A%2F%2Fa%3A81%2Fb%3Fc&soft").unwrap();
        assert_eq!(target(&one), Some(PurgeTarget::Url("http", b"a:81", b"/b?c")));
        assert_eq!(one.thoroughness, Thoroughness::Soft);
        let spelled = ask("url=http://a/x/..//%2562/%2563;d?//").unwrap();
        assert_eq!(target(&spelled), Some(PurgeTarget::Url("http", b"a", b"/b/c;d?//")));
        let prefix = ask("prefix=https://a").unwrap();
        assert_eq!(target(&prefix), Some(PurgeTarget::Prefix("https", b"a", b"/")));
        assert_eq!(target(&ask("tag=x").unwrap()), Some(PurgeTarget::Tag(b"x")));
        assert_eq!(target(&ask("all").unwrap()), Some(PurgeTarget::All));
        for wrong in ["", "soft", "url=a&all", "uri=http://a/"] {
            assert_eq!(ask(wrong), None, "{wrong}");
        }
        for wrong in ["/a", "ftp://a/", "http:///a", "a"] {
            assert_eq!(target(&ask(&format!("url={wrong}")).unwrap()), None, "{wrong}");
        }
    }
}
