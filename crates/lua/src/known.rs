//! Names of fields that a script uses: each is looked at once, however often it comes.

use std::cell::RefCell;
use std::rc::Rc;

use sluice_message::{FieldId, FieldName};

/// Names that are kept, by what they look like; a power of two.
const PLACES: usize = 128;

/// How many places there are for a name.
const WAYS: usize = 4;

/// Longer ones are looked at each time.
pub(crate) const LONGEST: usize = 64;

/// Who writes lines of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// Scripts, too.
    Anybody,
    /// The gateway alone: framing, and what belongs to a connection (RFC 9110, 7.6.1).
    Gateway,
    /// Nobody: it is no name.
    Nobody,
}

/// A name that was looked at.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) name: FieldName,
    pub(crate) writer: Writer,
}

impl Known {
    fn new(name: &[u8]) -> Self {
        Self { name: FieldName::new(name), writer: writer(name) }
    }
}

fn writer(name: &[u8]) -> Writer {
    if !is_name(name) {
        return Writer::Nobody;
    }
    let id = FieldId::of(name);
    let ours = id.is_hop_by_hop()
        || matches!(id, FieldId::ContentLength | FieldId::Trailer | FieldId::Expect);
    if ours { Writer::Gateway } else { Writer::Anybody }
}

/// Whether this is a token (RFC 9110, 5.6.2).
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| byte < 128 && TOKEN >> byte & 1 == 1)
}

/// A bit for each byte of tokens; none above 127 is one.
const TOKEN: u128 = {
    let mut bits = 0;
    let mut byte = 0_u8;
    while byte < 128 {
        let other = matches!(
            byte,
            b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~'
        );
        if byte.is_ascii_alphanumeric() || other {
            bits |= 1 << byte;
        }
        byte += 1;
    }
    bits
};

/// Names that get a number: a script that uses more looks up the others.
pub(crate) const NUMBERS: usize = 256;

/// The names that a script used last.
#[derive(Debug, Default)]
pub(crate) struct KnownNames {
    recent: RefCell<Vec<Option<Rc<Known>>>>,
    /// Those that have a number, which they keep as long as the script runs.
    numbered: RefCell<Vec<Rc<Known>>>,
}

impl KnownNames {
    /// A number for a name, by which [`KnownNames::with`] finds it sooner than by its bytes; `None` for what is no
    /// name or too long, and when there are enough.
    pub(crate) fn number(&self, name: &[u8]) -> Option<u32> {
        let known = self.look_up(name);
        let mut all = self.numbered.borrow_mut();
        let fits = known.writer != Writer::Nobody && name.len() <= LONGEST && all.len() < NUMBERS;
        let number = u32::try_from(all.len()).ok().filter(|_| fits)?;
        all.push(known);
        Some(number)
    }

    /// Works with the name that has this number, if there is one.
    #[inline]
    pub(crate) fn with<R>(&self, number: u32, work: impl FnOnce(&Known) -> R) -> Option<R> {
        let all = self.numbered.borrow();
        all.get(usize::try_from(number).ok()?).map(|known| work(known))
    }

    /// What is known of a name.
    #[inline]
    pub(crate) fn look_up(&self, name: &[u8]) -> Rc<Known> {
        let first = place(name);
        let all = self.recent.borrow();
        let ways = all.get(first..first + WAYS).unwrap_or_default();
        for known in ways.iter().flatten() {
            if *known.name.text() == *name {
                return Rc::clone(known);
            }
        }
        drop(all);
        self.look_at(name)
    }

    #[cold]
    fn look_at(&self, name: &[u8]) -> Rc<Known> {
        let known = Rc::new(Known::new(name));
        if name.len() > LONGEST || known.writer == Writer::Nobody {
            return known;
        }
        let mut all = self.recent.borrow_mut();
        all.resize(PLACES + WAYS, None);
        let first = place(name);
        if let Some(ways) = all.get_mut(first..first + WAYS) {
            // The newest first; the one that gives way is the oldest, unless there is room.
            let free = ways.iter().position(Option::is_none).unwrap_or(WAYS - 1);
            if let Some(ways) = ways.get_mut(..=free) {
                ways.rotate_right(1);
            }
            if let Some(way) = ways.first_mut() {
                *way = Some(Rc::clone(&known));
            }
        }
        known
    }
}

/// The first of the places for a name.
#[inline]
fn place(name: &[u8]) -> usize {
    let (first, last) = (name.first().copied(), name.last().copied());
    let mixed =
        usize::from(first.unwrap_or(0)) ^ usize::from(last.unwrap_or(0)) << 2 ^ name.len() << 4;
    mixed % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_at_once() {
        let names = KnownNames::default();
        for (name, writer, id) in [
            ("x-a", Writer::Anybody, FieldId::Other),
            ("User-Agent", Writer::Anybody, FieldId::UserAgent),
            ("Content-Length", Writer::Gateway, FieldId::ContentLength),
            ("transfer-encoding", Writer::Gateway, FieldId::TransferEncoding),
        ] {
            let known = names.look_up(name.as_bytes());
            assert_eq!((known.writer, known.name.id()), (writer, id), "{name}");
            assert!(Rc::ptr_eq(&known, &names.look_up(name.as_bytes())), "{name}");
        }
        for name in ["", "x a", "x\r\ny", "x:"] {
            assert_eq!(names.look_up(name.as_bytes()).writer, Writer::Nobody, "{name:?}");
        }
    }

    #[test]
    fn names_that_look_alike_get_along_and_their_number_is_bounded() {
        let names = KnownNames::default();
        for number in 0..10_000 {
            let name = format!("x-{number:05}-x");
            assert_eq!(names.look_up(name.as_bytes()).name.text(), name.as_bytes());
        }
        assert!(names.recent.borrow().iter().flatten().count() <= WAYS, "all have the same places");
        let (one, other) = (names.look_up(b"x-00001-x"), names.look_up(b"x-00002-x"));
        assert!(Rc::ptr_eq(&one, &names.look_up(b"x-00001-x")));
        assert!(Rc::ptr_eq(&other, &names.look_up(b"x-00002-x")));
        let long = "x".repeat(1000);
        assert_eq!(names.look_up(long.as_bytes()).name.text(), long.as_bytes());
        assert!(names.recent.borrow().iter().flatten().all(|it| it.name.length() < 10));
    }
}
