//! What the configuration says about the spelling of paths, in the words of what runs.

use sluice_message::{self as message, PathSpellings};
use sluice_model as model;

/// The rules of a listener.
pub(crate) const fn path_rules(rules: &model::PathRules) -> message::PathRules {
    message::PathRules {
        dot_segments: action(rules.dot_segments),
        repeated_slashes: action(rules.repeated_slashes),
        escaped_slashes: action(rules.escaped_slashes),
        backslashes: action(rules.backslashes),
        control_characters: action(rules.control_characters),
        parameters: parameters(rules.parameters),
        case: match rules.case_sensitive {
            true => message::PathCase::Sensitive,
            false => message::PathCase::Insensitive,
        },
    }
}

/// The rules of a route.
pub(crate) fn path_overrides(own: &model::PathOverrides) -> message::PathOverrides {
    message::PathOverrides {
        dot_segments: own.dot_segments.map(action),
        repeated_slashes: own.repeated_slashes.map(action),
        escaped_slashes: own.escaped_slashes.map(action),
        backslashes: own.backslashes.map(action),
        control_characters: own.control_characters.map(action),
        parameters: own.parameters.map(parameters),
    }
}

/// Whether paths of a route are compared with case, at all of its listeners.
pub(crate) fn compared_case(
    route: &model::Route,
    listeners: &[model::Listener],
) -> message::PathCase {
    let own =
        |it: &&model::Listener| route.listeners.is_empty() || route.listeners.contains(&it.name);
    match listeners.iter().filter(own).all(|it| it.path_rules.case_sensitive) {
        true => message::PathCase::Sensitive,
        false => message::PathCase::Insensitive,
    }
}

/// A prefix that is taken off paths, as they are compared.
pub(crate) fn compared_prefix(prefix: &str) -> Vec<u8> {
    let mut spellings = PathSpellings::default();
    match message::PathRules::DEFAULT.read(prefix.as_bytes(), &mut spellings) {
        Ok(()) if prefix.starts_with('/') => spellings.compared,
        _ => prefix.as_bytes().to_vec(),
    }
}

const fn action(action: model::PathAction) -> message::PathAction {
    match action {
        model::PathAction::Refuse => message::PathAction::Refuse,
        model::PathAction::Normalize => message::PathAction::Normalize,
        model::PathAction::Keep => message::PathAction::Keep,
    }
}

const fn parameters(action: model::ParameterAction) -> message::ParameterAction {
    match action {
        model::ParameterAction::Ignore => message::ParameterAction::Ignore,
        model::ParameterAction::Strip => message::ParameterAction::Strip,
        model::ParameterAction::Refuse => message::ParameterAction::Refuse,
        model::ParameterAction::Keep => message::ParameterAction::Keep,
    }
}
