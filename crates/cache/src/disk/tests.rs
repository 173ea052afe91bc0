//! Tests of what is kept on a disk: it comes back whole or not at all, and never takes more than it may.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use sluice_meter::Thoroughness;
use sluice_net::disk::{Depot, DiskFile, Taking};

use super::form::{Head, MARK};
use super::index::{FOLDERS, Number};
use super::place::Place;
use super::{Disk, Draft, Tier, Watch, blocks};
use crate::content::{Content, Part};
use crate::entry::{About, Entry, Identity, SECOND};
use crate::hashing::Hashing;
use crate::lines::fields;
use crate::policy::{Staleness, Terms};
use crate::target::Target;
use crate::vary::selecting;

const MS: u64 = 1_700_000_000_000;
const NOW: u64 = 50 * SECOND;
const KIB: usize = 1024;

/// A folder that writes fail in when a test says so.
#[derive(Debug)]
struct Faulty {
    depot: Depot,
    /// The number of the error that writes fail with, unless that is zero.
    error: Arc<AtomicI32>,
    /// The most bytes that files took together, and the bytes they take.
    bytes: Arc<[AtomicU64; 2]>,
}

impl Place for Faulty {
    fn make_folder(&self, name: &str) -> io::Result<()> {
        self.depot.make_folder(name)
    }

    fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        self.depot.names(folder)
    }

    fn create(&self, name: &str) -> io::Result<DiskFile> {
        self.depot.create(name)
    }

    fn open(&self, name: &str) -> io::Result<DiskFile> {
        self.depot.open(name)
    }

    fn reopen(&self, name: &str) -> io::Result<DiskFile> {
        self.depot.reopen(name)
    }

    fn write(&self, file: &DiskFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.error.load(Ordering::SeqCst) {
            0 => {}
            number => {
                // Half of it is written, as disks do.
                file.write_at(&bytes[..bytes.len() / 2], offset)?;
                return Err(io::Error::from_raw_os_error(number));
            }
        }
        let before = blocks(file.looks()?.size);
        file.write_at(bytes, offset)?;
        let more = blocks(file.looks()?.size) - before;
        let all = self.bytes[1].fetch_add(more, Ordering::SeqCst) + more;
        self.bytes[0].fetch_max(all, Ordering::SeqCst);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.depot.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let size = self.depot.open(name).and_then(|file| file.looks()).map_or(0, |it| it.size);
        self.depot.remove(name)?;
        self.bytes[1].fetch_sub(blocks(size), Ordering::SeqCst);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.depot.sync()
    }

    fn give_up(&self) {
        self.depot.give_up();
    }
}

/// A folder of a test, and what its disk does.
struct Bench {
    path: PathBuf,
    error: Arc<AtomicI32>,
    bytes: Arc<[AtomicU64; 2]>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl Bench {
    fn new(name: &str) -> Self {
        let name = format!("sluice-cache-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        Self { path, error: Arc::default(), bytes: Arc::default() }
    }

    /// A process begins to use the folder, and knows what is in it.
    fn start(&self, size: u64) -> Tier {
        let disk = Arc::new(Disk::new(&self.path, size, None));
        let Taking::Ours(depot) = Depot::take(&self.path).unwrap() else { panic!("taken") };
        let (error, bytes) = (Arc::clone(&self.error), Arc::clone(&self.bytes));
        disk.begin(Arc::new(Faulty { depot, error, bytes }));
        until(|| disk.purges.lock().unwrap().is_none());
        Tier::new(disk, b"pages", 1 << 30)
    }

    /// The files there are, by path.
    fn files(&self) -> Vec<PathBuf> {
        let folders = std::fs::read_dir(&self.path).unwrap().map(|entry| entry.unwrap().path());
        let inner = folders
            .filter(|path| path.is_dir())
            .flat_map(|path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        inner.collect()
    }
}

/// The process ends.
fn stop(tier: Tier) {
    until(|| tier.disk.queued.load(Ordering::SeqCst) == 0);
    tier.disk.retire();
}

/// Waits for what another thread does.
fn until(done: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !done() {
        assert!(begun.elapsed().as_secs() < 20, "it does not come");
        std::thread::yield_now();
    }
}

fn identity(url: &str) -> Identity {
    let hash = Hashing::of_process().hash(url.as_bytes());
    Identity { hash, url: url.as_bytes().into(), extra: (*b"\n1\0").into() }
}

fn entry(url: &str, content: &[u8]) -> Arc<Entry> {
    variant(url, content, "de")
}

fn variant(url: &str, content: &[u8], language: &str) -> Arc<Entry> {
    let answer =
        fields(&[("ETag", "\"a\""), ("Vary", "accept-language"), ("X-Two", "1"), ("x-two", "")]);
    let about = About {
        status: 200,
        vary: selecting(&answer, &fields(&[("accept-language", language)])),
        fields: answer,
        tags: vec![(*b"news").into(), url.as_bytes().into()],
        date: MS / 1000,
        terms: Terms {
            lifetime: 600,
            age: 7,
            stale_while_revalidate: 3,
            stale_if_error: 4,
            staleness: Staleness::AsSaid,
            immutable: true,
            withheld: vec![(*b"set-cookie").into()],
        },
        born: NOW,
    };
    Arc::new(Entry::new(identity(url), about, Content::from(content.to_vec())))
}

fn save(tier: &Tier, entry: &Entry) {
    tier.save(entry, (NOW, MS));
    until(|| tier.disk.queued.load(Ordering::SeqCst) == 0);
}

/// What comes back for a URL, `after` so many seconds.
fn recall(tier: &Tier, url: &str, after: u64) -> Option<Entry> {
    recall_as(tier, (url, "de"), after, usize::MAX)
}

fn recall_as(
    tier: &Tier,
    (url, language): (&str, &str),
    after: u64,
    limit: usize,
) -> Option<Entry> {
    let identity = identity(url);
    let slip = tier.find(&identity, &fields(&[("accept-language", language)]))?;
    let reading = tier.recall(slip, limit);
    let recalled = sluice_net::run(reading).unwrap()?;
    Some(recalled.entry(identity.hash, (9 * SECOND, MS + after * 1000)))
}

fn content(entry: &Entry) -> Vec<u8> {
    entry.body.bytes()
}

#[test]
fn an_answer_can_be_written_before_anybody_has_looked_at_the_folder() {
    let bench = Bench::new("soon");
    let Taking::Ours(depot) = Depot::take(&bench.path).unwrap() else { panic!("taken") };
    let (error, bytes) = (Arc::clone(&bench.error), Arc::clone(&bench.bytes));
    let place: Arc<dyn Place> = Arc::new(Faulty { depot, error, bytes });
    // What looks at it runs elsewhere, and finds the disk gone.
    Arc::new(Disk::new(&bench.path, 1 << 20, None)).begin(Arc::clone(&place));
    for count in 0..FOLDERS {
        let name = Number { own: true, run: 1, count }.to_string();
        assert!(place.create(&name).is_ok(), "{name}");
    }
}

#[test]
fn what_was_kept_comes_back_after_a_restart() {
    let bench = Bench::new("restart");
    let tier = bench.start(1 << 20);
    let kept = entry("http://a/1", b"content of one");
    save(&tier, &kept);
    save(&tier, &variant("http://a/1", b"inhalt", "en"));
    save(&tier, &entry("http://a/2", &vec![b'x'; 200 * KIB]));
    for round in 0..2 {
        let back = recall(&tier, "http://a/1", 10).unwrap();
        assert_eq!(back.identity, kept.identity);
        let (one, other) = (&back.about, &kept.about);
        assert_eq!(
            (one.status, one.date, &one.vary, &one.tags),
            (200, other.date, &other.vary, &other.tags)
        );
        assert_eq!(one.fields, other.fields);
        let aged = Terms { age: 17, ..other.terms.clone() };
        assert_eq!((&one.terms, one.born), (&aged, 9 * SECOND), "{round}: ten seconds older");
        assert!(back.is_fresh(9 * SECOND));
        assert_eq!(back.left(9 * SECOND), 583);
        assert_eq!(content(&back), b"content of one");
        assert!(!recall(&tier, "http://a/1", 700).unwrap().is_fresh(9 * SECOND), "stale meanwhile");
        let english = recall_as(&tier, ("http://a/1", "en"), 0, usize::MAX).unwrap();
        assert_eq!(content(&english), b"inhalt");
        assert!(recall_as(&tier, ("http://a/1", "fr"), 0, usize::MAX).is_none());
        assert!(recall(&tier, "http://a/3", 0).is_none());
        // What is larger than memory takes comes as a part of its file.
        let large = recall_as(&tier, ("http://a/2", "de"), 0, 100 * KIB).unwrap();
        assert!(matches!(&large.body, Content::File(part) if part.length == 200 * 1024));
        assert_eq!(content(&large), vec![b'x'; 200 * KIB]);
        let bytes = blocks(1024) * 2 + blocks(201 * 1024);
        assert_eq!(tier.disk.reading().bytes, bytes, "{round}");
        assert_eq!(tier.disk.reading().entries, 3, "{round}");
        if round == 0 {
            stop(tier);
            return what_was_kept_is_found(&bench);
        }
    }
}

fn what_was_kept_is_found(bench: &Bench) {
    // Left behind by a process that was killed, and by others.
    std::fs::write(bench.path.join("00/00000000000000010000000000000.new"), "half").unwrap();
    let draft = bench.path.join("00/0000000000000001000000000100.new");
    std::fs::write(&draft, "half").unwrap();
    std::fs::write(bench.path.join("00/readme"), "keep").unwrap();
    let tier = bench.start(1 << 20);
    assert!(!draft.exists(), "what is left of a draft goes");
    assert!(bench.path.join("00/readme").exists(), "what is not ours stays");
    assert_eq!(tier.disk.reading().entries, 3);
    assert_eq!(tier.disk.reading().bytes, blocks(1024) * 2 + blocks(201 * 1024));
    let back = recall(&tier, "http://a/1", 10).unwrap();
    assert_eq!((content(&back).as_slice(), back.left(9 * SECOND)), (&b"content of one"[..], 583));
    let english = recall_as(&tier, ("http://a/1", "en"), 0, usize::MAX).unwrap();
    assert_eq!(content(&english), b"inhalt");
    let large = recall_as(&tier, ("http://a/2", "de"), 0, 100 * KIB).unwrap();
    assert_eq!(content(&large), vec![b'x'; 200 * KIB]);
    // A cache of another name, or that tells answers apart in another way, has nothing of it.
    let other = Tier::new(Arc::clone(&tier.disk), b"others", 1 << 30);
    assert!(recall(&other, "http://a/1", 0).is_none());
}

#[test]
fn a_clock_that_went_back_makes_nothing_young() {
    let bench = Bench::new("clock");
    let tier = bench.start(1 << 20);
    tier.save(&entry("http://a/1", b"one"), (NOW + 5 * SECOND, MS + 5000));
    until(|| tier.disk.queued.load(Ordering::SeqCst) == 0);
    let slip =
        |tier: &Tier| tier.find(&identity("http://a/1"), &fields(&[("accept-language", "de")]));
    for (unix_ms, left) in [
        // It came when the clock said MS.
        (MS, 593),
        (MS + 1, 592),
        (MS + 3_600_000, -3007),
        // A year before it came: its origin is asked, whatever its lifetime was.
        (MS - 365 * 86_400_000, 0),
        (MS - 1, 0),
    ] {
        let reading = tier.recall(slip(&tier).unwrap(), usize::MAX);
        let recalled = sluice_net::run(reading).unwrap().unwrap();
        let entry = recalled.entry(1, (9 * SECOND, unix_ms));
        assert_eq!(
            (entry.left(9 * SECOND), entry.is_fresh(9 * SECOND)),
            (left, left > 0),
            "{unix_ms}"
        );
    }
}

#[test]
fn damage_is_found_wherever_it_is() {
    let bench = Bench::new("damage");
    let tier = bench.start(1 << 20);
    let long = vec![b'y'; 3000];
    save(&tier, &entry("http://a/1", &long));
    stop(tier);
    let [path] = bench.files().try_into().unwrap();
    let good = std::fs::read(&path).unwrap();
    let room = good.len() - long.len();
    let end = 48 + usize::try_from(u32::from_le_bytes(good[24..28].try_into().unwrap())).unwrap();
    let mut rows: Vec<(String, Vec<u8>)> = Vec::new();
    for at in (0..end).chain((room..good.len()).step_by(97)) {
        let mut bad = good.clone();
        bad[at] ^= 0x20;
        rows.push((format!("byte {at}"), bad));
    }
    for length in [0, 1, 47, 48, end - 1, end, room - 1, room, room + 1, good.len() - 1] {
        rows.push((format!("cut at {length}"), good[..length].to_vec()));
    }
    rows.push(("longer".to_owned(), [&good[..], b"x"].concat()));
    let mut dropped = 0;
    for (what, bad) in rows {
        std::fs::write(&path, &bad).unwrap();
        let tier = bench.start(1 << 20);
        let large = what.len() % 2;
        let back =
            recall_as(&tier, ("http://a/1", "de"), 0, if large == 0 { 100 } else { KIB * 9 });
        // The room behind the head and bytes that nobody uses are not covered; what comes back is right.
        if let Some(back) = back {
            assert!(what.starts_with("byte"), "{what}");
            let at: usize = what[5..].parse().unwrap();
            assert!((8..16).contains(&at), "{what} was not found out");
            assert_eq!((content(&back), back.about.fields.iter().count()), (long.clone(), 4));
            assert!(at != 8 || !back.is_fresh(9 * SECOND), "it may have been purged");
        } else {
            dropped += 1;
            assert!(
                tier.disk.troubles.take_said().iter().any(|line| line.contains("dropped")),
                "{what}"
            );
            assert!(tier.disk.reading().faults.contains(&("damaged", 1)), "{what}");
            until(|| tier.disk.reading().bytes == 0);
            assert!(bench.files().is_empty(), "{what}: the file goes");
            assert!(recall(&tier, "http://a/1", 0).is_none());
        }
        stop(tier);
    }
    assert!(dropped > 150, "{dropped}");
}

#[test]
fn damage_that_comes_later_is_found_by_whoever_reads() {
    let bench = Bench::new("later");
    let tier = bench.start(1 << 20);
    save(&tier, &entry("http://a/1", b"content"));
    let [path] = bench.files().try_into().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert!(recall(&tier, "http://a/1", 0).is_none());
    // It is taken off by another thread.
    until(|| tier.disk.reading().bytes == 0);
    save(&tier, &entry("http://a/1", b"content"));
    assert_eq!(content(&recall(&tier, "http://a/1", 0).unwrap()), b"content");
    // Somebody takes the file away.
    std::fs::remove_file(bench.files().pop().unwrap()).unwrap();
    assert!(recall(&tier, "http://a/1", 0).is_none());
    assert_eq!(tier.disk.reading().bytes, 0);
}

#[test]
fn the_budget_is_exact_while_many_write() {
    let bench = Bench::new("budget");
    let size = 512 * 1024;
    let tier = bench.start(size);
    let body = vec![b'z'; 10 * KIB];
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (tier, body) = (&tier, &body);
            scope.spawn(move || {
                for number in 0..100 {
                    tier.save(&entry(&format!("http://a/{thread}/{number}"), body), (NOW, MS));
                }
            });
        }
    });
    until(|| tier.disk.queued.load(Ordering::SeqCst) == 0);
    let reading = tier.disk.reading();
    assert_eq!(reading.entries, 512 / 12, "as many as there is room for");
    assert_eq!(reading.bytes, u64::try_from(reading.entries).unwrap() * blocks(11 * 1024));
    assert_eq!(reading.evictions, 400 - 512 / 12);
    assert_eq!(bench.files().len(), reading.entries);
    assert!(bench.bytes[0].load(Ordering::SeqCst) <= size, "not for a moment more");
    assert_eq!(bench.bytes[1].load(Ordering::SeqCst), reading.bytes);
    stop(tier);
    // There is less room from now on.
    let tier = bench.start(100 * 1024);
    until(|| tier.disk.reading().bytes <= 100 * 1024);
    assert_eq!(tier.disk.reading().entries, 100 / 12);
    until(|| bench.files().len() == 100 / 12);
}

#[test]
fn what_was_purged_stays_so_after_a_restart() {
    let bench = Bench::new("purge");
    let tier = bench.start(1 << 20);
    for url in
        ["http://a/1", "http://a/2", "http://a/b/1", "http://a/b/2", "http://c/1", "http://c/2"]
    {
        save(&tier, &entry(url, b"content"));
    }
    stop(tier);
    let tier = bench.start(1 << 20);
    let other = Tier::new(Arc::clone(&tier.disk), b"others", 1 << 30);
    assert_eq!(other.forget(Target::All, Thoroughness::Hard), 0, "of another cache");
    assert_eq!(tier.forget(Target::Tag(b"http://a/1"), Thoroughness::Hard), 1);
    assert_eq!(tier.forget(Target::Url(b"http://a/2"), Thoroughness::Hard), 1);
    assert_eq!(tier.forget(Target::Prefix(b"http://a/b/"), Thoroughness::Hard), 2);
    assert_eq!(tier.forget(Target::Url(b"http://c/1"), Thoroughness::Soft), 1);
    assert!(recall(&tier, "http://a/1", 0).is_none());
    assert!(!recall(&tier, "http://c/1", 0).unwrap().is_fresh(9 * SECOND));
    until(|| bench.files().len() == 2);
    until(|| {
        bench
            .files()
            .iter()
            .any(|path| std::fs::read(path).unwrap()[usize::try_from(MARK).unwrap()] == b'S')
    });
    stop(tier);
    let tier = bench.start(1 << 20);
    for url in ["http://a/1", "http://a/2", "http://a/b/1", "http://a/b/2"] {
        assert!(recall(&tier, url, 0).is_none(), "{url}");
    }
    assert!(!recall(&tier, "http://c/1", 0).unwrap().is_fresh(9 * SECOND), "to be confirmed");
    assert!(recall(&tier, "http://c/2", 0).unwrap().is_fresh(9 * SECOND));
    assert_eq!(tier.forget(Target::Tag(b"news"), Thoroughness::Hard), 2);
    until(|| bench.files().is_empty() && tier.disk.reading().bytes == 0);
}

#[test]
fn a_purge_reaches_what_nobody_has_looked_at_yet() {
    let bench = Bench::new("unseen");
    let tier = bench.start(1 << 20);
    for url in ["http://a/1", "http://a/2", "http://a/3"] {
        save(&tier, &entry(url, b"content"));
    }
    stop(tier);
    // Purged before the folder is ours.
    let disk = Arc::new(Disk::new(&bench.path, 1 << 20, None));
    let tier = Tier::new(disk, b"pages", 1 << 30);
    assert_eq!(tier.forget(Target::Tag(b"http://a/1"), Thoroughness::Hard), 0);
    assert_eq!(tier.forget(Target::Url(b"http://a/2"), Thoroughness::Soft), 0);
    let Taking::Ours(depot) = Depot::take(&bench.path).unwrap() else { panic!("taken") };
    tier.disk.begin(Arc::new(depot));
    until(|| tier.disk.purges.lock().unwrap().is_none());
    assert!(recall(&tier, "http://a/1", 0).is_none());
    assert!(!recall(&tier, "http://a/2", 0).unwrap().is_fresh(9 * SECOND));
    assert!(recall(&tier, "http://a/3", 0).unwrap().is_fresh(9 * SECOND));
    until(|| bench.files().len() == 2);
}

#[test]
fn a_full_disk_makes_it_smaller_and_nothing_else() {
    const ENOSPC: i32 = 28;
    const EROFS: i32 = 30;
    let bench = Bench::new("full");
    let tier = bench.start(1 << 20);
    for number in 0..20 {
        save(&tier, &entry(&format!("http://a/{number}"), &vec![b'x'; 20 * KIB]));
    }
    let before = tier.disk.reading();
    assert_eq!((before.entries, before.budget), (20, 1 << 20));
    bench.error.store(ENOSPC, Ordering::SeqCst);
    let later = |after: u64| sluice_net::precise_now() + after * SECOND;
    for number in 20..25 {
        // Each after the pause of the one before.
        tier.save(&entry(&format!("http://a/{number}"), &vec![b'x'; 20 * KIB]), (later(100), MS));
        until(|| tier.disk.queued.load(Ordering::SeqCst) == 0);
    }
    let full = tier.disk.reading();
    assert!(full.bytes < before.bytes && full.budget < before.bytes, "{full:?}");
    assert!(full.faults.contains(&("no_space", 5)), "{full:?}");
    assert_eq!(tier.disk.troubles.take_said().len(), 1, "told once");
    let drafts = |path: &PathBuf| path.extension().is_some_and(|it| it == "new");
    assert!(!bench.files().iter().any(drafts), "nothing half stays");
    assert_eq!(bench.files().len(), full.entries);
    let left = (0..20).filter(|number| recall(&tier, &format!("http://a/{number}"), 0).is_some());
    assert_eq!(left.count(), full.entries, "what is there is given");
    // There is room again.
    bench.error.store(0, Ordering::SeqCst);
    tier.disk.tend(later(100));
    assert_eq!(tier.disk.reading().budget, 1 << 20);
    tier.save(&entry("http://a/30", b"more"), (later(100), MS));
    until(|| tier.disk.queued.load(Ordering::SeqCst) == 0);
    assert!(recall(&tier, "http://a/30", 0).is_some());
    assert!(tier.disk.troubles.take_said().iter().any(|line| line.contains("written to again")));
    // Nothing may be written: nothing is tried for a while, and what is there stays.
    bench.error.store(EROFS, Ordering::SeqCst);
    for number in 40..45 {
        let now = if number == 40 { later(100) } else { later(30) };
        tier.save(&entry(&format!("http://a/{number}"), b"x"), (now, MS));
        until(|| tier.disk.queued.load(Ordering::SeqCst) == 0);
    }
    assert!(tier.disk.reading().faults.contains(&("read_only", 1)), "{:?}", tier.disk.reading());
    assert_eq!(tier.disk.reading().budget, 1 << 20);
    assert!(recall(&tier, "http://a/30", 0).is_some());
}

#[test]
fn a_confirmed_answer_has_its_head_written_anew() {
    let bench = Bench::new("confirmed");
    let tier = bench.start(1 << 20);
    save(&tier, &entry("http://a/1", &vec![b'x'; 50 * KIB]));
    assert_eq!(tier.forget(Target::All, Thoroughness::Soft), 1);
    let path = bench.files().pop().unwrap();
    until(|| std::fs::read(&path).unwrap()[8] == b'S');
    let stale = recall_as(&tier, ("http://a/1", "de"), 900, 100).unwrap();
    assert!(!stale.is_fresh(9 * SECOND));
    let mut about = stale.about.clone();
    about.fields.push(b"x-new", b"line").unwrap();
    (about.born, about.terms.age) = (NOW, 0);
    let renewed = Entry::new(stale.identity.clone(), about, stale.body.clone());
    // Another one than the one that lies there is none of its business.
    let other =
        Entry::new(stale.identity.clone(), renewed.about.clone(), vec![b'y'; 50 * KIB].into());
    tier.confirm(&other, (NOW, MS + 900_000));
    let slip = tier.find(&identity("http://a/1"), &fields(&[("accept-language", "de")])).unwrap();
    until(|| slip.is_spoiled());
    assert_eq!(
        Head::read(&DiskFile::open(&path).unwrap()).unwrap().stored().fields.iter().count(),
        4
    );
    tier.confirm(&renewed, (NOW, MS + 900_000));
    until(|| {
        Head::read(&DiskFile::open(&path).unwrap()).unwrap().stored().fields.iter().count() == 5
    });
    for tier in [tier.clone(), {
        stop(tier);
        bench.start(1 << 20)
    }] {
        if tier.disk.place().is_none() {
            continue;
        }
        let back = recall_as(&tier, ("http://a/1", "de"), 900, 100).unwrap();
        assert_eq!(back.left(9 * SECOND), 600);
        assert_eq!(content(&back), vec![b'x'; 50 * KIB]);
    }
}

#[test]
fn the_newer_of_two_stays() {
    let bench = Bench::new("newer");
    let tier = bench.start(1 << 20);
    save(&tier, &entry("http://a/1", b"old"));
    let old = bench.files().pop().unwrap();
    let copy = std::fs::read(&old).unwrap();
    save(&tier, &entry("http://a/1", b"new"));
    assert_eq!(content(&recall(&tier, "http://a/1", 0).unwrap()), b"new");
    assert_eq!((bench.files().len(), tier.disk.reading().entries), (1, 1));
    stop(tier);
    // The process was killed before it took the old one out.
    std::fs::write(&old, copy).unwrap();
    let tier = bench.start(1 << 20);
    assert_eq!(content(&recall(&tier, "http://a/1", 0).unwrap()), b"new");
    assert_eq!((bench.files().len(), tier.disk.reading().entries), (1, 1));
    assert_eq!(tier.disk.reading().bytes, 4096);
}

/// Whoever watches a draft.
#[derive(Default)]
struct Watcher {
    length: AtomicU64,
    void: std::sync::atomic::AtomicBool,
}

impl Watch for Watcher {
    fn grew(&self, part: Part) {
        let before = self.length.swap(part.length, Ordering::SeqCst);
        assert!(before < part.length);
        let mut last = [0];
        part.file.read_at(&mut last, part.offset + part.length - 1).unwrap();
        assert_eq!(last, [b'l'], "what it is told of is there");
    }

    fn is_void(&self) -> bool {
        self.void.load(Ordering::SeqCst)
    }
}

fn draft(tier: &Tier, url: &str, length: Option<u64>) -> (Draft, Arc<Watcher>) {
    let (watcher, about) = (Arc::<Watcher>::default(), Arc::new(entry(url, b"").about.clone()));
    let watching: Arc<dyn Watch> = Arc::<Watcher>::clone(&watcher);
    let draft = tier.draft((&identity(url), &about), length, (NOW, MS), watching).unwrap();
    (draft, watcher)
}

/// What becomes of a draft that has come to its end.
fn conclude(draft: Draft) -> Option<Content> {
    let (send, receive) = std::sync::mpsc::channel();
    draft.finish(move |content| send.send(content).unwrap());
    receive.recv().unwrap().ok()
}

const LARGE: u64 = 3_000_000;

#[test]
fn a_large_answer_goes_to_the_disk_while_it_comes() {
    let bench = Bench::new("draft");
    let tier = bench.start(16 << 20);
    for (url, length) in [("http://a/known", Some(LARGE)), ("http://a/unknown", None)] {
        let (draft, watcher) = draft(&tier, url, length);
        for _ in 0..LARGE / 10_000 {
            assert!(draft.push(&[b'l'; 10_000]));
        }
        until(|| watcher.length.load(Ordering::SeqCst) == LARGE);
        assert!(recall(&tier, url, 0).is_none(), "it is not whole");
        let content = conclude(draft).unwrap();
        assert_eq!(content.bytes(), vec![b'l'; 3_000_000]);
        let back = recall_as(&tier, (url, "de"), 0, 100).unwrap();
        assert!(back.body.bytes() == vec![b'l'; 3_000_000] && back.left(9 * SECOND) == 593);
    }
    assert_eq!(tier.disk.reading().bytes, 2 * blocks(LARGE + 1024));
    // Half of one, when the process is killed.
    let (half, watcher) = draft(&tier, "http://a/half", Some(LARGE));
    half.push(&[b'l'; 100_000]);
    until(|| watcher.length.load(Ordering::SeqCst) == 100_000);
    let drafts = |bench: &Bench| {
        let new = |path: &&PathBuf| path.extension().is_some_and(|it| it == "new");
        bench.files().iter().filter(new).count()
    };
    assert_eq!(drafts(&bench), 1);
    tier.disk.retire();
    let tier = bench.start(16 << 20);
    assert_eq!((drafts(&bench), bench.files().len(), tier.disk.reading().entries), (0, 2, 2));
    assert!(recall(&tier, "http://a/half", 0).is_none());
    let back = recall_as(&tier, ("http://a/unknown", "de"), 0, 100).unwrap();
    assert_eq!(back.body.bytes(), vec![b'l'; 3_000_000], "verified before it is given");
    drop(half);
}

#[test]
fn a_draft_that_comes_to_nothing_leaves_nothing() {
    let bench = Bench::new("undone");
    let tier = bench.start(8 << 20);
    let gone = || until(|| bench.files().is_empty() && tier.disk.reading().bytes == 0);
    // Who brought it has left.
    let (left, watcher) = draft(&tier, "http://a/1", Some(LARGE));
    left.push(&[b'l'; 100_000]);
    until(|| watcher.length.load(Ordering::SeqCst) > 0);
    drop(left);
    gone();
    // It is shorter than was said, or longer.
    let (short, _) = draft(&tier, "http://a/2", Some(LARGE));
    short.push(&[b'l'; 100_000]);
    assert!(conclude(short).is_none());
    gone();
    let (long, _) = draft(&tier, "http://a/3", Some(100_000));
    long.push(&[b'l'; 100_001]);
    assert!(conclude(long).is_none());
    gone();
    // It was purged while it came: those who follow it get it, and nobody else.
    let (purged, watcher) = draft(&tier, "http://a/4", Some(100_000));
    purged.push(&[b'l'; 100_000]);
    watcher.void.store(true, Ordering::SeqCst);
    assert_eq!(conclude(purged).unwrap().bytes(), vec![b'l'; 100_000]);
    assert!(recall(&tier, "http://a/4", 0).is_none());
    gone();
    // There is no room for it, and then the disk fails.
    let (vast, _) = draft(&tier, "http://a/5", Some(9 << 20));
    vast.push(b"l");
    assert!(conclude(vast).is_none());
    gone();
    bench.error.store(28, Ordering::SeqCst);
    let (full, _) = draft(&tier, "http://a/6", Some(LARGE));
    full.push(&[b'l'; 100_000]);
    until(|| !full.push(b"l"));
    assert!(conclude(full).is_none());
    gone();
    assert!(tier.disk.reading().faults.contains(&("no_space", 1)));
}

#[test]
fn who_brings_more_than_the_disk_takes_waits() {
    let bench = Bench::new("pressure");
    let tier = bench.start(64 << 20);
    let (fast, _) = draft(&tier, "http://a/1", None);
    let busy = tier.disk.place.write().unwrap();
    let noop = std::task::Waker::noop();
    let mut pushed = 0;
    while !fast.is_full(noop) {
        assert!(fast.push(&[b'l'; 100_000]));
        pushed += 100_000;
        assert!(pushed < 10_000_000, "it is never full");
    }
    drop(busy);
    until(|| !fast.is_full(noop));
    assert_eq!(conclude(fast).unwrap().length(), Some(pushed));
}
