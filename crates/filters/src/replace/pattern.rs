//! A regular expression found in pieces, by an automaton that takes byte after byte.

use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};
use regex_automata::Anchored;
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;
use regex_automata::util::syntax;

use super::Occurrences;

/// Bytes that the automaton of an expression may take; larger ones are refused.
const LARGEST: usize = 1 << 20;

/// An expression that is looked for, and what takes its place.
#[derive(Debug)]
pub(super) struct Pattern {
    automaton: dense::DFA<Vec<u32>>,
    start: StateID,
    /// Finds the groups of a match whose end is known.
    regex: Regex,
    with: Box<[u8]>,
    longest: usize,
}

impl Pattern {
    pub(super) fn new(expression: &str, with: &str, longest: usize) -> Result<Self, String> {
        let regex = RegexBuilder::new(expression).unicode(false).build();
        let regex = regex.map_err(|error| reason(&error))?;
        let nfa = thompson::Compiler::new()
            .syntax(syntax::Config::new().unicode(false).utf8(false))
            .configure(thompson::Config::new().utf8(false).nfa_size_limit(Some(LARGEST)))
            .build(expression)
            .map_err(|_| too_large())?;
        if !nfa.look_set_any().is_empty() {
            return Err("^, $ and \\b have no place in content that comes in pieces".to_owned());
        }
        if nfa.has_empty() && regex.is_match(b"") {
            return Err("the expression matches nothing at all, which is everywhere".to_owned());
        }
        let config = dense::Config::new()
            .start_kind(StartKind::Unanchored)
            .specialize_start_states(true)
            // States that could be hurried through would be special too, and nothing hurries here.
            .accelerate(false)
            .dfa_size_limit(Some(LARGEST))
            .determinize_size_limit(Some(4 * LARGEST));
        let automaton = dense::Builder::new().configure(config).build_from_nfa(&nfa);
        let automaton = automaton.map_err(|_| too_large())?;
        let start = automaton.start_state(&start::Config::new().anchored(Anchored::No));
        let start = start.map_err(|_| too_large())?;
        Ok(Self { automaton, start, regex, with: with.as_bytes().into(), longest })
    }
}

fn too_large() -> String {
    "the expression is too large to be searched in pieces: repeat less, or fewer alternatives"
        .to_owned()
}

fn reason(error: &regex::Error) -> String {
    // The first lines of the message draw the expression.
    let message = error.to_string();
    let last = message.lines().last().unwrap_or_default();
    format!("this is no regular expression: {}", last.strip_prefix("error: ").unwrap_or(last))
}

/// The search in one message.
#[derive(Debug)]
pub(super) struct PatternStream {
    pattern: Arc<Pattern>,
    /// What may be part of a match.
    held: Vec<u8>,
    /// How much of it the automaton has taken.
    taken: usize,
    state: StateID,
    /// Where the match ends that was found so far; a longer one may be preferred to it.
    matched: Option<usize>,
    found: bool,
}

/// How far the bytes at hand are settled.
#[derive(Default)]
struct Settled {
    /// What comes before was appended to the output, or replaced.
    passed: usize,
    /// No match begins before.
    clean: usize,
}

impl PatternStream {
    pub(super) fn new(pattern: Arc<Pattern>) -> Self {
        let state = pattern.start;
        Self { pattern, held: Vec::new(), taken: 0, state, matched: None, found: false }
    }

    pub(super) fn push(&mut self, piece: &[u8], occurrences: Occurrences, out: &mut Vec<u8>) {
        self.held.extend_from_slice(piece);
        let mut settled = Settled::default();
        self.scan(&mut settled, occurrences, out);
        out.extend_from_slice(self.held.get(settled.passed..settled.clean).unwrap_or_default());
        self.held.drain(..settled.clean);
        self.taken -= settled.clean;
        self.matched = self.matched.map(|end| end - settled.clean);
    }

    pub(super) fn end(&mut self, occurrences: Occurrences, out: &mut Vec<u8>) {
        let mut settled = Settled::default();
        loop {
            self.scan(&mut settled, occurrences, out);
            if self.is_over(occurrences) {
                break;
            }
            let last = self.pattern.automaton.next_eoi_state(self.state);
            if self.pattern.automaton.is_match_state(last) {
                self.matched = Some(self.held.len());
            }
            if self.matched.is_none() {
                break;
            }
            self.settle(&mut settled, out);
        }
        out.extend_from_slice(self.held.get(settled.passed..).unwrap_or_default());
        self.held.clear();
        self.taken = 0;
    }

    fn is_over(&self, occurrences: Occurrences) -> bool {
        self.found && occurrences == Occurrences::First
    }

    /// Lets the automaton take what is at hand.
    fn scan(&mut self, settled: &mut Settled, occurrences: Occurrences, out: &mut Vec<u8>) {
        let pattern = Arc::clone(&self.pattern);
        let automaton = &pattern.automaton;
        while let Some(byte) = self.held.get(self.taken) {
            if self.is_over(occurrences) {
                self.taken = self.held.len();
                settled.clean = self.taken;
                return;
            }
            self.state = automaton.next_state(self.state, *byte);
            self.taken += 1;
            if automaton.is_special_state(self.state) {
                if automaton.is_start_state(self.state) {
                    settled.clean = self.taken;
                } else if automaton.is_match_state(self.state) {
                    // Matches are told one byte late.
                    self.matched = Some(self.taken - 1);
                } else {
                    // Dead: nothing that follows makes a match of it, or a longer one.
                    self.settle(settled, out);
                    continue;
                }
            }
            if self.taken - settled.clean >= pattern.longest {
                self.settle(settled, out);
            }
        }
    }

    /// No longer match is to be had: replaces the one there is, or gives up what looked like one, and goes on
    /// behind it.
    fn settle(&mut self, settled: &mut Settled, out: &mut Vec<u8>) {
        self.state = self.pattern.start;
        let Some(end) = self.matched.take() else {
            settled.clean = self.taken;
            return;
        };
        // Without anchors what matches a text matches its beginning up to the end of the match.
        let text = self.held.get(settled.clean..end).unwrap_or_default();
        if let Some(groups) = self.pattern.regex.captures(text) {
            let start = groups.get(0).map_or(0, |whole| whole.start());
            let before = settled.passed..settled.clean + start;
            out.extend_from_slice(self.held.get(before).unwrap_or_default());
            groups.expand(&self.pattern.with, out);
            settled.passed = end;
            self.found = true;
        }
        settled.clean = end;
        self.taken = end;
    }
}
