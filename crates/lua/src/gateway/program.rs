//! A script of the gateway: tried when the configuration is compiled, then run on each worker that needs it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sluice_filter::Owner;
use sluice_meter::CustomFamily;
use sluice_net::{Mailbox, Post, mailbox, spawn};

use super::script::{Chunk, Phase, Script};
use super::station::{Function, Functions, Station};
use crate::basic::{chunk_name, read, without_first_comment};
use crate::settings::Settings;
use crate::store::{Store, open};
use crate::voice::Voice;

/// A script and who runs it. Each worker that needs it has a state of its own, which lasts as long as this.
#[derive(Debug)]
pub struct Program {
    number: u64,
    script: Script,
    voice: Voice,
    /// Which functions it has.
    has: Functions,
    /// What it shares between workers, and with the program that comes after it.
    stores: Vec<Arc<Store>>,
    /// Metrics that it has made when it was tried: they outlive states.
    families: Vec<Arc<CustomFamily>>,
    /// Files it is made of, and what was in them.
    files: Vec<(PathBuf, Vec<u8>)>,
    /// What tells the workers that it is over, when it is dropped.
    ends: Mutex<Vec<Post<()>>>,
}

/// Where the text of a script comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// From the configuration.
    Inline(String),
    /// From the file that the settings name.
    File(Vec<u8>),
    /// Chunks for phases, as scripts for OpenResty are written.
    Phases(Vec<PhaseText>),
}

/// What is run in a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseText {
    /// When.
    pub phase: Phase,
    /// The file it is from, if it is from one.
    pub file: Option<PathBuf>,
    /// Its text.
    pub text: Vec<u8>,
}

impl Text {
    /// The files it is from, and what is in them.
    fn files(&self, file: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        match self {
            Self::Inline(_) => Vec::new(),
            Self::File(text) => vec![(file.to_owned(), text.clone())],
            Self::Phases(all) => {
                let of_phase = |it: &PhaseText| Some((it.file.clone()?, it.text.clone()));
                all.iter().filter_map(of_phase).collect()
            }
        }
    }

    /// The chunks of a script with this name.
    fn chunks(&self, name: &str, file: &Path) -> Vec<Chunk> {
        let in_file = |text: &[u8], file: &Path, phase| Chunk {
            phase,
            text: without_first_comment(text).to_vec(),
            name: chunk_name(file),
        };
        match self {
            Self::Inline(text) => {
                let text = text.clone().into_bytes();
                vec![Chunk { phase: None, text, name: format!("={name}") }]
            }
            Self::File(text) => vec![in_file(text, file, None)],
            Self::Phases(all) => all
                .iter()
                .map(|it| match &it.file {
                    Some(file) => in_file(&it.text, file, Some(it.phase)),
                    None => Chunk {
                        phase: Some(it.phase),
                        text: it.text.clone(),
                        name: format!("={name} {}_by_lua", it.phase.name()),
                    },
                })
                .collect(),
        }
    }
}

static NEXT: AtomicU64 = AtomicU64::new(0);

/// The programs there are: equal ones are the same, so that reloads keep what scripts know.
static ALL: Mutex<Vec<Weak<Program>>> = Mutex::new(Vec::new());

thread_local! {
    /// The states of this worker, by the number of their program.
    static STATIONS: RefCell<Vec<(u64, Rc<Station>)>> = const { RefCell::new(Vec::new()) };
}

impl Program {
    /// Tries a script on this thread: it is compiled and run once, as far as its first lines go.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub fn new(settings: Settings, text: &Text, voice: Voice) -> Result<Arc<Self>, String> {
        let chunks = text.chunks(voice.name(), &settings.script);
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.strong_count() > 0);
        let same = |known: &Arc<Self>| {
            let script = &known.script;
            (&script.settings, &script.chunks) == (&settings, &chunks) && known.is_unchanged()
        };
        if let Some(known) = all.iter().filter_map(Weak::upgrade).find(same) {
            return Ok(known);
        }
        let script = Script { settings, chunks, owner: Owner::new() };
        let tried = Station::new(&script, voice.mute(), 0)?;
        let mut files = text.files(&script.settings.script);
        for path in tried.host.sources.take() {
            let bytes = read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            files.push((path, bytes));
        }
        let program = Arc::new(Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            has: tried.functions,
            families: tried.host.take_families(),
            stores: script.settings.stores.iter().map(|(name, size)| open(name, *size)).collect(),
            script,
            voice,
            files,
            ends: Mutex::default(),
        });
        all.push(Arc::downgrade(&program));
        Ok(program)
    }

    /// The files it is made of, those that `require` has read among them.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().map(|(path, _)| path)
    }

    /// Whether these files are what they were.
    pub fn is_unchanged(&self) -> bool {
        self.files.iter().all(|(path, before)| read(path).is_ok_and(|now| now == *before))
    }

    /// What says whose message this is, unless it does so itself.
    pub(crate) fn prefix(&self, said: &str) -> String {
        let name = self.voice.name();
        if said.starts_with(name) { String::new() } else { format!("{name}: ") }
    }

    /// Whether the script has this function.
    pub(crate) const fn has(&self, function: Function) -> bool {
        self.has.of(function).is_some()
    }

    /// Where lines about it go that belong to no exchange.
    pub(crate) const fn voice(&self) -> &Voice {
        &self.voice
    }

    /// Its state on this worker.
    ///
    /// # Errors
    /// What the script says, where it fails here and did not when it was tried.
    #[inline]
    pub(crate) fn station(&self, worker: impl FnOnce() -> usize) -> Result<Rc<Station>, String> {
        let found = STATIONS.with_borrow(|all| {
            let found = all.iter().find(|(number, _)| *number == self.number);
            found.map(|(_, station)| Rc::clone(station))
        });
        match found {
            Some(station) => Ok(station),
            None => self.open(worker()),
        }
    }

    #[cold]
    fn open(&self, worker: usize) -> Result<Rc<Station>, String> {
        // Now that it is in force.
        for (store, (_, size)) in self.stores.iter().zip(&self.script.settings.stores) {
            store.resize(*size);
        }
        self.families.iter().for_each(CustomFamily::publish);
        let station = Rc::new(Station::new(&self.script, self.voice.clone(), worker)?);
        station.host.in_force.set(true);
        STATIONS.with_borrow_mut(|all| all.push((self.number, Rc::clone(&station))));
        let (post, end) = mailbox();
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).push(post);
        spawn(close(self.number, end));
        Ok(station)
    }
}

/// Lets go of a state when its program is over; runs that are under way keep it until they end.
async fn close(number: u64, mut end: Mailbox<()>) {
    while end.recv().await.is_some() {}
    // Dropped outside: what is collected then may ask for other states.
    let gone = STATIONS.with_borrow_mut(|all| {
        let place = all.iter().position(|(known, _)| *known == number)?;
        Some(all.swap_remove(place))
    });
    drop(gone);
}
