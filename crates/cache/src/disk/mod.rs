//! What is kept on a disk: it outlives the process, and nothing of it is given that is not what was written.

mod draft;
mod form;
mod index;
mod place;
mod purge;
mod recall;
mod save;
mod scan;
#[cfg(test)]
mod tests;
mod trouble;

use std::collections::HashMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};

use sluice_message::Fields;
use sluice_meter::DiskReading;
use sluice_net::disk::{Depot, Folder, Taking};
use sluice_net::{LogWriter, Pool, offload_to, precise_now, precise_unix_nanos};

use crate::budget::Budget;
use crate::entry::{Identity, SECOND};
use crate::hashing::Hashing;
use index::{FOLDERS, Index, Number, locked};
use place::Place;
use purge::Purged;
use trouble::{Trouble, Troubles};

pub(crate) use draft::{Draft, Unwritten, Watch};
pub use form::rewrite_head;
pub(crate) use index::Slip;
pub(crate) use recall::Recalled;

/// Files take whole blocks of the disk.
const BLOCK: u64 = 4096;
/// How long nothing is written after that failed, in nanoseconds.
const PAUSE: u64 = 60 * SECOND;
/// The same where it failed for want of room: what is there is less from then on.
const SHORT_PAUSE: u64 = SECOND;
/// How often somebody looks after what waits for better times, in nanoseconds.
const TENDING: u64 = SECOND;

/// Folders in use: what several caches keep in one folder shares its size.
static KNOWN: Mutex<Vec<Weak<Disk>>> = Mutex::new(Vec::new());

/// What becomes of a folder when the configuration names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is only looked whether it could be used.
    Look,
    /// It is taken; that another process has it is an error.
    Take,
    /// It is taken as soon as the process whose place this one takes leaves it.
    Await,
}

/// A folder that answers are kept in.
#[derive(Debug)]
pub(crate) struct Disk {
    path: PathBuf,
    /// When this process began to use it: part of the names of its files.
    run: u64,
    count: AtomicU64,
    /// Bytes there may be by the configuration.
    size: AtomicU64,
    /// As far as there is room.
    budget: Budget,
    index: Index,
    hashing: Hashing,
    /// Absent until the folder is ours, and when it no longer is.
    place: RwLock<Option<Arc<dyn Place>>>,
    /// Whether another process has it that will leave it.
    awaiting: AtomicBool,
    /// What was purged before all files were known.
    purges: Mutex<Option<Vec<Purged>>>,
    /// What is being written.
    pending: Mutex<HashMap<Number, Arc<Slip>>>,
    /// Bytes of it.
    queued: AtomicUsize,
    /// Files that are to be taken off the disk, and the bytes they take.
    doomed: Mutex<Vec<(String, u64)>>,
    /// Whether what is taken off has to stay so after a loss of power.
    lasting: AtomicBool,
    troubles: Troubles,
    evictions: AtomicU64,
    /// When something is written again, and when somebody looks after it.
    paused_until: AtomicU64,
    tended: AtomicU64,
    /// The caches whose answers were met.
    zones: Mutex<Vec<Arc<[u8]>>>,
}

/// The part of a folder that belongs to one cache.
#[derive(Clone, Debug)]
pub(crate) struct Tier {
    pub(crate) disk: Arc<Disk>,
    zone: Arc<[u8]>,
    /// Bytes of content that one answer may have.
    pub(crate) entry_limit: u64,
}

impl Disk {
    fn new(path: &Path, size: u64, log: Option<LogWriter>) -> Self {
        Self {
            path: path.to_path_buf(),
            run: precise_unix_nanos(),
            count: AtomicU64::new(0),
            size: AtomicU64::new(size),
            budget: Budget::new(size),
            index: Index::new(),
            hashing: Hashing::of_process(),
            place: RwLock::new(None),
            awaiting: AtomicBool::new(true),
            purges: Mutex::new(Some(Vec::new())),
            pending: Mutex::default(),
            queued: AtomicUsize::new(0),
            doomed: Mutex::default(),
            lasting: AtomicBool::new(false),
            troubles: Troubles::new(log),
            evictions: AtomicU64::new(0),
            paused_until: AtomicU64::new(0),
            tended: AtomicU64::new(0),
            zones: Mutex::default(),
        }
    }

    /// The folder at a path, with so many bytes for all who use it; `None` if it is only looked at. What goes wrong
    /// with it is told in the log.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(crate) fn at(
        path: &Path,
        size: u64,
        (claim, log): (Claim, Option<LogWriter>),
    ) -> Result<Option<Arc<Self>>, String> {
        if claim == Claim::Look {
            return match Folder::open(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(refusal(path, &error)),
                _ => Ok(None),
            };
        }
        let mut known = locked(&KNOWN);
        known.retain(|one| one.strong_count() > 0);
        if let Some(disk) = known.iter().filter_map(Weak::upgrade).find(|disk| disk.path == path) {
            disk.resize(size);
            return Ok(Some(disk));
        }
        let disk = Arc::new(Self::new(path, size, log));
        match Depot::take(path).map_err(|error| refusal(path, &error))? {
            Taking::Ours(depot) => disk.begin(Arc::new(depot)),
            Taking::Others(_) if claim == Claim::Await => {}
            Taking::Others(pid) => return Err(disk.taken(pid)),
        }
        known.push(Arc::downgrade(&disk));
        Ok(Some(disk))
    }

    fn taken(&self, pid: Option<u32>) -> String {
        let path = self.path.display();
        match pid {
            Some(pid) if pid == std::process::id() => {
                format!("the folder {path} is in use under another spelling: write it in one way")
            }
            Some(pid) => format!(
                "the folder {path} is in use by process {pid}: one process at a time can keep \
                 answers in a folder"
            ),
            None => format!(
                "the folder {path} is in use by another process: one at a time can keep answers in \
                 a folder"
            ),
        }
    }

    /// The folder is ours; what is in it is looked at beside everything else.
    fn begin(self: &Arc<Self>, place: Arc<dyn Place>) {
        // Before anybody writes: the first answer may come sooner than somebody has looked at all folders.
        let mut folders = (0..FOLDERS).map(Number::folder);
        if let Err(error) = folders.try_for_each(|folder| place.make_folder(&folder)) {
            self.fail(&error);
        }
        self.awaiting.store(false, Ordering::Relaxed);
        *self.place.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&place));
        let disk = Arc::downgrade(self);
        drop(offload_to(Pool::Disks, Box::new(move || scan::scan(&disk, &*place))));
    }

    /// There are so many bytes from now on.
    fn resize(self: &Arc<Self>, size: u64) {
        if self.size.swap(size, Ordering::Relaxed) == size {
            return;
        }
        self.budget.set_limit(size);
        self.elsewhere(|disk| disk.shrink());
    }

    /// Has something done by a thread that may wait for the disk. If too much waits for it already, it is not done.
    fn elsewhere(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let disk = Arc::clone(self);
        drop(offload_to(Pool::Disks, Box::new(move || work(&disk))));
    }

    /// Looks after what waits for better times, now and then.
    pub(crate) fn tend(self: &Arc<Self>, now: u64) {
        let before = self.tended.load(Ordering::Relaxed);
        let order = Ordering::Relaxed;
        if now < before
            || self.tended.compare_exchange(before, now + TENDING, order, order).is_err()
        {
            return;
        }
        let size = self.size.load(order);
        let shrunk = self.budget.limit() < size;
        let rested = now >= self.paused_until.load(order).saturating_add(PAUSE);
        if shrunk && rested {
            self.budget.set_limit(size);
        }
        if self.awaiting.load(order) {
            self.elsewhere(Self::take_over);
        } else if !locked(&self.doomed).is_empty() {
            self.sweep_soon();
        }
    }

    /// Takes the folder if the process that had it has left it.
    fn take_over(self: &Arc<Self>) {
        if !self.awaiting.load(Ordering::Relaxed) {
            return;
        }
        match Depot::take(&self.path) {
            Ok(Taking::Ours(depot)) => {
                self.begin(Arc::new(depot));
                self.troubles.tell(&format!("cache folder {}: taken over", self.path.display()));
            }
            Ok(Taking::Others(_)) => {}
            Err(error) => self.troubles.count(Trouble::of(&error), || refusal(&self.path, &error)),
        }
    }

    /// Leaves the folder to the process that takes this one's place. What is being sent goes on.
    pub(crate) fn retire(&self) {
        // Whoever writes has finished when the lock is had.
        let place = self.place.write().unwrap_or_else(PoisonError::into_inner).take();
        self.awaiting.store(false, Ordering::Relaxed);
        if let Some(place) = place {
            place.give_up();
        }
    }

    /// The place, for as long as the guard lives. It is not left to others meanwhile.
    fn place(&self) -> RwLockReadGuard<'_, Option<Arc<dyn Place>>> {
        self.place.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_number(&self) -> Number {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        Number { own: true, run: self.run, count }
    }

    /// The name of a cache, kept once.
    fn zone(&self, name: &[u8]) -> Arc<[u8]> {
        let mut zones = locked(&self.zones);
        if let Some(known) = zones.iter().find(|zone| ***zone == *name) {
            return Arc::clone(known);
        }
        let zone = Arc::<[u8]>::from(name);
        zones.push(Arc::clone(&zone));
        zone
    }

    /// Something failed for this reason. Nothing is written for a while.
    fn fail(&self, error: &std::io::Error) {
        let trouble = Trouble::of(error);
        let order = Ordering::Relaxed;
        let pause = if trouble == Trouble::NoSpace {
            // What is there fits; a little less, so that what comes next has room.
            let used = self.budget.used();
            self.budget.lower_limit(used - used / 16);
            SHORT_PAUSE
        } else {
            PAUSE
        };
        self.paused_until.store(precise_now().saturating_add(pause), order);
        self.troubles.count(trouble, || {
            let path = self.path.display();
            match trouble {
                Trouble::NoSpace => format!(
                    "cache folder {path}: {error}: it makes do with {} bytes, and tries again later",
                    self.budget.limit()
                ),
                _ => format!("cache folder {path}: {error}: nothing is written for a minute"),
            }
        });
    }

    /// Something was written.
    fn succeed(&self) {
        if self.troubles.end() {
            let path = self.path.display();
            self.troubles.tell(&format!("cache folder {path}: written to again"));
        }
    }

    /// Takes so many bytes; less wanted things go for them. Waits for the disk.
    fn reserve(&self, bytes: u64, place: &dyn Place) -> bool {
        self.budget.reserve(bytes, || self.make_room(place))
    }

    /// Gives bytes back.
    fn release(&self, bytes: u64) {
        self.budget.release(bytes);
    }

    /// Gives up what is wanted least. Waits for the disk.
    fn make_room(&self, place: &dyn Place) -> bool {
        if self.sweep(place) {
            return true;
        }
        let Some(slip) = self.index.evict() else { return false };
        self.evictions.fetch_add(1, Ordering::Relaxed);
        self.take_off(&slip.number.to_string(), slip.bytes, place);
        true
    }

    /// Gives up what is beyond the limit.
    fn shrink(&self) {
        let guard = self.place();
        let Some(place) = &*guard else { return };
        self.budget.shrink(|| self.make_room(&**place));
    }

    /// Takes a file off the disk, and counts its bytes no more.
    fn take_off(&self, name: &str, bytes: u64, place: &dyn Place) {
        if let Err(error) = place.remove(name) {
            let path = self.path.display();
            let line = || format!("cache folder {path}: a file cannot be taken out: {error}");
            self.troubles.count(Trouble::of(&error), line);
        }
        self.release(bytes);
    }

    /// These are in the index no longer: their files go.
    fn doom(self: &Arc<Self>, slips: &[Arc<Slip>]) {
        if !slips.is_empty() {
            let files = slips.iter().map(|slip| (slip.number.to_string(), slip.bytes));
            locked(&self.doomed).extend(files);
            self.sweep_soon();
        }
    }

    fn sweep_soon(self: &Arc<Self>) {
        self.elsewhere(|disk| {
            let guard = disk.place();
            if let Some(place) = &*guard {
                disk.sweep(&**place);
            }
        });
    }

    /// Takes off what has to go; whether there was anything.
    fn sweep(&self, place: &dyn Place) -> bool {
        let doomed = std::mem::take(&mut *locked(&self.doomed));
        for (name, bytes) in &doomed {
            self.take_off(name, *bytes, place);
        }
        if !doomed.is_empty() && self.lasting.swap(false, Ordering::Relaxed) {
            self.settle(place);
        }
        !doomed.is_empty()
    }

    /// Has what was done outlast a loss of power.
    fn settle(&self, place: &dyn Place) {
        if let Err(error) = place.sync() {
            let path = self.path.display();
            let line = || format!("cache folder {path}: a purge may not outlast a crash: {error}");
            self.troubles.count(Trouble::of(&error), line);
        }
    }

    /// How it is doing.
    pub(crate) fn reading(&self) -> DiskReading {
        DiskReading {
            folder: self.path.display().to_string(),
            entries: self.index.entries(),
            bytes: self.budget.used(),
            budget: self.budget.limit(),
            evictions: self.evictions.load(Ordering::Relaxed),
            faults: self.troubles.counts(),
        }
    }
}

impl Tier {
    /// The part of a folder for the cache of this name.
    pub(crate) fn new(disk: Arc<Disk>, name: &[u8], entry_limit: u64) -> Self {
        let zone = disk.zone(name);
        Self { disk, zone, entry_limit }
    }

    /// What there is for a request.
    pub(crate) fn find(&self, identity: &Identity, request: &Fields) -> Option<Arc<Slip>> {
        self.disk.index.find(&self.zone, identity, request)
    }

    /// Whether there is anything for this, whatever requests it was given to said.
    pub(crate) fn keeps(&self, identity: &Identity) -> bool {
        self.disk.index.keeps(&self.zone, identity)
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

fn refusal(path: &Path, error: &std::io::Error) -> String {
    format!("the folder {} cannot be used for a cache: {error}", path.display())
}

/// Bytes that a file of this length takes.
const fn blocks(length: u64) -> u64 {
    length.next_multiple_of(BLOCK)
}
