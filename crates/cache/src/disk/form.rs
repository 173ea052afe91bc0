//! How an answer lies in a file: a head with a checksum, room for a longer head, and the content, whose checksum is
//! in the head.
//!
//! ```text
//! 0   magic, with the version of this form
//! 8   a byte: whether the origin has to be asked first; not part of the checksum, since it is changed alone
//! 16  checksum of what follows, up to the end of the head
//! 24  length of the head from 48 on      28  where the content begins
//! 32  length of the content              40  its checksum
//! 48  the head
//! ```
//! All numbers are little-endian, all checksums XXH64.

use std::io;
use std::ops::Range;

use sluice_message::Fields;
use sluice_net::disk::DiskFile;
use twox_hash::XxHash64;

use crate::entry::{About, Identity, SECOND};
use crate::policy::{Staleness, Terms};
use crate::vary::Selecting;

const MAGIC: &[u8; 8] = b"SLUICEC1";
/// Where the byte is that a soft purge changes.
pub(super) const MARK: u64 = 8;
pub(super) const KEPT: u8 = b'K';
pub(super) const SPOILED: u8 = b'S';
const SUM: Range<usize> = 16..24;
/// What comes before the head proper.
const FRONT: usize = 48;
/// Room for a head that becomes longer when its origin confirms it.
const SLACK: usize = 256;
/// The content begins at a multiple of this.
const STEP: usize = 512;
/// Bytes that are read at first; most heads are shorter.
const GLANCE: usize = 4096;
/// A head that says it is longer is none.
const LONGEST: usize = 1 << 20;

/// Content of a file: how much of it there is, and its checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sized {
    pub(super) length: u64,
    pub(super) sum: u64,
}

/// What the head of a file says.
#[derive(Clone, Debug)]
pub(super) struct Head {
    /// Which cache it belongs to.
    pub(super) zone: Box<[u8]>,
    pub(super) url: Box<[u8]>,
    pub(super) extra: Box<[u8]>,
    /// Its time of birth is not that of this process: see [`Head::about`].
    about: About,
    /// When the answer came, in milliseconds since 1970.
    born_ms: u64,
    pub(super) content: Sized,
    /// Where the content begins.
    pub(super) at: u64,
    /// Whether the origin has to be asked first.
    pub(super) spoiled: bool,
}

/// What is wrong with a file.
#[derive(Debug)]
pub(super) enum Damage {
    /// It is none of ours, or of another version.
    Foreign,
    /// Its head is not what was written.
    Head,
    /// It is shorter or longer than it was.
    Length,
    /// Its content is not what was written.
    Content,
    /// It is about something else than the index says.
    Mistaken,
    /// It cannot be read.
    Unreadable(io::Error),
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign => f.write_str("it is not in the form of this version"),
            Self::Head => f.write_str("its head is damaged"),
            Self::Length => f.write_str("it has another length than it was written with"),
            Self::Content => f.write_str("its content is damaged"),
            Self::Mistaken => f.write_str("it is about something else"),
            Self::Unreadable(error) => write!(f, "it cannot be read: {error}"),
        }
    }
}

impl From<io::Error> for Damage {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error)
    }
}

/// What is written before the content: the head and the room behind it.
#[derive(Clone, Debug)]
pub(super) struct Front {
    bytes: Vec<u8>,
    /// Where the head ends.
    end: usize,
}

impl Front {
    /// Of an answer that came at this time of the wall.
    pub(super) fn new(zone: &[u8], identity: &Identity, (about, born_ms): (&About, u64)) -> Self {
        let mut out = vec![0; FRONT];
        for part in [zone, &identity.url, &identity.extra] {
            text(&mut out, part);
        }
        number(&mut out, u64::from(about.status));
        number(&mut out, about.date);
        number(&mut out, born_ms);
        let terms = &about.terms;
        for seconds in
            [terms.lifetime, terms.age, terms.stale_while_revalidate, terms.stale_if_error]
        {
            number(&mut out, seconds);
        }
        out.push(staleness_byte(terms.staleness));
        out.push(u8::from(terms.immutable));
        list(&mut out, terms.withheld.iter().map(|name| &**name));
        list(&mut out, about.tags.iter().map(|tag| &**tag));
        list(&mut out, about.vary.iter().flat_map(|one| <[&[u8]; 2]>::from(one.parts())));
        list(&mut out, about.fields.iter().flat_map(|(name, value)| [name, value]));
        let end = out.len();
        out.resize((end + SLACK).next_multiple_of(STEP), 0);
        Self { bytes: out, end }
    }

    /// Where the content begins.
    pub(super) fn room(&self) -> u64 {
        wide(self.bytes.len())
    }

    /// The bytes, for a content that begins behind so many of them; `None` if they do not fit.
    pub(super) fn bytes(mut self, content: Sized, mark: u8, room: u64) -> Option<Vec<u8>> {
        let place = usize::try_from(room).ok().filter(|room| *room >= self.end)?;
        self.bytes.resize(place, 0);
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(room) = self.bytes.get_mut(at..at + bytes.len()) {
                room.copy_from_slice(bytes);
            }
        };
        put(0, MAGIC);
        put(8, &[mark]);
        put(24, &u32::try_from(self.end - FRONT).ok()?.to_le_bytes());
        put(28, &u32::try_from(place).ok()?.to_le_bytes());
        put(32, &content.length.to_le_bytes());
        put(40, &content.sum.to_le_bytes());
        let sum = XxHash64::oneshot(0, self.bytes.get(SUM.end..self.end)?);
        self.bytes.get_mut(SUM)?.copy_from_slice(&sum.to_le_bytes());
        Some(self.bytes)
    }
}

/// The head of a file of a cache, read and written anew; `None` if these bytes are none. What was written is read
/// as it was, so that both are the same: tests of whatever bytes there may be on a disk ask for that.
#[must_use]
pub fn rewrite_head(bytes: &[u8]) -> Option<Vec<u8>> {
    let head = Head::decode(bytes).ok()?;
    let identity = Identity { hash: 0, url: head.url, extra: head.extra };
    let front = Front::new(&head.zone, &identity, (&head.about, head.born_ms));
    let mark = if head.spoiled { SPOILED } else { KEPT };
    let mut written = front.bytes(head.content, mark, head.at)?;
    written.truncate(bytes.len());
    Some(written)
}

impl Head {
    /// Reads and checks the head of a file, and that the file is as long as it says.
    pub(super) fn read(file: &DiskFile) -> Result<Self, Damage> {
        let mut bytes = vec![0; GLANCE];
        let filled = file.read_at(&mut bytes, 0)?;
        bytes.truncate(filled);
        if !bytes.starts_with(MAGIC) {
            return Err(Damage::Foreign);
        }
        let (end, at) = extent(&bytes).ok_or(Damage::Head)?;
        if end > bytes.len() {
            bytes.resize(end, 0);
            if file.read_at(&mut bytes, 0)? < end {
                return Err(Damage::Length);
            }
        }
        bytes.truncate(end);
        let head = Self::decode(&bytes)?;
        match at.checked_add(head.content.length) == Some(file.looks()?.size) {
            true => Ok(head),
            false => Err(Damage::Length),
        }
    }

    /// The head that these bytes are.
    fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        if !bytes.starts_with(MAGIC) {
            return Err(Damage::Foreign);
        }
        let (end, at) = extent(bytes).ok_or(Damage::Head)?;
        if end != bytes.len() {
            return Err(Damage::Length);
        }
        let sum = bytes.get(SUM).and_then(|sum| sum.try_into().ok()).map(u64::from_le_bytes);
        if sum != Some(XxHash64::oneshot(0, bytes.get(SUM.end..).unwrap_or_default())) {
            return Err(Damage::Head);
        }
        Self::parse(bytes, at).ok_or(Damage::Head)
    }

    fn parse(bytes: &[u8], at: u64) -> Option<Self> {
        let mark = *bytes.get(8)?;
        let mut rest = Rest(bytes.get(32..)?);
        let content = Sized { length: rest.number()?, sum: rest.number()? };
        let (zone, url, extra) = (rest.text()?.into(), rest.text()?.into(), rest.text()?.into());
        let status = u16::try_from(rest.number()?).ok()?;
        let (date, born_ms) = (rest.number()?, rest.number()?);
        let terms = Terms {
            lifetime: rest.number()?,
            age: rest.number()?,
            stale_while_revalidate: rest.number()?,
            stale_if_error: rest.number()?,
            staleness: staleness_of(rest.byte()?)?,
            immutable: match rest.byte()? {
                0 => false,
                1 => true,
                _ => return None,
            },
            withheld: rest.list()?.into_iter().map(Box::from).collect(),
        };
        let tags = rest.list()?.into_iter().map(Box::from).collect();
        let vary = rest.pairs()?;
        let vary = vary.iter().map(|[name, values]| Selecting::new(name, values)).collect();
        let mut fields = Fields::new();
        for [name, value] in rest.pairs()? {
            fields.push(name, value).ok()?;
        }
        let about = About { status, fields, vary, tags, date, terms, born: 0 };
        let spoiled = mark != KEPT;
        rest.0.is_empty().then_some(Self { zone, url, extra, about, born_ms, content, at, spoiled })
    }

    /// What it is about.
    pub(super) const fn stored(&self) -> &About {
        &self.about
    }

    /// What is to be known of the answer at this moment, by the clock that never goes back and the one on the wall.
    pub(super) fn about(&self, now: u64, unix_ms: u64) -> About {
        let mut about = self.about.clone();
        about.born = now;
        let terms = &mut about.terms;
        match unix_ms.checked_sub(self.born_ms) {
            Some(elapsed) => terms.age = terms.age.saturating_add(elapsed.div_ceil(1000)),
            // The clock on the wall went back: nobody knows how old it is. It is confirmed first.
            None => terms.age = terms.age.max(terms.lifetime),
        }
        about
    }
}

/// The checksum of content that comes in pieces.
#[derive(Debug)]
pub(super) struct Summing(XxHash64);

impl Summing {
    pub(super) fn new() -> Self {
        Self(XxHash64::with_seed(0))
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        std::hash::Hasher::write(&mut self.0, piece);
    }

    pub(super) fn sum(&self) -> u64 {
        std::hash::Hasher::finish(&self.0)
    }
}

/// The checksum of content.
pub(super) fn sum(content: &[u8]) -> u64 {
    XxHash64::oneshot(0, content)
}

/// When an answer came by the clock on the wall, that came then by the other one.
pub(super) fn born_ms(born: u64, now: u64, unix_ms: u64) -> u64 {
    unix_ms.saturating_sub(now.saturating_sub(born) / (SECOND / 1000))
}

/// Where the head ends, and where the content begins.
fn extent(bytes: &[u8]) -> Option<(usize, u64)> {
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let end = usize::try_from(word(24)?).ok()?.checked_add(FRONT)?;
    let at = word(28)?;
    (end <= LONGEST && end <= usize::try_from(at).ok()?).then_some((end, u64::from(at)))
}

const fn staleness_byte(staleness: Staleness) -> u8 {
    match staleness {
        Staleness::Allowed => 0,
        Staleness::AsSaid => 1,
        Staleness::Forbidden => 2,
        Staleness::AlwaysAsk => 3,
    }
}

const fn staleness_of(byte: u8) -> Option<Staleness> {
    Some(match byte {
        0 => Staleness::Allowed,
        1 => Staleness::AsSaid,
        2 => Staleness::Forbidden,
        3 => Staleness::AlwaysAsk,
        _ => return None,
    })
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, wide(bytes.len()));
    out.extend_from_slice(bytes);
}

fn list<'b>(out: &mut Vec<u8>, items: impl Iterator<Item = &'b [u8]>) {
    let (start, mut count) = (out.len(), 0);
    number(out, 0);
    for item in items {
        text(out, item);
        count += 1;
    }
    if let Some(place) = out.get_mut(start..start + 8) {
        place.copy_from_slice(&u64::to_le_bytes(count));
    }
}

/// What is still to be read of a head.
struct Rest<'b>(&'b [u8]);

impl<'b> Rest<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'b [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    fn list(&mut self) -> Option<Vec<&'b [u8]>> {
        let count = self.number()?;
        (0..count).map(|_| self.text()).collect()
    }

    fn pairs(&mut self) -> Option<Vec<[&'b [u8]; 2]>> {
        let list = self.list()?;
        let (pairs, []) = list.as_chunks() else { return None };
        Some(pairs.to_vec())
    }
}
