//! Whom a canary gets, and that nobody who has it loses it as it grows.

use sluice_expression::{Phase, Scope, Template};

use super::*;
use crate::scene::Scene;

/// Which requests, and which variants get how much of them.
type RuleRow<'r> = (Option<&'r str>, &'r [(usize, u32)]);

/// Two variants, `new` at 41 and `newer` at 42, for clients known by `x-user`.
fn settings(rules: &[RuleRow<'_>]) -> CanarySettings {
    let scope = Scope::new(Phase::Request);
    let key = Template::compile("{request.header.x-user}", &scope).unwrap();
    let variant = |name: &str, target, key: &str| Variant {
        name: name.into(),
        target,
        keys: vec![key.to_owned()],
    };
    let rule = |(when, shares): &RuleRow<'_>| CanaryRule {
        when: when.map(|when| Condition::compile(when, &scope).unwrap()),
        shares: shares
            .iter()
            .map(|(variant, share)| VariantShare {
                variant: *variant,
                course: ShareCourse::Fixed(*share),
            })
            .collect(),
    };
    CanarySettings {
        variants: vec![variant("new", 41, "alice"), variant("newer", 42, "bob")],
        rules: rules.iter().map(rule).collect(),
        sticky: Sticky::Key(KeySource::Text(key)),
        salt: "salt".to_owned(),
        override_header: Some("x-variant-please".to_owned()),
        tag_header: Some("x-variant".to_owned()),
        stable_keys: vec!["carol".to_owned()],
        without_server: WithoutServer::Stable,
        rollback: None,
    }
}

fn canary(settings: CanarySettings) -> Canary {
    let names: Vec<Arc<str>> = settings.variants.iter().map(|it| Arc::clone(&it.name)).collect();
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let meter = Arc::new(FilterMeter::new(1, &Canary::outcomes(names.iter().copied())));
    let variants = meter.variants(&[&[STABLE], names.as_slice()].concat());
    Canary::new(settings, meter, variants)
}

/// Variant and target that a request of these fields gets, and how its origin is told.
fn ask(
    canary: &Canary,
    fields: &[(&str, &str)],
    gone: &[usize],
) -> (String, Option<usize>, String) {
    let mut scene = Scene::new("GET", "/", fields);
    scene.lent.gone = gone.to_vec();
    assert!(scene.ask(canary).is_none());
    let told: Vec<_> = scene.request.fields.values_of(b"x-variant").collect();
    let told = String::from_utf8(told.join(&b"+"[..])).unwrap();
    (scene.notes.variant().unwrap().to_owned(), scene.notes.target(), told)
}

fn variant(canary: &Canary, fields: &[(&str, &str)]) -> String {
    ask(canary, fields, &[]).0
}

#[test]
fn who_has_a_variant_keeps_it_as_it_grows() {
    let of = |shares: &[(usize, u32)]| -> Vec<String> {
        let canary = canary(settings(&[(None, shares)]));
        let user = |number: u32| variant(&canary, &[("x-user", &number.to_string())]);
        (0..10_000).map(user).collect()
    };
    let count = |all: &[String], name: &str| all.iter().filter(|it| *it == name).count();
    let (ten, twenty) = (of(&[(1, 100)]), of(&[(1, 200)]));
    // 1000 and 2000 are expected: the bounds are more than four standard deviations away.
    assert!((870..1130).contains(&count(&ten, "new")));
    assert!((1840..2160).contains(&count(&twenty, "new")));
    let lost = ten.iter().zip(&twenty).filter(|(ten, twenty)| *ten == "new" && *twenty != "new");
    assert_eq!(lost.count(), 0);
    // The last of several grows without anybody changing who has another one.
    let (before, after) = (of(&[(1, 100), (2, 100)]), of(&[(1, 100), (2, 500)]));
    assert!((870..1130).contains(&count(&before, "newer")));
    assert!((4800..5200).contains(&count(&after, "newer")));
    for (before, after) in before.iter().zip(&after) {
        assert!(before == after || before == STABLE && after == "newer", "{before} {after}");
    }
    assert_eq!(count(&of(&[(1, 0)]), STABLE), 10_000);
    assert_eq!(count(&of(&[(1, 1000)]), "new"), 10_000);
}

#[test]
fn the_first_rule_that_fits_decides() {
    let canary = canary(settings(&[
        (Some("request.header.x-beta == 'no'"), &[]),
        (Some("request.header.x-beta"), &[(1, 1000)]),
        (Some("client.ip in '10.0.0.0/8'"), &[(2, 1000)]),
    ]));
    assert_eq!(variant(&canary, &[("x-beta", "yes")]), "new");
    assert_eq!(variant(&canary, &[("x-beta", "no")]), STABLE);
    assert_eq!(variant(&canary, &[]), STABLE);
}

#[test]
fn lists_and_the_header_come_before_rules() {
    let canary = canary(settings(&[(None, &[(2, 1000)])]));
    assert_eq!(variant(&canary, &[("x-user", "alice")]), "new");
    assert_eq!(variant(&canary, &[("x-user", "carol")]), STABLE);
    assert_eq!(variant(&canary, &[("x-user", "dave")]), "newer");
    let wish = |value| variant(&canary, &[("x-user", "alice"), ("X-Variant-Please", value)]);
    assert_eq!((wish("newer").as_str(), wish("stable").as_str()), ("newer", STABLE));
    assert_eq!(wish("nonsense"), "new");
}

#[test]
fn origins_are_told_by_nobody_else() {
    let canary = canary(settings(&[(None, &[(1, 1000)])]));
    let forged = [("X-Variant", "admin"), ("x-variant", "stable"), ("x-user", "dave")];
    assert_eq!(ask(&canary, &forged, &[]), ("new".to_owned(), Some(41), "new".to_owned()));
    // Without a server the stable variant answers, which the route leads to by itself.
    let expected = (STABLE.to_owned(), None, STABLE.to_owned());
    assert_eq!(ask(&canary, &forged, &[41]), expected);
    let strict =
        CanarySettings { without_server: WithoutServer::Fail, ..settings(&[(None, &[(1, 1000)])]) };
    let strict = super::tests::canary(strict);
    assert_eq!(ask(&strict, &forged, &[41]).1, Some(41));
}

#[test]
fn without_a_key_the_address_stands_in() {
    let canary = canary(settings(&[(None, &[(1, 500)])]));
    let expected = if share(b"192.0.2.1", Salt::new(b"salt")) < 500 { "new" } else { STABLE };
    assert_eq!(variant(&canary, &[]), expected);
    assert_eq!(variant(&canary, &[("x-user", "")]), expected);
    // Texts too long to be made are one key, which is no reason to fail.
    let huge = "u".repeat(20_000);
    assert!(["new", STABLE].contains(&variant(&canary, &[("x-user", &huge)]).as_str()));
}
