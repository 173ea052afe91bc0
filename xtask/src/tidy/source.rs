//! A Rust source file as the rules look at it: code without comments, literals and tests.

use std::path::{Path, PathBuf};

/// One source file.
#[derive(Debug)]
pub struct Source {
    /// Its path from the root of the repository.
    pub path: PathBuf,
    /// Its bytes as they are.
    pub text: String,
    /// The text with comments, strings and characters blanked; every byte keeps its place.
    pub code: String,
    /// The text with only comments blanked.
    pub words: String,
    /// Whether the whole file belongs to tests.
    pub kind: Kind,
}

/// What a file is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The product.
    Product,
    /// A test.
    Test,
}

impl Source {
    /// Takes a file apart.
    pub fn new(path: &Path, text: &str) -> Self {
        let (code, words) = blank(text);
        let (code, words) = without_tests(code, words);
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let folders = path.iter().any(|part| part == "tests" || part == "benches");
        let kind = if folders || stem == "tests" { Kind::Test } else { Kind::Product };
        Self { path: path.to_owned(), text: text.to_owned(), code, words, kind }
    }

    /// The line, counted from 1, of a byte.
    pub fn line_at(&self, at: usize) -> usize {
        self.text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
    }
}

/// Blanks comments (and literals, in the first of the two texts) byte for byte.
fn blank(text: &str) -> (String, String) {
    let bytes = text.as_bytes();
    let (mut code, mut words) = (bytes.to_vec(), bytes.to_vec());
    let mut at = 0;
    while at < bytes.len() {
        let (end, literal) = match token(bytes, at) {
            Token::Comment(end) => (end, false),
            Token::Literal(end) => (end, true),
            Token::Code(end) => {
                at = end;
                continue;
            }
        };
        wipe(&mut code[at..end]);
        if !literal {
            wipe(&mut words[at..end]);
        }
        at = end;
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(code), text(words))
}

fn wipe(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
}

enum Token {
    Comment(usize),
    Literal(usize),
    Code(usize),
}

fn token(bytes: &[u8], at: usize) -> Token {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => Token::Comment(at + find(rest, b"\n").unwrap_or(rest.len())),
        [b'/', b'*', ..] => Token::Comment(at + block_comment(rest)),
        [b'"', ..] => Token::Literal(at + quoted(rest, b'"')),
        [b'b' | b'c', b'"', ..] => Token::Literal(at + 1 + quoted(&rest[1..], b'"')),
        [b'r', b'"' | b'#', ..] => raw(bytes, at, 1),
        [b'b' | b'c', b'r', b'"' | b'#', ..] => raw(bytes, at, 2),
        [b'\'', ..] => match character(rest) {
            Some(length) => Token::Literal(at + length),
            None => Token::Code(at + 1),
        },
        [first, ..] if is_word(*first) => {
            // A whole word at once, so that the `r` of `for"` is not taken for a raw string's.
            let end = rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len());
            Token::Code(at + end)
        }
        _ => Token::Code(at + 1),
    }
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}

fn block_comment(bytes: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn quoted(bytes: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn raw(bytes: &[u8], at: usize, prefix: usize) -> Token {
    let rest = &bytes[at + prefix..];
    let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
    if rest.get(hashes) != Some(&b'"') {
        // A raw identifier.
        return Token::Code(at + prefix + hashes);
    }
    let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let body = &rest[hashes + 1..];
    let length = find(body, &close).map_or(body.len(), |end| end + close.len());
    Token::Literal(at + prefix + hashes + 1 + length)
}

/// The length of a character literal; a lifetime is none.
fn character(bytes: &[u8]) -> Option<usize> {
    if bytes.get(1) == Some(&b'\\') {
        return Some(quoted(bytes, b'\''));
    }
    let text = std::str::from_utf8(&bytes[1..bytes.len().min(6)]);
    let valid = text.map_or_else(|e| e.valid_up_to(), str::len);
    let first = std::str::from_utf8(&bytes[1..=valid]).ok()?.chars().next()?;
    let end = 1 + first.len_utf8();
    (bytes.get(end) == Some(&b'\'')).then_some(end + 1)
}

/// Whether a byte can be part of an identifier.
pub fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Every place where `word` stands as a whole word.
pub fn places<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = text.as_bytes();
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = at.checked_sub(1).and_then(|i| bytes.get(i));
        let after = bytes.get(at + word.len());
        !before.is_some_and(|b| is_word(*b)) && !after.is_some_and(|b| is_word(*b))
    })
}

/// Where the bracket that opens at `open` closes: the place behind it.
pub fn closing(code: &str, open: usize) -> Option<usize> {
    let bytes = code.as_bytes();
    let (opens, closes) = match bytes.get(open)? {
        b'{' => (b'{', b'}'),
        b'(' => (b'(', b')'),
        b'[' => (b'[', b']'),
        _ => return None,
    };
    let mut depth = 0_usize;
    for (at, byte) in bytes.iter().enumerate().skip(open) {
        if *byte == opens {
            depth += 1;
        } else if *byte == closes {
            depth -= 1;
            if depth == 0 {
                return Some(at + 1);
            }
        }
    }
    None
}

/// Blanks the items behind `#[cfg(test)]`.
fn without_tests(code: String, words: String) -> (String, String) {
    let mut spans = Vec::new();
    for (at, mark) in code.match_indices("#[cfg(test)]") {
        let rest = &code[at + mark.len()..];
        let brace = rest.find('{').unwrap_or(rest.len());
        let semicolon = rest.find(';').unwrap_or(rest.len());
        let start = at + mark.len();
        let end = if semicolon < brace {
            start + semicolon + 1
        } else {
            closing(&code, start + brace).unwrap_or(code.len())
        };
        spans.push((at, end));
    }
    let (mut code, mut words) = (code.into_bytes(), words.into_bytes());
    for (start, end) in spans {
        wipe(&mut code[start..end]);
        wipe(&mut words[start..end]);
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(code), text(words))
}

#[cfg(test)]
mod tests {
    use super::{Kind, Source, places};
    use std::path::Path;

    fn source(text: &str) -> Source {
        Source::new(Path::new("crates/x/src/a.rs"), text)
    }

    #[test]
    fn blanks_comments_and_literals_in_place() {
        let table = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            ("f(\"x \\\" y\") z", "f(        ) z"),
            ("br#\"a\"b\"# c", "          c"),
            ("let c = '\\''; d", "let c =     ; d"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("'\"' unsafe", "    unsafe"),
            ("for x in r#type {}", "for x in r#type {}"),
            ("b'x' y", "b    y"),
        ];
        for (text, code) in table {
            assert_eq!(source(text).code, code, "{text}");
        }
        assert_eq!(source("x(\"h1\") // h2").words, "x(\"h1\")      ");
    }

    #[test]
    fn leaves_tests_out() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\nfn b() {}";
        let source = source(text);
        assert!(!source.code.contains("fs") && source.code.contains("fn b"));
        assert_eq!(source.line_at(text.find("fn b").unwrap()), 6);
        assert!(
            !Source::new(Path::new("a.rs"), "#[cfg(test)]\nmod tests;\n").code.contains("tests")
        );
        let kind = |path| Source::new(Path::new(path), "").kind;
        assert_eq!(kind("crates/x/src/y/tests.rs"), Kind::Test);
        assert_eq!(kind("crates/x/tests/y.rs"), Kind::Test);
        assert_eq!(kind("crates/x/src/y.rs"), Kind::Product);
    }

    #[test]
    fn finds_whole_words() {
        assert_eq!(places("unsafe_code unsafe (unsafe)", "unsafe").collect::<Vec<_>>(), [12, 20]);
    }
}
