//! Filters: what looks at requests and answers on their way, and may change them or answer itself.

mod access;
mod bandwidth_limit;
mod basic_auth;
mod body_replace;
mod cache;
mod canary;
mod compress;
mod concurrency_limit;
mod cors;
mod csrf;
mod decompress;
mod external_auth;
mod geo;
mod guard;
mod headers;
mod hmac_auth;
mod ip;
mod jwt;
mod key;
mod key_auth;
mod lua;
mod media;
mod oidc;
mod rate_limit;
mod redirect;
mod referer;
mod request_id;
mod respond;
mod rewrite;
mod security;
mod told;
mod user_agent;

pub use access::AccessControl;
pub use body_replace::{BodyPattern, BodyRule, Letters};
pub use cache::{CacheCookies, CacheDisk, CacheKeyPart};
pub use canary::{
    CanaryCookie, CanaryRamp, CanaryRollback, CanaryRule, CanaryShare, CanaryVariant, Fallback,
};
pub use compress::{ContentEncoding, EncodingLevels};
pub use cors::PageOrigin;
pub use csrf::CsrfToken;
pub use decompress::PlainResponses;
pub use external_auth::{AuthBody, AuthCache, AuthProtocol};
pub use geo::Places;
pub use guard::Length;
pub use headers::{HeaderEdits, NamePattern};
pub use jwt::{JwksSource, JwtKeys, TokenPlace};
pub use key::{KeyOptions, Run, WhenFull};
pub use oidc::{ClientAuth, OidcEndpoint, OidcProvider, OidcSession};
pub use rate_limit::{RateHeaders, RateRule};
pub(crate) use referer::parse_hosts;
pub use request_id::AcceptedIds;
pub use respond::MockBody;
pub use rewrite::QueryEdits;
pub use told::{NamedSecrets, WithoutCredentials};
pub use user_agent::Unsaid;

use std::collections::HashMap;

use sluice_expression::{Phase, Scope};

use crate::expression::{Expression, read_condition};
use crate::fields::{Fields, Phrase};
use crate::name::parse_name;
use crate::nearest::suggestion;
use crate::place::Span;
use crate::problem::Flaw;
use crate::report::Report;
use crate::section::{Key, Kind, Preset, Section};
use crate::tree::{Node, Value};
use crate::upstream::Roster;
use crate::written::Written;

/// A filter: what it does, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// The name logs and metrics know it by; no two filters share one.
    pub name: String,
    /// The requests it is for, or answers; `None` = all.
    pub when: Option<Expression>,
    /// Where `when` is written, or the filter itself where it has none.
    pub written: Written,
    /// What it does.
    pub kind: FilterKind,
}

/// An upstream that a filter asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterUpstream {
    /// Its position in `Model::upstreams`.
    pub position: usize,
    /// Its name, so that two configurations can be told apart in which the position means another one.
    pub name: String,
}

/// Defines every kind of filter once: its key, its variant with the options, its section and its reader.
macro_rules! kinds {
    ($($key:literal $variant:ident $module:ident $access:ident $doc:literal;)*) => {
        $(pub use $module::$variant;)*

        /// What a filter does, with its options.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "each is documented where its options are")]
        pub enum FilterKind {
            $($variant(Box<$variant>),)*
        }

        /// The keys that say what a filter does; it has exactly one.
        const KINDS: &[&str] = &[$($key),*];

        /// What each of them declares about access.
        pub(crate) const ACCESS: &[(&str, AccessControl)] =
            &[$(($key, AccessControl::$access)),*];

        pub(crate) static FILTER: Section = Section {
            name: "filter",
            doc: "Something that looks at requests and answers on their way, and may change them or answer \
                  itself; its name is the key, as in `[filter.edge]`. Routes name it in `filters`, where it \
                  can also be written in place. It has exactly one key that says what it does; each has a \
                  page in docs/filters.",
            keys: &[
                Key {
                    name: "when",
                    kind: Kind::Text("condition"),
                    preset: Preset::Absent("always"),
                    doc: "The filter takes part only where this holds, such as \
                          `\"request.path starts_with '/api' && !request.header['x-skip']\"`. Judged by what \
                          the client has sent, when the filter's turn comes; one that speaks of `response` \
                          when the answer is there. docs/expressions.md has the language.",
                },
                $(Key {
                    name: $key,
                    kind: Kind::Table(&$module::SECTION),
                    preset: Preset::Absent("another kind"),
                    doc: $doc,
                },)*
            ],
        };

        /// Reads the options under `key`, which is one of [`KINDS`].
        fn read_kind(
            fields: &Fields<'_, '_>,
            key: &str,
            roster: &mut Roster,
        ) -> Option<FilterKind> {
            match key {
                $($key => {
                    let options = $module::read(&fields.table(key), roster)?;
                    Some(FilterKind::$variant(Box::new(options)))
                })*
                _ => None,
            }
        }

        impl FilterKind {
            /// The key it is written under.
            #[must_use]
            pub const fn key(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $key,)*
                }
            }

            /// What its kind declares about access.
            const fn declared_access(&self) -> AccessControl {
                match self {
                    $(Self::$variant(_) => AccessControl::$access,)*
                }
            }
        }
    };
}

kinds! {
    "guard" Guard guard IfConditional "Refuses requests by method and size.";
    "ip" Ip ip Always "Lets requests through by the address of their client.";
    "user_agent" UserAgent user_agent Always "Lets requests through by what they call their program.";
    "referer" Referer referer Always "Lets requests through by the page they come from.";
    "key_auth" KeyAuth key_auth Always "Lets requests through that bring a key.";
    "basic_auth" BasicAuth basic_auth Always "Lets requests through that bring a user's name and password.";
    "jwt" Jwt jwt Always "Lets requests through that bring a good JSON Web Token.";
    "hmac_auth" HmacAuth hmac_auth Always "Lets requests through that are signed with a shared secret.";
    "geo" Geo geo Always "Lets requests through by the place of their client, and tells origins of it.";
    "csrf" Csrf csrf Never "Refuses requests that another site has a browser make.";
    "external_auth" ExternalAuth external_auth Always "Asks a service of one's own whether a request may pass.";
    "rate_limit" RateLimit rate_limit Never "Lets so many requests through in so much time.";
    "concurrency_limit" KeyedConcurrency concurrency_limit Never "Lets so many requests be under way at once.";
    "headers" Headers headers Never "Adds, changes and removes header fields.";
    "rewrite" Rewrite rewrite Never "Asks the origin for another path, query or host.";
    "redirect" RedirectFilter redirect IfConditional "Sends clients to another scheme, host or path.";
    "respond" RespondFilter respond IfConditional "Gives an answer itself, at once or after a while.";
    "request_id" RequestId request_id Never "Gives each request an identifier.";
    "body_replace" BodyReplace body_replace Never "Replaces texts in content while it passes.";
    "oidc" Oidc oidc Always "Has users sign in with an OpenID provider.";
    "cors" Cors cors Never "Says which pages of other origins may use this one.";
    "security" SecurityHeaders security Never "Tells browsers what a page may do.";
    "bandwidth_limit" BandwidthLimit bandwidth_limit Never "Holds connections to so many bytes a second.";
    "canary" Canary canary Never "Sends a part of the requests to other variants of what a route leads to.";
    "compress" Compress compress Never "Makes content of answers smaller for clients that accept it so.";
    "decompress" Decompress decompress Never "Makes compressed content plain, for those who have to read it.";
    "cache" Cache cache Never "Keeps answers and gives them again.";
    "lua" Lua lua IfScripted "Calls functions of a script in Lua.";
}

/// The filters while routes are read: those with a name, and those written in place.
#[derive(Default)]
pub(crate) struct Filters {
    pub(crate) list: Vec<Filter>,
    positions: HashMap<String, Option<usize>>,
    /// The place and use of those with a name.
    written: Vec<(Span, usize, bool)>,
}

impl Filters {
    pub(crate) fn read(root: &Fields<'_, '_>, roster: &mut Roster) -> Self {
        let mut filters = Self::default();
        for (name, fields) in root.named("filter") {
            root.report.accept(name.span, parse_name(name.text));
            // A faulty filter keeps its name, so that its routes are not blamed too.
            let position = read_filter(&fields, roster).map(|read| {
                filters.list.push(Filter { name: name.text.to_owned(), ..read });
                filters.list.len() - 1
            });
            filters.written.extend(position.map(|position| (name.span, position, false)));
            filters.positions.insert(name.text.to_owned(), position);
        }
        filters
    }

    /// The filters that a key names or holds, in order: their positions, and where they stand there. `owner` names
    /// those written in place.
    pub(crate) fn find(
        &mut self,
        fields: &Fields<'_, '_>,
        owner: &str,
        roster: &mut Roster,
    ) -> Vec<(usize, Written)> {
        let Some(entry) = fields.entry("filters") else { return Vec::new() };
        let nodes = match &entry.node.value {
            Value::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(&entry.node),
        };
        let mut found = Vec::new();
        for node in nodes {
            let position = self.find_one(node, owner, (fields, roster));
            found.extend(position.map(|at| (at, Written::at(node.span, fields.report))));
        }
        found
    }

    fn find_one(
        &mut self,
        node: &Node,
        owner: &str,
        (fields, roster): (&Fields<'_, '_>, &mut Roster),
    ) -> Option<usize> {
        let report = fields.report;
        match &node.value {
            Value::Text(text) => self.named(Phrase { text: &text.value, span: node.span }, report),
            Value::Table(_) => {
                let fields = Fields::open(Some(node), node.span, &FILTER, report);
                let read = read_filter(&fields, roster)?;
                let base = format!("{owner}/{}", read.kind.key());
                let taken = |name: &str| self.list.iter().any(|filter| filter.name == name);
                let numbered = (2..).map(|number| format!("{base}#{number}"));
                let name = std::iter::once(base.clone()).chain(numbered).find(|it| !taken(it))?;
                self.list.push(Filter { name, ..read });
                Some(self.list.len() - 1)
            }
            Value::Faulty => None,
            _ => {
                let message = format!("a filter is a name or a table, this is {}", node.kind());
                report.error(node.span, Flaw::new(message));
                None
            }
        }
    }

    fn named(&mut self, wanted: Phrase<'_>, report: &Report<'_>) -> Option<usize> {
        if let Some(position) = self.positions.get(wanted.text).copied() {
            let used = self.written.iter_mut().find(|(_, at, _)| Some(*at) == position);
            if let Some((.., used)) = used {
                *used = true;
            }
            return position;
        }
        let mut flaw = Flaw::new(format!("there is no filter \"{}\"", wanted.text));
        let mut known: Vec<&str> = self.positions.keys().map(String::as_str).collect();
        known.sort_unstable();
        flaw.help = suggestion(wanted.text, known.iter().copied(), "filters")
            .or_else(|| Some(format!("add [filter.{}]", wanted.text)));
        report.error(wanted.span, flaw);
        None
    }

    /// Warns about filters that nobody uses.
    pub(crate) fn warn_unused(&self, report: &Report<'_>) {
        for (span, position, used) in &self.written {
            if let (false, Some(filter)) = (used, self.list.get(*position)) {
                let message = format!("no route uses the filter \"{}\"", filter.name);
                report.warning(*span, Flaw::new(message));
            }
        }
    }
}

/// What a filter does: the one kind that is written. It has no name yet.
fn read_filter(fields: &Fields<'_, '_>, roster: &mut Roster) -> Option<Filter> {
    let report = fields.report;
    let when = read_condition(fields, "when", &Scope::new(Phase::Response));
    let mut written = KINDS.iter().filter_map(|name| fields.written(name)).collect::<Vec<_>>();
    written.sort_by_key(|entry| entry.span);
    let [entry, others @ ..] = written.as_slice() else {
        let flaw = Flaw::new("this filter does nothing")
            .with_help(format!("give it one kind: {}", KINDS.join(", ")));
        report.error(fields.span, flaw);
        return None;
    };
    if let Some(second) = others.first() {
        let names: Vec<String> = written.iter().map(|it| format!("`{}`", it.key)).collect();
        let flaw =
            Flaw::new(format!("a filter does one thing, this one has {}", names.join(" and ")))
                .with_help("write a filter for each, in the order they are to be asked");
        report.error(second.span, flaw);
    }
    let kind = read_kind(fields, &entry.key, roster)?;
    let condition = fields.entry("when").map(|entry| entry.node.span);
    let written = Written::at(condition.unwrap_or(entry.span), report);
    Some(Filter { name: String::new(), when, written, kind })
}
