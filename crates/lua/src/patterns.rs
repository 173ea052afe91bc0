//! Patterns that a state has compiled, kept for when they are used again.

use std::collections::HashMap;
use std::rc::Rc;

use fancy_regex::{BytesMode, Regex, RegexBuilder};

/// Longest pattern.
const LONGEST: usize = 32 << 10;

/// Patterns that a state keeps; when there are more, it begins anew.
const KEPT: usize = 128;

/// What an automaton may take; most take a hundredth.
const SIZE: usize = 512 << 10;

/// Steps back after which a search is given up: some milliseconds.
const STEPS: usize = 200_000;

/// Patterns that a state has used, by options and text.
#[derive(Debug, Default)]
pub(crate) struct Patterns(HashMap<(Vec<u8>, Vec<u8>), Rc<Regex>>);

impl Patterns {
    /// The expression of a pattern, compiled if it is new.
    pub(crate) fn get(&mut self, options: &[u8], pattern: &[u8]) -> Result<Rc<Regex>, String> {
        let key = (options.to_vec(), pattern.to_vec());
        if let Some(known) = self.0.get(&key) {
            return Ok(Rc::clone(known));
        }
        let regex = Rc::new(compile(options, pattern)?);
        if self.0.len() >= KEPT {
            self.0.clear();
        }
        self.0.insert(key, Rc::clone(&regex));
        Ok(regex)
    }
}

/// Options are those of `ngx.re`: `i`, `m`, `s`, `x` as usual, `u` and `U` for UTF-8, `a` for a match at the start. `j`,
/// `o` and `d` change nothing.
fn compile(options: &[u8], pattern: &[u8]) -> Result<Regex, String> {
    let shown = || String::from_utf8_lossy(pattern).escape_debug().to_string();
    if pattern.len() > LONGEST {
        return Err(format!("the pattern is longer than {LONGEST} bytes"));
    }
    let Ok(text) = std::str::from_utf8(pattern) else {
        return Err(format!("the pattern \"{}\" is no UTF-8", shown()));
    };
    let mut builder = RegexBuilder::new(text);
    let mut mode = BytesMode::Ascii;
    for option in options {
        match option {
            b'i' => _ = builder.case_insensitive(true),
            b'm' => _ = builder.multi_line(true),
            b's' => _ = builder.dot_matches_new_line(true),
            b'x' => _ = builder.ignore_whitespace(true),
            b'u' | b'U' => mode = BytesMode::UnicodeBytes,
            b'a' | b'j' | b'o' | b'd' => {}
            other => {
                let other = char::from(*other).escape_debug();
                return Err(format!(
                    "unknown option \"{other}\": there are a, d, i, j, m, o, s, u, U and x"
                ));
            }
        }
    }
    builder.bytes_mode(mode).backtrack_limit(STEPS);
    builder.delegate_size_limit(SIZE).delegate_dfa_size_limit(SIZE);
    builder.build().map_err(|error| format!("the pattern \"{}\": {error}", shown()))
}
