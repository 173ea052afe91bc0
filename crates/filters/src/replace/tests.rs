//! What comes out does not depend on how the content is cut.

use super::*;

/// The content in pieces of this size.
fn replaced(replacement: &Replacement, text: &[u8], size: usize) -> Vec<u8> {
    let mut stream = replacement.stream();
    let mut out = Vec::new();
    for piece in text.chunks(size) {
        stream.push(piece, &mut out);
    }
    stream.end(&mut out);
    out
}

fn check(replacement: &Replacement, text: &str, expected: &str) {
    for size in [1, 2, 3, 5, 7, 64, 1 << 20] {
        let got = replaced(replacement, text.as_bytes(), size);
        assert_eq!(String::from_utf8_lossy(&got), expected, "{text} in pieces of {size}");
    }
}

#[test]
fn texts_are_replaced() {
    let rows = [
        ("abc", "X", "", ""),
        ("abc", "X", "abc", "X"),
        ("abc", "X", "ababcab", "abXab"),
        ("abc", "", "aabcbcabc", "abc"),
        ("aab", "-", "aaaab aab aa", "aa- - aa"),
        ("abab", "-", "ababab", "-ab"),
        ("aa", "a", "aaaaa", "aaa"),
        ("http://", "https://", "<a href=http://x>http:/", "<a href=https://x>http:/"),
        ("é", "e", "caf\u{e9}", "cafe"),
        ("a$1", "$1", "a$1", "$1"),
    ];
    for (text, with, content, expected) in rows {
        let all = Replacement::of_text(text, with, Case::Matters, Occurrences::All).unwrap();
        check(&all, content, expected);
        let folded = Replacement::of_text(text, with, Case::Ignored, Occurrences::All).unwrap();
        check(&folded, content, expected);
    }
    let folded = Replacement::of_text("Host.Example", "$&", Case::Ignored, Occurrences::All);
    check(&folded.unwrap(), "//HOST.example/ hostXexample", "//$&/ hostXexample");
    for case in [Case::Matters, Case::Ignored] {
        let first = Replacement::of_text("a", "bb", case, Occurrences::First).unwrap();
        check(&first, "xaxa", "xbbxa");
    }
}

#[test]
fn expressions_are_replaced() {
    let rows = [
        ("a+", "<$0>", "caaat a", "c<aaa>t <a>"),
        ("a+?", "<$0>", "aa", "<a><a>"),
        ("(?<k>[a-z]+)=(?<v>[0-9]+)", "${v}:${k}", "a=1, bc=, d=23", "1:a, bc=, 23:d"),
        ("a|ab", "X", "ab", "Xb"),
        ("ab|a", "X", "aab", "XX"),
        ("a.*?b", "X", "a--b a\nb", "X a\nb"),
        ("(?s)<script>.*?</script>", "", "1<script>\nx</script>2<script>", "12<script>"),
        ("abcd|b", "X", "abce abcd", "aXce X"),
        ("[^a]b", "X", "abbb", "aXb"),
        (r"\d{3}", "#", "1234567", "##7"),
        ("(?i)x", "$$", "aXbx", "a$b$"),
    ];
    for (expression, with, content, expected) in rows {
        let all = Replacement::of_expression(expression, with, 64, Occurrences::All).unwrap();
        check(&all, content, expected);
    }
    let first = Replacement::of_expression("a+", "X", 64, Occurrences::First).unwrap();
    check(&first, "-aa-a-", "-X-a-");
}

#[test]
fn what_cannot_be_searched_is_refused() {
    let text = |text: &str| Replacement::of_text(text, "", Case::Matters, Occurrences::All);
    assert_eq!(text("").unwrap_err(), "an empty text is found everywhere");
    assert!(text(&"a".repeat(LONGEST_TEXT)).is_ok());
    assert!(text(&"a".repeat(LONGEST_TEXT + 1)).is_err());
    let rows = [
        ("(", "this is no regular expression: unclosed group"),
        ("a*", "the expression matches nothing at all, which is everywhere"),
        ("^a", "^, $ and \\b have no place in content that comes in pieces"),
        (r"a\b", "^, $ and \\b have no place in content that comes in pieces"),
        (r"[ab]*a[ab]{18}", "the expression is too large to be searched in pieces"),
        (r"\w{1000}{100}", "the expression is too large to be searched in pieces"),
    ];
    for (expression, message) in rows {
        let refused = Replacement::of_expression(expression, "", 64, Occurrences::All);
        assert!(refused.as_ref().unwrap_err().starts_with(message), "{expression} {refused:?}");
    }
}

#[test]
fn no_more_is_kept_back_than_may_match() {
    let rows = [("abc", "xyzab", 2), ("abc", "xyz", 0), ("aaaa", "baaa", 3), ("abc", "abab", 2)];
    for (text, content, kept) in rows {
        let literal = Replacement::of_text(text, "", Case::Matters, Occurrences::All).unwrap();
        let folded = Replacement::of_text(text, "", Case::Ignored, Occurrences::All).unwrap();
        for (replacement, most) in [(literal, kept), (folded, content.len().min(kept + 3))] {
            let (mut stream, mut out) = (replacement.stream(), Vec::new());
            stream.push(content.as_bytes(), &mut out);
            let held = content.len() - out.len();
            assert!((kept..=most).contains(&held), "{text} in {content}: {held}");
        }
    }
}

#[test]
fn a_match_that_does_not_end_is_given_up() {
    let replacement = Replacement::of_expression("(?s)<.*>", "X", 16, Occurrences::All).unwrap();
    let mut stream = replacement.stream();
    let mut out = Vec::new();
    for _ in 0..1000 {
        stream.push(b"<aaaaaaaaaaaaaa", &mut out);
    }
    assert!(15_000 - out.len() < 32, "{}", out.len());
    // Cut anywhere, the same is found.
    let text = "<aaaa>bbbbbbbbbbbbbbbbbbbbbbbbbb><cc><dd>".repeat(50);
    let whole = replaced(&replacement, text.as_bytes(), text.len());
    check(&replacement, &text, &String::from_utf8(whole).unwrap());
}

#[test]
fn random_texts_come_out_as_from_the_whole() {
    let mut state = 7_u64;
    let mut random = move |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let expressions = ["ab+", "a(b|c)*d", "aab|ab", "[ab]{2}c", "a.c", "ab?a", "(a|ab)(c|bcd)"];
    for _ in 0..3000 {
        let length = random(40);
        let text: Vec<u8> = (0..length).map(|_| b"abcd\n"[random(5)]).collect();
        let expression = expressions[random(expressions.len())];
        let regex = regex::bytes::RegexBuilder::new(expression).unicode(false).build().unwrap();
        let expected = regex.replace_all(&text, &b"<$0>"[..]).into_owned();
        let all = Replacement::of_expression(expression, "<$0>", 64, Occurrences::All).unwrap();
        let first = Replacement::of_expression(expression, "<$0>", 64, Occurrences::First).unwrap();
        let size = 1 + random(9);
        assert_eq!(replaced(&all, &text, size), expected, "{expression} {}", text.escape_ascii());
        let expected = regex.replace(&text, &b"<$0>"[..]).into_owned();
        assert_eq!(replaced(&first, &text, size), expected, "{expression} {}", text.escape_ascii());
    }
}
