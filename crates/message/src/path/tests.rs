//! Paths in both spellings, by rules of every kind.

use super::*;
use PathAction::{Keep, Normalize, Refuse};

fn read(
    rules: &PathRules,
    path: &str,
) -> Result<(String, String, Option<PathProblem>), PathProblem> {
    let mut out = PathSpellings::default();
    rules.read(path.as_bytes(), &mut out)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Ok((text(&out.sent), text(&out.compared), out.problem))
}

/// Checks path, sent and compared spelling; and that reading what is sent changes nothing any more.
fn check(rules: &PathRules, rows: &[(&str, &str, &str)]) {
    for &(path, sent, compared) in rows {
        let expected = (sent.to_owned(), compared.to_owned(), None);
        assert_eq!(read(rules, path), Ok(expected.clone()), "{path}");
        assert_eq!(read(rules, sent), Ok(expected), "{path}, again");
    }
}

fn refused(rules: &PathRules, rows: &[(&str, PathProblem)]) {
    for &(path, problem) in rows {
        assert_eq!(read(rules, path).unwrap().2, Some(problem), "{path}");
    }
}

#[test]
fn one_spelling_for_all_spellings() {
    check(
        &PathRules::DEFAULT,
        &[
            ("/", "/", "/"),
            ("/a/b.c", "/a/b.c", "/a/b.c"),
            ("/a/./b", "/a/b", "/a/b"),
            ("/a/../b", "/b", "/b"),
            ("/../../etc/passwd", "/etc/passwd", "/etc/passwd"),
            ("/a/%2e%2E/b", "/b", "/b"),
            ("/a/.%2e/b", "/b", "/b"),
            ("/a/..", "/", "/"),
            ("/a/b/..", "/a/", "/a/"),
            ("/a/.", "/a/", "/a/"),
            ("/..", "/", "/"),
            ("//admin", "/admin", "/admin"),
            ("/a//b/", "/a/b/", "/a/b/"),
            ("/a///", "/a/", "/a/"),
            ("/%61dmin", "/admin", "/admin"),
            ("/a%20b", "/a%20b", "/a%20b"),
            ("/caf%c3%a9", "/caf%C3%A9", "/caf%C3%A9"),
            ("/%2561dmin", "/%2561dmin", "/%2561dmin"),
            ("/.well-known/x", "/.well-known/x", "/.well-known/x"),
            ("/...", "/...", "/..."),
            ("/a/..b", "/a/..b", "/a/..b"),
            ("/a%3f%23", "/a%3F%23", "/a%3F%23"),
            // Sent as written, compared without the escape.
            ("/%40fs/x", "/%40fs/x", "/@fs/x"),
            ("/c%2b%2B/(1)", "/c%2B%2B/(1)", "/c++/(1)"),
            ("/%7Bid%7D", "/%7Bid%7D", "/{id}"),
            // Parameters are sent, and not compared.
            ("/admin;x/secret", "/admin;x/secret", "/admin/secret"),
            ("/x/..;/admin", "/admin", "/admin"),
            ("/x/..;a=b/admin", "/admin", "/admin"),
            ("/x/%2e%2e;/admin", "/admin", "/admin"),
            ("/.;/admin", "/admin", "/admin"),
            ("/;x/admin", "/admin", "/admin"),
            ("/a/;x", "/a/;x", "/a/"),
            ("/a/;x/../b", "/b", "/b"),
            ("/admin;/secret;v=1", "/admin;/secret;v=1", "/admin/secret"),
            ("/admin%3bx/secret", "/admin%3Bx/secret", "/admin%3Bx/secret"),
        ],
    );
}

#[test]
fn what_servers_disagree_about_is_refused() {
    refused(
        &PathRules::DEFAULT,
        &[
            ("/a%2fb", PathProblem::EscapedSlash),
            ("/%2F", PathProblem::EscapedSlash),
            ("/a\\b", PathProblem::Backslash),
            ("/a%5cb", PathProblem::Backslash),
            ("/a%00b", PathProblem::ControlCharacter),
            ("/a%0d%0ab", PathProblem::ControlCharacter),
            ("/a%7f", PathProblem::ControlCharacter),
            ("/a%09", PathProblem::ControlCharacter),
            ("/a;%2f", PathProblem::EscapedSlash),
        ],
    );
    for path in ["/%", "/%4", "/%zz", "/a%%20", "/%u002e"] {
        assert_eq!(read(&PathRules::DEFAULT, path), Err(PathProblem::BadEscape), "{path}");
    }
    let strict = PathRules {
        dot_segments: Refuse,
        repeated_slashes: Refuse,
        parameters: ParameterAction::Refuse,
        ..PathRules::DEFAULT
    };
    refused(
        &strict,
        &[
            ("/a/../b", PathProblem::DotSegment),
            ("/a/%2e", PathProblem::DotSegment),
            ("//a", PathProblem::RepeatedSlash),
            ("/a//", PathProblem::RepeatedSlash),
            ("/a;b", PathProblem::Parameter),
        ],
    );
    check(&strict, &[("/", "/", "/"), ("/a/", "/a/", "/a/"), ("/.a", "/.a", "/.a")]);
}

#[test]
fn separators_are_decoded_before_segments_are_read() {
    let rules =
        PathRules { escaped_slashes: Normalize, backslashes: Normalize, ..PathRules::DEFAULT };
    check(
        &rules,
        &[
            ("/admin%2fsecret", "/admin/secret", "/admin/secret"),
            ("/x/..%2fadmin/secret", "/admin/secret", "/admin/secret"),
            ("/%2fadmin", "/admin", "/admin"),
            ("/x/..\\admin", "/admin", "/admin"),
            ("/x%5C%2e%2e%5cadmin", "/admin", "/admin"),
        ],
    );
}

#[test]
fn what_is_kept_stays_in_its_segment() {
    let rules = PathRules {
        repeated_slashes: Keep,
        escaped_slashes: Keep,
        backslashes: Keep,
        control_characters: Keep,
        ..PathRules::DEFAULT
    };
    check(
        &rules,
        &[
            ("/b/a%2fb", "/b/a%2Fb", "/b/a%2Fb"),
            ("/b/a\\b", "/b/a\\b", "/b/a%5Cb"),
            ("/b/a%5cb", "/b/a%5Cb", "/b/a%5Cb"),
            ("/b/%0a", "/b/%0A", "/b/%0A"),
            ("/b//a///c", "/b//a///c", "/b/a/c"),
            ("//b//", "/b//", "/b/"),
            ("/x/..//b", "/b", "/b"),
            ("/;x//b", "/b", "/b"),
            ("/b//../c", "/c", "/c"),
            ("/a/b//../c", "/a/c", "/a/c"),
            ("/b/..a%2f", "/b/..a%2F", "/b/..a%2F"),
        ],
    );
    let hidden = [
        "/b/..%2fadmin",
        "/b/x%2f..%2f..%2fadmin",
        "/b/x\\..\\admin",
        "/b%2f..",
        "/b/x%2f%2e%2e;y%2fadmin",
        "/b/x;y%2f..%2fadmin",
        "/b/.%5cx",
    ];
    refused(&rules, &hidden.map(|path| (path, PathProblem::DotSegment)));
}

#[test]
fn dot_segments_are_kept_by_choice() {
    let rules = PathRules { dot_segments: Keep, escaped_slashes: Keep, ..PathRules::DEFAULT };
    check(
        &rules,
        &[
            ("/a/../b", "/a/../b", "/b"),
            ("/a/%2e%2e/b/.", "/a/../b/.", "/b/"),
            ("/a/..", "/a/..", "/"),
            ("/a/x%2f..", "/a/x%2F..", "/a/x%2F.."),
        ],
    );
}

#[test]
fn parameters_are_stripped_or_kept_by_choice() {
    let strip = PathRules { parameters: ParameterAction::Strip, ..PathRules::DEFAULT };
    check(&strip, &[("/a;x/b;y", "/a/b", "/a/b"), ("/a/;x", "/a/", "/a/")]);
    let keep = PathRules { parameters: ParameterAction::Keep, ..PathRules::DEFAULT };
    check(
        &keep,
        &[
            ("/a;x/b", "/a;x/b", "/a;x/b"),
            ("/a%3bx", "/a%3Bx", "/a;x"),
            ("/x/..;/a", "/x/..;/a", "/x/..;/a"),
            ("/a/;x/../b", "/a/b", "/a/b"),
        ],
    );
}

#[test]
fn case_is_compared_by_choice() {
    let rules = PathRules { case: PathCase::Insensitive, ..PathRules::DEFAULT };
    check(
        &rules,
        &[("/ADMIN/%53ecret", "/ADMIN/Secret", "/admin/secret"), ("/%C3", "/%C3", "/%C3")],
    );
}

#[test]
fn routes_change_what_is_refused_and_sent() {
    let own = PathOverrides { escaped_slashes: Some(Keep), ..PathOverrides::default() };
    let rules = PathRules::DEFAULT.with(&own);
    assert_eq!(rules, PathRules { escaped_slashes: Keep, ..PathRules::DEFAULT });
}

#[test]
fn prefixes_are_stripped_off_both_spellings() {
    for (path, prefix, rest) in [
        ("/api/x", "/api", Some("/x")),
        ("/api/x", "/api/", Some("/x")),
        ("/api", "/api", Some("")),
        ("/apis", "/api", None),
        ("/api;v=1/a;b", "/api", Some("/a;b")),
        ("/%40x/%40y", "/@x", Some("/%40y")),
        ("//api//a//b", "/api", Some("//a//b")),
        ("/x", "", Some("/x")),
        ("/x", "/", Some("/x")),
        // Segments that nobody can lay side by side: the compared spelling.
        ("/y/../api/./x", "/api", Some("/x")),
    ] {
        let rules = PathRules { repeated_slashes: Keep, dot_segments: Keep, ..PathRules::DEFAULT };
        let mut out = PathSpellings::default();
        rules.read(path.as_bytes(), &mut out).unwrap();
        let got = strip_path_prefix((&out.sent, &out.compared), prefix.as_bytes());
        assert_eq!(got.map(|(sent, _)| sent), rest.map(str::as_bytes), "{path} {prefix}");
    }
}

#[test]
fn forms_are_seen() {
    for path in ["/", "/a/b.c", "/a..b/", "/a:b@c", "/ABC"] {
        assert_eq!(PathForm::of(path.as_bytes()), PathForm::Normal, "{path}");
    }
    for path in ["//", "/.", "/a%20", "/a;b", "/a\\b"] {
        assert_eq!(PathForm::of(path.as_bytes()), PathForm::Unread, "{path}");
    }
}

/// Paths that are not flagged have one spelling only, whatever else they are made of.
#[test]
fn normal_paths_are_both_spellings() {
    let visible = (0x21..0x7f_u8).filter(|byte| !b"%;\\?#".contains(byte));
    for byte in visible {
        let path = format!("/a{}b", char::from(byte));
        assert_eq!(PathForm::of(path.as_bytes()), PathForm::Normal, "{path}");
        assert_eq!(read(&PathRules::DEFAULT, &path), Ok((path.clone(), path.clone(), None)));
    }
}
