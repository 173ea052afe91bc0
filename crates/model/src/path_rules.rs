//! What listeners and routes say about the spelling of paths.

use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};

/// What happens to something in a path that servers read in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathAction {
    /// The request is refused with 400.
    Refuse,
    /// It is brought into the form that is compared: resolved, merged or decoded.
    Normalize,
    /// It is sent as it came.
    Keep,
}

/// What happens to `;` and what follows it in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterAction {
    /// It is sent, and not compared.
    Ignore,
    /// It is neither compared nor sent.
    Strip,
    /// The request is refused with 400.
    Refuse,
    /// It is compared like everything else.
    Keep,
}

/// What a listener says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRules {
    /// `.` and `..`.
    pub dot_segments: PathAction,
    /// Empty segments.
    pub repeated_slashes: PathAction,
    /// `%2F`.
    pub escaped_slashes: PathAction,
    /// `\` and `%5C`.
    pub backslashes: PathAction,
    /// `%00` to `%1F` and `%7F`.
    pub control_characters: PathAction,
    /// `;` and what follows it.
    pub parameters: ParameterAction,
    /// Whether upper and lower case differ.
    pub case_sensitive: bool,
}

/// What a route says; `None` = what its listener says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathOverrides {
    /// `.` and `..`.
    pub dot_segments: Option<PathAction>,
    /// Empty segments.
    pub repeated_slashes: Option<PathAction>,
    /// `%2F`.
    pub escaped_slashes: Option<PathAction>,
    /// `\` and `%5C`.
    pub backslashes: Option<PathAction>,
    /// `%00` to `%1F` and `%7F`.
    pub control_characters: Option<PathAction>,
    /// `;` and what follows it.
    pub parameters: Option<ParameterAction>,
}

const DOTS: Kind = Kind::Word(&["resolve", "refuse", "keep"]);
const REPEATED: Kind = Kind::Word(&["merge", "refuse", "keep"]);
const SEPARATORS: Kind = Kind::Word(&["refuse", "decode", "keep"]);
const CONTROLS: Kind = Kind::Word(&["refuse", "keep"]);

pub(crate) static LISTENER_PATH_RULES: Section = Section {
    name: "listener.path_rules",
    doc: "How paths of requests are read before anything looks at them. The defaults send what is \
          compared; every `keep` says that the upstreams read paths as the gateway does.",
    keys: &[
        Key {
            name: "dot_segments",
            kind: DOTS,
            preset: Preset::Value("resolve"),
            doc: "`.` and `..`, escaped or not: `resolve` removes them, `keep` sends them as they \
                  came. Routes are always found by the resolved path.",
        },
        Key {
            name: "repeated_slashes",
            kind: REPEATED,
            preset: Preset::Value("merge"),
            doc: "`//`: `merge` makes them one, `keep` sends them as they came, but for those at the \
                  beginning. Routes are always found by the merged path.",
        },
        Key {
            name: "escaped_slashes",
            kind: SEPARATORS,
            preset: Preset::Value("refuse"),
            doc: "`%2F`: `refuse` answers 400, `decode` makes it a slash before routes are found, \
                  `keep` leaves it in its segment, for routes and upstreams.",
        },
        Key {
            name: "backslashes",
            kind: SEPARATORS,
            preset: Preset::Value("refuse"),
            doc: "`\\` and `%5C`: the same as for `escaped_slashes`.",
        },
        Key {
            name: "control_characters",
            kind: CONTROLS,
            preset: Preset::Value("refuse"),
            doc: "Escaped control characters, `%00` to `%1F` and `%7F`: `refuse` answers 400.",
        },
        Key {
            name: "parameters",
            kind: Kind::Word(&["ignore", "strip", "refuse", "keep"]),
            preset: Preset::Value("ignore"),
            doc: "`;` and what follows it in a segment: `ignore` sends it and does not compare it, \
                  `strip` removes it, `refuse` answers 400, `keep` takes `;` for a letter.",
        },
        Key {
            name: "case_sensitive",
            kind: Kind::Flag,
            preset: Preset::Value("true"),
            doc: "`false` compares paths without case, for upstreams that do so; they get the path \
                  as it came.",
        },
    ],
};

pub(crate) static ROUTE_PATH_RULES: Section = Section {
    name: "route.path_rules",
    doc: "What a route says itself about the spelling of paths. It changes what is refused and what \
          is sent; what is compared is the listener's affair.",
    keys: &[
        Key { name: "dot_segments", kind: DOTS, preset: LISTENERS, doc: "As for the listener." },
        Key {
            name: "repeated_slashes",
            kind: REPEATED,
            preset: LISTENERS,
            doc: "As for the listener.",
        },
        Key {
            name: "escaped_slashes",
            kind: CONTROLS,
            preset: LISTENERS,
            doc: "`keep` sends `%2F` to this route's upstream. The segment it stands in is one \
                  segment for routes; with a dot segment beside it the request is refused.",
        },
        Key {
            name: "backslashes",
            kind: CONTROLS,
            preset: LISTENERS,
            doc: "The same for `\\` and `%5C`.",
        },
        Key {
            name: "control_characters",
            kind: CONTROLS,
            preset: LISTENERS,
            doc: "As for the listener.",
        },
        Key {
            name: "parameters",
            kind: Kind::Word(&["ignore", "strip", "refuse"]),
            preset: LISTENERS,
            doc: "As for the listener.",
        },
    ],
};

const LISTENERS: Preset = Preset::Absent("the listener's");

/// What a listener says; `fields` are those of its `path_rules`.
pub(crate) fn read_path_rules(fields: &Fields<'_, '_>) -> PathRules {
    let action = |name| read_action(fields, name).unwrap_or(PathAction::Refuse);
    PathRules {
        dot_segments: action("dot_segments"),
        repeated_slashes: action("repeated_slashes"),
        escaped_slashes: action("escaped_slashes"),
        backslashes: action("backslashes"),
        control_characters: action("control_characters"),
        parameters: read_parameters(fields).unwrap_or(ParameterAction::Ignore),
        case_sensitive: fields.flag("case_sensitive").unwrap_or(true),
    }
}

/// What a route says; `None` = nothing. `listeners` are all that there are, by name.
pub(crate) fn read_path_overrides<'l>(
    route: &Fields<'_, '_>,
    listeners: impl Iterator<Item = (&'l str, PathRules)>,
) -> Option<PathOverrides> {
    route.entry("path_rules")?;
    let fields = route.table("path_rules");
    let own = PathOverrides {
        dot_segments: read_action(&fields, "dot_segments"),
        repeated_slashes: read_action(&fields, "repeated_slashes"),
        escaped_slashes: read_action(&fields, "escaped_slashes"),
        backslashes: read_action(&fields, "backslashes"),
        control_characters: read_action(&fields, "control_characters"),
        parameters: read_parameters(&fields),
    };
    let named: Vec<&str> = route.phrases("listener").iter().map(|it| it.text).collect();
    for (name, rules) in listeners.filter(|(name, _)| named.is_empty() || named.contains(name)) {
        refuse_contradictions(&fields, &own, (name, rules));
    }
    Some(own)
}

/// What a listener has changed before routes are found a route cannot have as it came, and what is compared it cannot
/// leave out: it would send another path than the one it was found by.
fn refuse_contradictions(
    fields: &Fields<'_, '_>,
    own: &PathOverrides,
    (listener, rules): (&str, PathRules),
) {
    let decoded = |action: Option<PathAction>, before: PathAction| {
        action == Some(PathAction::Keep) && before == PathAction::Normalize
    };
    let compared = own.parameters.is_some_and(|it| it != ParameterAction::Refuse)
        && rules.parameters == ParameterAction::Keep;
    for (wrong, key, what) in [
        (decoded(own.escaped_slashes, rules.escaped_slashes), "escaped_slashes", "decodes them"),
        (decoded(own.backslashes, rules.backslashes), "backslashes", "decodes them"),
        (compared, "parameters", "keeps and compares them"),
    ] {
        if let Some(entry) = fields.entry(key).filter(|_| wrong) {
            let message = format!("the listener \"{listener}\" {what} before it looks for a route");
            let flaw = Flaw::new(message).with_help(format!("change `{key}` of the listener"));
            fields.report.error(entry.span, flaw);
        }
    }
}

fn read_action(fields: &Fields<'_, '_>, name: &str) -> Option<PathAction> {
    Some(match fields.word(name)? {
        "refuse" => PathAction::Refuse,
        "keep" => PathAction::Keep,
        _ => PathAction::Normalize,
    })
}

fn read_parameters(fields: &Fields<'_, '_>) -> Option<ParameterAction> {
    Some(match fields.word("parameters")? {
        "strip" => ParameterAction::Strip,
        "refuse" => ParameterAction::Refuse,
        "keep" => ParameterAction::Keep,
        _ => ParameterAction::Ignore,
    })
}
