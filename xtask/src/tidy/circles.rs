//! Circles of files inside a crate, except between parent and child.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Finding;
use super::paths::named;
use super::source::{Kind, Source};

type Module = Vec<String>;

/// Looks for circles among the files of one crate; `source` is its `src` folder.
pub fn check(source: &Path, files: &[&Source]) -> Vec<Finding> {
    let product: Vec<&&Source> = files.iter().filter(|file| file.kind == Kind::Product).collect();
    let modules: BTreeMap<Module, &Source> =
        product.iter().map(|file| (module_of(source, &file.path), **file)).collect();
    let facade = facade(&modules);
    let mut arrows: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for (module, file) in &modules {
        for named in named(&file.code) {
            if let Some(target) = resolve(module, &named.path, &modules, &facade) {
                let related = target.starts_with(module) || module.starts_with(target);
                if !related {
                    arrows.entry(module).or_default().insert(target);
                }
            }
        }
    }
    let mut findings = Vec::new();
    let mut seen: BTreeSet<BTreeSet<&Module>> = BTreeSet::new();
    for start in arrows.keys() {
        let Some(circle) = way_back(start, &arrows) else { continue };
        if !seen.insert(circle.iter().copied().collect()) {
            continue;
        }
        let shown: Vec<String> = circle.iter().map(|module| module.join("/")).collect();
        let what = format!("a circle: {} -> {}", shown.join(" -> "), start.join("/"));
        let path = modules.get(*start).map(|file| file.path.display().to_string());
        findings.push(Finding::new("circles", &path.unwrap_or_default(), 1, what));
    }
    findings
}

/// `src/a/b.rs` and `src/a/b/mod.rs` are `a::b`; `lib.rs` and `main.rs` are the root.
fn module_of(source: &Path, path: &Path) -> Module {
    let inside = path.strip_prefix(source).unwrap_or(path).with_extension("");
    let mut parts: Module = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let root = parts.len() == 1 && ["lib", "main"].contains(&parts[0].as_str());
    if root || parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// What the root re-exports: the name and the module it comes from.
fn facade(modules: &BTreeMap<Module, &Source>) -> BTreeMap<String, Module> {
    let mut names = BTreeMap::new();
    let Some(root) = modules.get(&Vec::new()) else { return names };
    for named in named(&root.code) {
        let mut parts: Vec<String> = named.path.split("::").map(String::from).collect();
        if ["crate", "self"].contains(&parts[0].as_str()) {
            parts.remove(0);
        }
        if let Some(name) = parts.pop().filter(|_| modules.contains_key(&parts)) {
            names.insert(name, parts);
        }
    }
    names
}

fn resolve<'a>(
    from: &Module,
    path: &str,
    modules: &'a BTreeMap<Module, &Source>,
    facade: &'a BTreeMap<String, Module>,
) -> Option<&'a Module> {
    let mut parts = path.split("::").peekable();
    let mut base = match parts.next()? {
        "crate" => Vec::new(),
        "self" => from.clone(),
        "super" => from[..from.len().checked_sub(1)?].to_vec(),
        _ => return None,
    };
    while parts.next_if_eq(&"super").is_some() {
        base.pop()?;
    }
    let rest: Vec<String> = parts.map(String::from).collect();
    if let (true, Some(target)) = (base.is_empty(), rest.first().and_then(|n| facade.get(n))) {
        return modules.get_key_value(target).map(|(key, _)| key);
    }
    base.extend(rest);
    // The longest part of the path that is a file; what follows are items in it.
    (0..=base.len()).rev().find_map(|length| modules.get_key_value(&base[..length])).map(|(k, _)| k)
}

/// The shortest way from a module back to itself.
fn way_back<'a>(
    start: &'a Module,
    arrows: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
) -> Option<Vec<&'a Module>> {
    let mut ways = vec![vec![start]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for next in arrows.get(way.last()?).into_iter().flatten() {
                if *next == start {
                    return Some(way);
                }
                if seen.insert(*next) {
                    longer.push([way.as_slice(), &[*next]].concat());
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::source::Source;
    use std::path::Path;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source::new(&Path::new("crates/x/src").join(path), text))
            .collect();
        let all: Vec<&Source> = sources.iter().collect();
        check(Path::new("crates/x/src"), &all).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn finds_circles_and_spares_parents() {
        let two = [("a.rs", "use crate::b::B;"), ("b.rs", "use super::a::A;")];
        assert_eq!(circles(&two), ["a circle: a -> b -> a"]);
        let three = [
            ("a.rs", "use crate::b;"),
            ("b.rs", "fn f() { crate::c::g() }"),
            ("c/mod.rs", "use crate::a;"),
        ];
        assert_eq!(circles(&three).len(), 1);
        let family = [("a.rs", "use self::b::B;"), ("a/b.rs", "use super::A;")];
        assert!(circles(&family).is_empty());
        let tree = [("a.rs", "use crate::b;"), ("b.rs", ""), ("c.rs", "use crate::{a, b};")];
        assert!(circles(&tree).is_empty());
        let in_tests =
            [("a.rs", "use crate::b;"), ("b.rs", "#[cfg(test)]\nmod t { use crate::a; }")];
        assert!(circles(&in_tests).is_empty());
    }

    #[test]
    fn sees_through_the_facade() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::{B, C};"),
            ("a.rs", "use crate::B;"),
            ("b.rs", "use crate::A;"),
        ];
        assert_eq!(circles(&files).len(), 1);
    }
}
