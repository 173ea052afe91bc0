//! Requests for files, from the first question to the answer.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluice_filter::{Filter, Level, Local, Phases, Reply, RequestContext, Resume, Verdict};
use sluice_message::{Method, RequestHead, SpaceExhausted};
use sluice_meter::PerWorker;
use sluice_net::disk::{Denied, Folder};
use sluice_net::{Pool, offload_to};

use crate::Settings;
use crate::answer::answer;
use crate::choice::accepted;
use crate::listing::{Order, list};
use crate::open::{Key, Opened};
use crate::resolve::{Asked, Need, Outcome, resolve};
use crate::table::{Room, Table};
use crate::way::{Way, encode};

/// A request that has been looked for as often is given up: names are few.
const ROUNDS: usize = 64;

/// Answers requests from the files of a folder.
#[derive(Clone, Debug)]
pub struct Files(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Settings,
    room: Room,
    /// What each worker knows. Nobody else asks for its lock.
    tables: PerWorker<Mutex<Table>>,
}

/// What a request has found out so far.
struct Search {
    asked: Asked,
    found: Vec<(Key, Arc<Opened>)>,
    rounds: usize,
}

impl Files {
    /// By these settings.
    ///
    /// # Errors
    /// The root cannot be had.
    pub fn new(settings: Settings) -> io::Result<Self> {
        Folder::open(&settings.root)?;
        let workers = settings.workers.max(1);
        let room = Room::of(&settings.cache, workers);
        let tables = PerWorker::new(workers);
        Ok(Self(Arc::new(Inner { settings, room, tables })))
    }

    /// Says what the request comes to, or looks for what has to be known for that.
    fn search(&self, mut search: Search, context: &mut RequestContext<'_>) -> Verdict {
        let (now, worker) = (context.gateway.now(), context.gateway.worker());
        let resolved = {
            let mut table = self.table(worker);
            let found = &search.found;
            let room = self.0.room;
            resolve(&search.asked, &self.0.settings, &mut |key| {
                let own = found.iter().find(|(known, _)| known == key);
                own.map(|(_, opened)| Arc::clone(opened)).or_else(|| table.fresh(key, now, room))
            })
        };
        match resolved {
            Ok(outcome) => self.settle(&outcome, context),
            Err(_) if search.rounds >= ROUNDS => Verdict::refuse(500, "too many names to try"),
            Err(Need(keys)) => {
                search.rounds += 1;
                self.look(search, keys, worker)
            }
        }
    }

    fn table(&self, worker: usize) -> MutexGuard<'_, Table> {
        self.0.tables.worker(worker).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at these names, away from the worker, and goes on.
    fn look(&self, mut search: Search, keys: Vec<Key>, worker: usize) -> Verdict {
        let before: Vec<_> = {
            let table = self.table(worker);
            keys.iter().map(|key| table.known(key)).collect()
        };
        let inner = Arc::clone(&self.0);
        let looked = elsewhere(move || -> Vec<(Key, Arc<Opened>)> {
            let looks = keys.into_iter().zip(before).map(|(key, before)| {
                let opened = Opened::look(&key, before.as_ref(), &inner.settings);
                (key, opened)
            });
            looks.collect()
        });
        let files = self.clone();
        Verdict::Wait(Box::pin(async move {
            let looked = looked.await;
            let resume: Resume = Box::new(move |context| {
                let Some(looked) = looked else { return busy(context) };
                let now = context.gateway.now();
                for (key, opened) in &looked {
                    files.table(worker).put(key.clone(), Arc::clone(opened), now, files.0.room);
                }
                search.found.extend(looked);
                files.search(search, context)
            });
            resume
        }))
    }

    /// Answers.
    fn settle(&self, outcome: &Outcome, context: &mut RequestContext<'_>) -> Verdict {
        if let Some(content) = outcome.content() {
            return respond(answer(content, context));
        }
        match outcome {
            Outcome::Redirect => respond(redirect(context.request)),
            Outcome::List(path) => self.list(path.clone(), context),
            Outcome::Denied(status, opened) => {
                if let Opened::Denied(_, why) = &**opened {
                    let level = if *status < 500 { Level::Info } else { Level::Error };
                    let path = String::from_utf8_lossy(context.request.path()).into_owned();
                    let path = path.escape_debug();
                    context.gateway.log(level, format_args!("files: {path}: {why}"));
                }
                Verdict::refuse(*status, reason(*status))
            }
            Outcome::Status(status) => Verdict::refuse(*status, reason(*status)),
            Outcome::File(_) => Verdict::refuse(500, "not a file"),
        }
    }

    /// Writes a list, away from the worker.
    fn list(&self, path: Vec<u8>, context: &RequestContext<'_>) -> Verdict {
        let order = Order::of(context.request);
        let shown = context.request.sent_path().to_vec();
        let inner = Arc::clone(&self.0);
        // An answer may hold what only its worker may touch: it is put together there.
        let listed = elsewhere(move || {
            list(&path, &shown, order, &inner.settings).map(|reply| {
                let content = reply.body.bytes().unwrap_or_default().to_vec();
                (reply.fields, content)
            })
        });
        Verdict::Wait(Box::pin(async move {
            let listed = listed.await;
            let resume: Resume = Box::new(move |context| match listed {
                None => busy(context),
                Some(Ok((fields, content))) => {
                    let reply = Reply { fields, body: content.into(), ..Reply::new(200) };
                    Verdict::Respond(Box::new(reply))
                }
                Some(Err(Denied::Missing | Denied::Outside)) => Verdict::refuse(404, reason(404)),
                Some(Err(Denied::Forbidden)) => Verdict::refuse(403, reason(403)),
                Some(Err(Denied::Busy)) => busy(context),
                Some(Err(Denied::Failed(error))) => {
                    context.gateway.log(Level::Error, format_args!("files: a list: {error}"));
                    Verdict::refuse(500, reason(500))
                }
            });
            resume
        }))
    }
}

impl Filter for Files {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        if !matches!(context.request.method, Method::Get | Method::Head) {
            let refusal = Reply::refusal(405, "files are only read");
            return respond(refusal.with_field(b"allow", b"GET, HEAD"));
        }
        let settings = &self.0.settings;
        let paths = (context.request.sent_path(), context.request.path());
        let Some(way) = Way::of(paths, context.gateway.path_rules().case, settings) else {
            return Verdict::refuse(404, reason(404));
        };
        let encodings = accepted(&context.request.fields, &settings.precompressed);
        let asked = Asked { way, encodings };
        self.search(Search { asked, found: Vec::new(), rounds: 0 }, context)
    }
}

/// To the same place with a slash behind it, so that what a page refers to is found beneath it. The reference is
/// a relative one: it leads nowhere else, whatever the names are (RFC 3986, 4.2).
fn redirect(request: &RequestHead) -> Result<Reply, SpaceExhausted> {
    let name = request.sent_path().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let mut place = b"./".to_vec();
    // Escapes are kept as they are.
    for part in name.split_inclusive(|byte| *byte == b'%') {
        match part.split_last() {
            Some((b'%', rest)) => {
                encode(rest, &mut place);
                place.push(b'%');
            }
            _ => encode(part, &mut place),
        }
    }
    place.push(b'/');
    if !request.query().is_empty() {
        place.push(b'?');
        place.extend_from_slice(request.query());
    }
    Reply::new(301).with_field(b"location", &place)
}

fn respond(reply: Result<Reply, SpaceExhausted>) -> Verdict {
    match reply {
        Ok(reply) => Verdict::Respond(Box::new(reply)),
        Err(_) => Verdict::refuse(500, "the head is full"),
    }
}

fn busy(context: &RequestContext<'_>) -> Verdict {
    context.gateway.log(Level::Warn, format_args!("files: too much waits for the disk"));
    Verdict::refuse(503, "the disk is busy")
}

const fn reason(status: u16) -> &'static str {
    match status {
        403 => "not allowed",
        404 => "no such file",
        410 => "gone",
        503 => "the disk is busy",
        _ => "no file to answer with",
    }
}

/// Has this done where waiting for a disk holds nobody up; `None` if too much waits already.
fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Local<Option<T>> {
    let place = Arc::new(Mutex::new(None));
    let result = Arc::clone(&place);
    let done = offload_to(
        Pool::Disks,
        Box::new(move || {
            let value = work();
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        }),
    );
    Box::pin(async move {
        done.await;
        result.lock().unwrap_or_else(PoisonError::into_inner).take()
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Attempt, Cache, Listing, Names};
    use std::time::Duration;

    pub(crate) fn settings(root: &str) -> Settings {
        Settings {
            root: root.into(),
            strip_prefix: Vec::new(),
            index: vec![b"index.html".to_vec()],
            attempts: vec![Attempt::Path(vec![Vec::new(), Vec::new()])],
            listing: Listing::Off,
            hidden: Names::Visible,
            types: Vec::new(),
            default_type: "application/octet-stream".into(),
            charset: Some("utf-8".into()),
            cache_control: Vec::new(),
            download: Vec::new(),
            precompressed: Vec::new(),
            cache: Cache {
                entries: 100,
                memory: 1 << 20,
                file: 1 << 16,
                check: Duration::from_secs(1),
            },
            workers: 1,
        }
    }

    #[test]
    fn a_redirect_stays_where_it_is() {
        let rows = [
            ("/a", "./a/"),
            ("/a/b?c=d", "./b/?c=d"),
            ("/a/%20b", "./%20b/"),
            ("//evil.example", "./evil.example/"),
            ("/\\evil.example", "./%5Cevil.example/"),
            ("/x/%5Cevil.example", "./%5Cevil.example/"),
            ("/http:", "./http%3A/"),
            ("/%0d%0aset-cookie:x", "./%0D%0Aset-cookie%3Ax/"),
        ];
        for (target, expected) in rows {
            let mut head = RequestHead::new();
            let rules = sluice_message::PathRules {
                backslashes: sluice_message::PathAction::Keep,
                control_characters: sluice_message::PathAction::Keep,
                ..sluice_message::PathRules::DEFAULT
            };
            head.set_target(target.as_bytes(), &rules).unwrap();
            let reply = redirect(&head).unwrap();
            let place = reply.fields.values_of(b"location").next().unwrap();
            assert_eq!(String::from_utf8_lossy(place), expected, "{target}");
        }
    }

    #[test]
    fn a_root_that_is_not_there_is_refused() {
        assert!(Files::new(settings("/nowhere/at/all")).is_err());
        assert!(Files::new(settings("/etc/passwd")).is_err());
        assert!(Files::new(settings("/")).is_ok());
    }
}
