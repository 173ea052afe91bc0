//! The canary: which variants answer which part of the requests.

use std::time::Duration;

use sluice_expression::{Phase, Scope};

use super::FilterUpstream;
use crate::expression::{Expression, read_condition, read_template};
use crate::fields::{Fields, Phrase};
use crate::header::{is_token, parse_field_name};
use crate::name::parse_name;
use crate::nearest::suggestion;
use crate::problem::Flaw;
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};
use crate::tree::{Node, Value};
use crate::upstream::Roster;

/// Variants that one filter may have, besides the stable one.
const MOST: usize = 12;
/// The variant that the route leads to by itself.
const STABLE: &str = "stable";
/// Names that outcomes have besides those of variants.
const TAKEN: [&str; 3] = [STABLE, "fallback", "rolled_back"];

/// Which variants answer which part of the requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canary {
    /// The variants besides the stable one.
    pub variants: Vec<CanaryVariant>,
    /// Looked at in order; the first that is for a request decides.
    pub rules: Vec<CanaryRule>,
    /// What a client is known by, as a template; `None` = by the cookie, or its address.
    pub key: Option<Expression>,
    /// The cookie it is known by.
    pub cookie: Option<CanaryCookie>,
    /// Another salt draws other clients.
    pub salt: String,
    /// The header by which a client names the variant it wants.
    pub override_header: Option<String>,
    /// The header in which origins are told of the variant.
    pub tag_header: Option<String>,
    /// Keys that get the stable variant.
    pub stable_keys: Vec<String>,
    /// Whether the stable variant stands in for one that has no server.
    pub fallback: Fallback,
    /// When a variant is given up.
    pub rollback: Option<CanaryRollback>,
}

/// A variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanaryVariant {
    /// Its name in logs, metrics and headers.
    pub name: String,
    /// Who answers.
    pub upstream: FilterUpstream,
    /// Keys that get it.
    pub keys: Vec<String>,
}

/// What is to happen to some requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanaryRule {
    /// Which; `None` = all.
    pub when: Option<Expression>,
    /// Who gets how much of them; what is left is the stable one's.
    pub to: Vec<CanaryShare>,
}

/// How much a variant gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanaryShare {
    /// Its position in `variants`.
    pub variant: usize,
    /// Parts of a thousand; with a ramp those in the end.
    pub share: u32,
    /// How it gets there.
    pub ramp: Option<CanaryRamp>,
}

/// A share that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanaryRamp {
    /// Parts of a thousand at first.
    pub from: u32,
    /// More of them with each step.
    pub step: u32,
    /// Time between steps.
    pub every: Duration,
}

/// The cookie that a client is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanaryCookie {
    /// Its name.
    pub name: String,
    /// How long it is kept; `None` = until the browser is closed.
    pub ttl: Option<Duration>,
    /// For which paths.
    pub path: String,
    /// To which requests of other sites it is added: `strict`, `lax` or `none`.
    pub same_site: &'static str,
    /// Whether it goes over encrypted connections alone: `auto`, `always` or `never`.
    pub secure: &'static str,
}

/// Whether the stable variant stands in for one that has no server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// It does.
    Stable,
    /// Requests fail.
    None,
}

/// When a variant is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanaryRollback {
    /// If so many parts of a thousand more of its requests fail.
    pub errors: Option<u32>,
    /// If its mean latency is more than so many per cent.
    pub latency: Option<u32>,
    /// What is looked at together.
    pub window: Duration,
    /// Fewer requests say nothing.
    pub minimum: u64,
}

static VARIANT: Section = Section {
    name: "filter.canary.variants",
    doc: "A variant besides the stable one; its name is the key, as in `variants.v2 = { upstream = \"shop-v2\" }`.",
    keys: &[
        Key {
            name: "upstream",
            kind: Kind::Text("upstream"),
            preset: Preset::Required,
            doc: "Who answers instead of the upstream of the route: the name of an upstream, or a server address.",
        },
        Key {
            name: "keys",
            kind: Kind::Texts("key"),
            preset: Preset::Absent("none"),
            doc: "Clients that get this variant whatever the rules say, by what `key` makes of their requests.",
        },
    ],
};

static RAMP: Section = Section {
    name: "filter.canary.rules.to.ramp",
    doc: "How a share grows to what `share` says, from the first request on.",
    keys: &[
        Key {
            name: "from",
            kind: Kind::Integer { min: 0, max: 1000, word: None },
            preset: Preset::Value("0"),
            doc: "Parts of a thousand at first.",
        },
        Key {
            name: "step",
            kind: Kind::Integer { min: 1, max: 1000, word: None },
            preset: Preset::Required,
            doc: "How many parts of a thousand more with each step.",
        },
        Key {
            name: "every",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Required,
            doc: "Time between two steps.",
        },
    ],
};

static SHARE: Section = Section {
    name: "filter.canary.rules.to",
    doc: "How much of the requests of a rule a variant gets.",
    keys: &[
        Key {
            name: "variant",
            kind: Kind::Text("variant"),
            preset: Preset::Required,
            doc: "Its name.",
        },
        Key {
            name: "share",
            kind: Kind::Integer { min: 0, max: 1000, word: None },
            preset: Preset::Value("1000"),
            doc: "Parts of a thousand. Always the same clients: with a greater share these and more.",
        },
        Key {
            name: "ramp",
            kind: Kind::Table(&RAMP),
            preset: Preset::Absent("all of it at once"),
            doc: "Lets the share grow in steps.",
        },
    ],
};

static RULE: Section = Section {
    name: "filter.canary.rules",
    doc: "What is to happen to some requests. Rules are looked at in order; the first one that is for a request decides.",
    keys: &[
        Key {
            name: "when",
            kind: Kind::Text("condition"),
            preset: Preset::Absent("always"),
            doc: "Which requests it is for, such as \"request.cookie.beta == 'yes' || client.ip in '10.0.0.0/8'\".",
        },
        Key {
            name: "to",
            kind: Kind::Shorts("variant", &SHARE),
            preset: Preset::Required,
            doc: "The variant that gets them, or a list of variants with their shares; what is left gets the stable \
                  one. Those further back in the list can grow without anybody changing who has another one.",
        },
    ],
};

static COOKIE: Section = Section {
    name: "filter.canary.cookie",
    doc: "A cookie that clients are given to be known again: an identifier that says nothing about them.",
    keys: &[
        Key {
            name: "name",
            kind: Kind::Text("name"),
            preset: Preset::Value("canary"),
            doc: "Its name.",
        },
        Key {
            name: "ttl",
            kind: Kind::Duration { min: Duration::ZERO, max: YEAR },
            preset: Preset::Value("30d"),
            doc: "How long browsers keep it, in whole seconds; \"0s\" = until they are closed.",
        },
        Key {
            name: "path",
            kind: Kind::Text("path"),
            preset: Preset::Value("/"),
            doc: "The paths it is for.",
        },
        Key {
            name: "same_site",
            kind: Kind::Word(&["strict", "lax", "none"]),
            preset: Preset::Value("lax"),
            doc: "To which requests of other sites browsers add it.",
        },
        Key {
            name: "secure",
            kind: Kind::Word(&["auto", "always", "never"]),
            preset: Preset::Value("auto"),
            doc: "Whether browsers send it over encrypted connections alone; \"auto\" = if it was set over one.",
        },
    ],
};

static ROLLBACK: Section = Section {
    name: "filter.canary.rollback",
    doc: "Gives a variant up that does worse than the stable one: it gets no more requests by rules.",
    keys: &[
        Key {
            name: "errors",
            kind: Kind::Integer { min: 0, max: 1000, word: None },
            preset: Preset::Absent("errors are not looked at"),
            doc: "If so many parts of a thousand more of its requests end with a status of 5xx.",
        },
        Key {
            name: "latency",
            kind: Kind::Integer { min: 101, max: 100_000, word: None },
            preset: Preset::Absent("latency is not looked at"),
            doc: "If the mean time until its origins begin to answer is more than so many per cent of that of the \
                  stable variant.",
        },
        Key {
            name: "window",
            kind: Kind::Duration { min: Duration::from_millis(100), max: YEAR },
            preset: Preset::Value("1m"),
            doc: "The requests of so much time are looked at together.",
        },
        Key {
            name: "minimum",
            kind: Kind::Integer { min: 1, max: 1_000_000_000, word: None },
            preset: Preset::Value("50"),
            doc: "Fewer requests of a variant say nothing: those of the next window are added.",
        },
    ],
};

pub(super) static SECTION: Section = Section {
    name: "filter.canary",
    doc: "Sends a part of the requests to other variants of what a route leads to, the same clients always to the \
          same ones.",
    keys: &[
        Key {
            name: "variants",
            kind: Kind::Named(&VARIANT),
            preset: Preset::Required,
            doc: "The variants, by name, up to 12. The one called `stable` is there by itself: the upstream of the route.",
        },
        Key {
            name: "rules",
            kind: Kind::Tables(&RULE),
            preset: Preset::Absent("all requests get the stable variant"),
            doc: "Who gets which variant.",
        },
        Key {
            name: "key",
            kind: Kind::Text("template"),
            preset: Preset::Absent("the `cookie`, else \"{client.ip}\""),
            doc: "What a client is known by, so that it always gets the same variant: \"{request.header.x-user}\", \
                  \"{auth.user}\". Where it is empty the client's address stands in.",
        },
        Key {
            name: "cookie",
            kind: Kind::Table(&COOKIE),
            preset: Preset::Absent("none"),
            doc: "Gives clients a cookie to know them by.",
        },
        Key {
            name: "salt",
            kind: Kind::Text("salt"),
            preset: Preset::Absent("empty"),
            doc: "Filters with the same salt draw the same clients, with another salt others.",
        },
        Key {
            name: "override_header",
            kind: Kind::Text("name"),
            preset: Preset::Absent("none"),
            doc: "A header in which a client may name the variant it wants, before all rules.",
        },
        Key {
            name: "tag_header",
            kind: Kind::Text("name"),
            preset: Preset::Absent("none"),
            doc: "A header in which origins are told the variant. What a client sent under this name is removed.",
        },
        Key {
            name: "stable_keys",
            kind: Kind::Texts("key"),
            preset: Preset::Absent("none"),
            doc: "Clients that get the stable variant whatever the rules say, by what `key` makes of their requests.",
        },
        Key {
            name: "fallback",
            kind: Kind::Flag,
            preset: Preset::Value("true"),
            doc: "Whether the stable variant answers where the chosen one has no server that could be asked.",
        },
        Key {
            name: "rollback",
            kind: Kind::Table(&ROLLBACK),
            preset: Preset::Absent("nothing is given up"),
            doc: "When a variant is given up by itself.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, roster: &mut Roster) -> Option<Canary> {
    let report = fields.report;
    let named = fields.named("variants");
    let names: Vec<&str> = named.iter().map(|(name, _)| name.text).collect();
    if let Some((extra, _)) = named.get(MOST) {
        report.error(extra.span, Flaw::new(format!("there are more than {MOST} variants")));
        return None;
    }
    let written = named.iter().map(|(name, fields)| read_variant(*name, fields, roster));
    // All are read before one that is faulty counts: every problem is told.
    let variants: Vec<_> = written.collect();
    let tables = fields.tables("rules");
    let rules: Vec<_> = tables.iter().map(|fields| read_rule(fields, &names)).collect();
    let key = read_template(fields, "key", &Scope::new(Phase::Request));
    let cookie = fields.entry("cookie").map(|_| read_cookie(&fields.table("cookie")));
    if let (Some(entry), true) = (fields.written("key"), cookie.is_some()) {
        let flaw = Flaw::new("a client is known by a `key` or a `cookie`, not both")
            .with_help("remove one of them");
        report.error(entry.span, flaw);
    }
    let header = |name| {
        let written = fields.text(name)?;
        report.accept(written.span, parse_field_name(written.text))
    };
    let texts = |name| fields.phrases(name).iter().map(|it| it.text.to_owned()).collect();
    Some(Canary {
        variants: variants.into_iter().collect::<Option<_>>()?,
        rules: rules.into_iter().collect::<Option<_>>()?,
        key,
        cookie,
        salt: fields.text("salt").map(|it| it.text.to_owned()).unwrap_or_default(),
        override_header: header("override_header"),
        tag_header: header("tag_header"),
        stable_keys: texts("stable_keys"),
        fallback: match fields.flag("fallback") {
            Some(false) => Fallback::None,
            _ => Fallback::Stable,
        },
        rollback: fields.entry("rollback").map(|_| read_rollback(&fields.table("rollback"))),
    })
}

fn read_variant(
    name: Phrase<'_>,
    fields: &Fields<'_, '_>,
    roster: &mut Roster,
) -> Option<CanaryVariant> {
    let report = fields.report;
    report.accept(name.span, parse_name(name.text));
    if TAKEN.contains(&name.text) {
        let flaw = Flaw::new(format!("a variant cannot be called \"{}\"", name.text)).with_help(
            "the stable variant is the upstream of the route; call this one another name",
        );
        report.error(name.span, flaw);
    }
    let keys = fields.phrases("keys").iter().map(|it| it.text.to_owned()).collect();
    let position = roster.find(fields.text("upstream")?, report)?;
    let upstream = roster.list.get(position)?.name.clone();
    let upstream = FilterUpstream { position, name: upstream };
    Some(CanaryVariant { name: name.text.to_owned(), upstream, keys })
}

fn read_rule(fields: &Fields<'_, '_>, names: &[&str]) -> Option<CanaryRule> {
    let when = read_condition(fields, "when", &Scope::new(Phase::Request));
    let entry = fields.entry("to")?;
    let nodes = match &entry.node.value {
        Value::List(nodes) => nodes.as_slice(),
        _ => std::slice::from_ref(&entry.node),
    };
    let shares: Vec<_> = nodes.iter().map(|node| read_share(node, fields, names)).collect();
    let shares: Vec<Option<CanaryShare>> = shares.into_iter().collect::<Option<_>>()?;
    // The stable variant gets what is left.
    let to: Vec<CanaryShare> = shares.into_iter().flatten().collect();
    let sum: u32 = to.iter().map(|share| share.share).sum();
    if sum > 1000 {
        let flaw = Flaw::new(format!("the shares of this rule are {sum} parts of a thousand"))
            .with_help("write a `share` for each variant, together no more than 1000");
        fields.report.error(entry.node.span, flaw);
    }
    Some(CanaryRule { when, to })
}

/// A share; `Some(None)` is the stable variant's, which needs none.
fn read_share(node: &Node, fields: &Fields<'_, '_>, names: &[&str]) -> Option<Option<CanaryShare>> {
    let report = fields.report;
    if let Value::Text(text) = &node.value {
        let name = Phrase { text: &text.value, span: node.span };
        let variant = find(name, fields, names)?;
        return Some(variant.map(|variant| CanaryShare { variant, share: 1000, ramp: None }));
    }
    let fields = Fields::open(Some(node), node.span, &SHARE, report);
    let share = fields.integer("share").and_then(|share| u32::try_from(share).ok());
    let share = share.unwrap_or(1000);
    let ramp = fields.entry("ramp").map(|_| fields.table("ramp"));
    let ramp = ramp.and_then(|fields| read_ramp(&fields, share));
    let variant = find(fields.text("variant")?, &fields, names)?;
    Some(variant.map(|variant| CanaryShare { variant, share, ramp }))
}

fn read_ramp(fields: &Fields<'_, '_>, share: u32) -> Option<CanaryRamp> {
    let number = |name| fields.integer(name).and_then(|number| u32::try_from(number).ok());
    let (from, step, every) = (number("from"), number("step"), fields.duration("every"));
    let from = from.unwrap_or(0);
    if from > share {
        let flaw =
            Flaw::new(format!("the ramp begins with {from}, more than its share of {share}"));
        fields.report.error(fields.span, flaw);
    }
    Some(CanaryRamp { from, step: step?, every })
}

/// The position of a variant; `Some(None)` is the stable one.
fn find(name: Phrase<'_>, fields: &Fields<'_, '_>, names: &[&str]) -> Option<Option<usize>> {
    if name.text == STABLE {
        return Some(None);
    }
    let position = names.iter().position(|known| *known == name.text);
    if position.is_none() {
        let mut flaw = Flaw::new(format!("there is no variant \"{}\"", name.text.escape_debug()));
        flaw.help = suggestion(name.text, names.iter().copied().chain([STABLE]), "variants");
        fields.report.error(name.span, flaw);
    }
    position.map(Some)
}

fn read_cookie(fields: &Fields<'_, '_>) -> CanaryCookie {
    let same_site = fields.word("same_site").unwrap_or("lax");
    let secure = fields.word("secure").unwrap_or("auto");
    if same_site == "none" && secure == "never" {
        let flaw =
            Flaw::new("browsers refuse a cookie with `same_site = \"none\"` that is not secure")
                .with_help("write secure = \"always\"");
        fields.report.error(fields.span, flaw);
    }
    let ttl = fields.duration("ttl");
    CanaryCookie {
        name: fields.parsed("name", parse_cookie_name).unwrap_or_default(),
        ttl: (ttl >= Duration::from_secs(1)).then_some(ttl),
        path: fields.parsed("path", parse_cookie_path).unwrap_or_default(),
        same_site,
        secure,
    }
}

/// A token (RFC 6265, 4.1.1), of characters that expressions know in names.
fn parse_cookie_name(text: &str) -> Result<String, Flaw> {
    if is_token(text) && text.len() <= 64 && !text.contains(['\'', '`', '|']) {
        return Ok(text.to_owned());
    }
    Err(Flaw::new(format!("\"{}\" is not the name of a cookie", text.escape_debug()))
        .with_help("write letters, digits, - and _"))
}

fn parse_cookie_path(text: &str) -> Result<String, Flaw> {
    let legal = |byte: u8| (0x21..0x7f).contains(&byte) && byte != b';';
    if text.starts_with('/') && text.bytes().all(legal) {
        return Ok(text.to_owned());
    }
    Err(Flaw::new(format!("\"{}\" is not the path of a cookie", text.escape_debug()))
        .with_help("write a path like \"/\" or \"/shop\""))
}

fn read_rollback(fields: &Fields<'_, '_>) -> CanaryRollback {
    let number = |name| fields.integer(name).and_then(|number| u32::try_from(number).ok());
    let rollback = CanaryRollback {
        errors: number("errors"),
        latency: number("latency"),
        window: fields.duration("window"),
        minimum: fields.integer("minimum").unwrap_or(50),
    };
    if rollback.errors.is_none() && rollback.latency.is_none() {
        let flaw =
            Flaw::new("this rollback looks at nothing").with_help("write `errors` or `latency`");
        fields.report.error(fields.span, flaw);
    }
    rollback
}
