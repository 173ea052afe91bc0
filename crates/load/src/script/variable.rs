//! The variables of a script: where values come from that differ from request to request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use fastrand::Rng;
use sluice_net::process::wall_clock;

use super::clock::{Layout, Zone};
use super::problem::{Report, Span};
use super::text::{push_number, push_signed};

/// A variable's place in [`Variables`].
pub(crate) type VariableId = usize;

/// All variables of a script; shared by all workers.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    list: Vec<Variable>,
    names: HashMap<String, VariableId>,
    /// Those whose values cannot be had.
    pub(crate) missing: Vec<Missing>,
}

/// Why a variable has no values. That is no error before something uses it.
#[derive(Debug)]
pub(crate) struct Missing {
    id: VariableId,
    place: Span,
    why: String,
    used: AtomicBool,
}

impl Missing {
    pub(crate) const fn new(place: Span, why: String) -> Self {
        Self { id: VariableId::MAX, place, why, used: AtomicBool::new(false) }
    }

    /// The same, of this variable.
    pub(crate) fn of(self, id: VariableId) -> Self {
        Self { id, ..self }
    }
}

/// Whether the name of a variable was new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    New,
    /// It is the present one's from now on.
    Again,
}

/// One variable.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) kind: Kind,
    pub(crate) replace: Replace,
}

/// Where a variable's values come from.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A random one of these; never empty.
    Pick(Vec<Box<[u8]>>),
    Sequence(Sequence),
    /// A random whole number, both ends included.
    Range(i64, i64),
    /// Values of another variable, separated by commas.
    Array(Array),
    /// A short id that sorts by time.
    Uuid,
    Time(Layout, Zone),
    /// Time since 1970 in units of so many nanoseconds.
    Unix(u64),
    /// Random whole numbers as a compressed bitmap in base64.
    Bitmap {
        size: usize,
        from: u32,
        to: u32,
    },
}

/// A list of values of another variable.
#[derive(Debug)]
pub(crate) struct Array {
    /// Defined before this one, so that no circle is possible.
    pub(crate) source: VariableId,
    pub(crate) size: usize,
    /// What stands before and behind each value.
    pub(crate) quote: Box<str>,
    pub(crate) brackets: Brackets,
}

/// Whether a list stands in square brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brackets {
    Square,
    None,
}

/// A counter that all workers share.
#[derive(Debug)]
pub(crate) struct Sequence {
    taken: AtomicU64,
    from: u64,
    to: u64,
}

impl Sequence {
    pub(crate) const fn new(from: u64, to: u64) -> Self {
        Self { taken: AtomicU64::new(0), from, to }
    }

    /// `from + 1` up to `to`, then 0 up to `to` again and again. One addition, whatever happens on
    /// other threads, so that no value is given twice and none is left out.
    pub(crate) fn next(&self) -> u64 {
        let taken = self.taken.fetch_add(1, Ordering::Relaxed);
        let first = self.to.saturating_sub(self.from);
        match taken.checked_sub(first) {
            None => self.from.wrapping_add(1).wrapping_add(taken),
            Some(again) => match self.to.checked_add(1) {
                Some(period) => again % period,
                None => again,
            },
        }
    }
}

/// Texts to be replaced in every value, in one pass; at each place the first that fits.
#[derive(Debug, Default)]
pub(crate) struct Replace(pub(crate) Vec<Pair>);

/// What is replaced, and by what.
pub(crate) type Pair = (Box<[u8]>, Box<[u8]>);

impl Replace {
    /// Replaces in what was appended since `start`.
    fn apply(&self, out: &mut Vec<u8>, start: usize, scratch: &mut Vec<u8>) {
        if self.0.is_empty() {
            return;
        }
        scratch.clear();
        scratch.extend_from_slice(out.get(start..).unwrap_or_default());
        out.truncate(start);
        let mut rest = scratch.as_slice();
        while let Some((first, after)) = rest.split_first() {
            match self.0.iter().find(|(old, _)| rest.starts_with(old)) {
                Some((old, new)) => {
                    out.extend_from_slice(new);
                    rest = rest.get(old.len()..).unwrap_or_default();
                }
                None => {
                    out.push(*first);
                    rest = after;
                }
            }
        }
    }

    /// A fixed value with everything replaced.
    pub(crate) fn applied(&self, value: &str) -> Box<[u8]> {
        let mut out = value.as_bytes().to_vec();
        self.apply(&mut out, 0, &mut Vec::new());
        out.into()
    }
}

/// What a worker needs to make values; not shared.
#[derive(Debug)]
pub(crate) struct Maker {
    pub(crate) random: Rng,
    pub(crate) scratch: Vec<u8>,
    numbers: Vec<u32>,
}

impl Maker {
    pub(crate) fn new() -> Self {
        Self { random: Rng::new(), scratch: Vec::new(), numbers: Vec::new() }
    }
}

impl Variables {
    /// Adds a variable.
    pub(crate) fn add(&mut self, name: &str, variable: Variable) -> Added {
        let before = self.names.insert(name.to_owned(), self.list.len());
        self.list.push(variable);
        if before.is_some() { Added::Again } else { Added::New }
    }

    /// The variable that was added last.
    pub(crate) const fn last(&self) -> VariableId {
        self.list.len().saturating_sub(1)
    }

    /// The variable of a name, which is used: its values have to be there.
    pub(crate) fn used(&self, name: &str, report: &mut Report<'_>) -> Option<VariableId> {
        let id = self.find(name)?;
        if let Some(missing) = self.missing.iter().find(|missing| missing.id == id) {
            missing.used.store(true, Ordering::Relaxed);
            report.error(missing.place, missing.why.clone());
        }
        Some(id)
    }

    /// Says which variables could not be used, where nothing uses them.
    pub(crate) fn warn_of_missing(&self, report: &mut Report<'_>) {
        for missing in self.missing.iter().filter(|it| !it.used.load(Ordering::Relaxed)) {
            report.warning(missing.place, format!("{}; nothing uses it", missing.why));
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<VariableId> {
        self.names.get(name).copied()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Appends the next value of a variable.
    pub(crate) fn write(&self, id: VariableId, maker: &mut Maker, out: &mut Vec<u8>) {
        let Some(variable) = self.list.get(id) else { return };
        let start = out.len();
        match &variable.kind {
            // Replaced when the script was read.
            Kind::Pick(values) => {
                let index = maker.random.usize(..values.len().max(1));
                out.extend_from_slice(values.get(index).map_or(&[], |value| value));
                return;
            }
            Kind::Sequence(sequence) => push_number(out, sequence.next()),
            Kind::Range(from, to) => push_signed(out, maker.random.i64(*from..=*to)),
            Kind::Array(array) => self.array(array, maker, out),
            Kind::Uuid => write_id(out),
            Kind::Time(layout, zone) => layout.write(zone, out),
            Kind::Unix(unit) => {
                let nanos = u64::try_from(wall_clock().as_nanos()).unwrap_or(u64::MAX);
                push_number(out, nanos / unit);
            }
            Kind::Bitmap { size, from, to } => {
                maker.numbers.clear();
                let random = &mut maker.random;
                maker.numbers.extend((0..*size).map(|_| random.u32(*from..=*to)));
                super::bitmap::write(&mut maker.numbers, &mut maker.scratch, out);
            }
        }
        variable.replace.apply(out, start, &mut maker.scratch);
    }

    fn array(&self, array: &Array, maker: &mut Maker, out: &mut Vec<u8>) {
        if array.brackets == Brackets::Square {
            out.push(b'[');
        }
        for number in 0..array.size {
            if number > 0 {
                out.push(b',');
            }
            out.extend_from_slice(array.quote.as_bytes());
            self.write(array.source, maker, out);
            out.extend_from_slice(array.quote.as_bytes());
        }
        if array.brackets == Brackets::Square {
            out.push(b']');
        }
    }
}

/// Appends an id of 20 characters: seconds since 1970, a number of this process, a counter; 12
/// bytes in base 32, so that later ids sort behind earlier ones.
fn write_id(out: &mut Vec<u8>) {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    static PROCESS: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let process = *PROCESS.get_or_init(|| {
        COUNTER.store(fastrand::u32(..), Ordering::Relaxed);
        fastrand::u64(..1 << 40)
    });
    let count = COUNTER.fetch_add(1, Ordering::Relaxed) & 0x00ff_ffff;
    let seconds = wall_clock().as_secs() & 0xffff_ffff;
    let bits = u128::from(seconds) << 64 | u128::from(process) << 24 | u128::from(count);
    // 96 bits are 19 digits of 5 bits and one of the last bit, filled up with zeros.
    let bits = bits << 4;
    for place in (0..20_u32).rev() {
        let digit = u8::try_from(bits >> (place * 5) & 31).unwrap_or(0);
        out.push(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
    }
}
