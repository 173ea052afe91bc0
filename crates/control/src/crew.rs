//! The threads that serve: the workers, and one for the admin listener.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use sluice_engine::{Inbox, Member, Order, Snapshot, WorkerParts, run_worker, team};
use sluice_meter::Meters;
use sluice_net::process::start_thread;
use sluice_net::{LogWriter, Post, mailbox, run};

use crate::event::{Event, Thread};

/// How long a worker may take to answer. It does so between two turns of its loop, which take
/// milliseconds.
const ANSWER: Duration = Duration::from_secs(10);

/// The mailboxes of the threads that serve.
pub(crate) struct Crew {
    workers: Vec<Post<Order>>,
    /// One.
    admin: Vec<Post<Order>>,
}

/// What threads are started with.
pub(crate) struct CrewParts {
    pub(crate) workers: usize,
    pub(crate) meters: Arc<Meters>,
    pub(crate) admin_meters: Arc<Meters>,
    pub(crate) fault_log: LogWriter,
    /// Where the end of a thread is told.
    pub(crate) events: Sender<Event>,
}

impl Crew {
    /// Starts the threads, which serve nothing yet.
    pub(crate) fn start(parts: &CrewParts) -> io::Result<Self> {
        let begin = |thread, team| start(parts, thread, team);
        let workers = team(parts.workers).into_iter().enumerate();
        let workers = workers.map(|(index, team)| begin(Thread::Worker(index), team)).collect();
        // Nobody to share with.
        let admin = team(1).into_iter().map(|team| begin(Thread::Admin, team)).collect();
        let (workers, admin): (io::Result<_>, io::Result<_>) = (workers, admin);
        Ok(Self { workers: workers?, admin: admin? })
    }

    /// Has every worker serve under this snapshot; what went wrong, if anything.
    pub(crate) fn apply(&self, snapshot: &Arc<Snapshot>) -> Vec<String> {
        apply(&self.workers, snapshot)
    }

    /// The same for the admin thread.
    pub(crate) fn apply_admin(&self, snapshot: &Arc<Snapshot>) -> Vec<String> {
        apply(&self.admin, snapshot)
    }

    /// Workers finish what they have, within so long, and end.
    pub(crate) fn drain(&self, limit: Duration) {
        self.workers.iter().for_each(|worker| worker.send(Order::Drain(limit)));
    }

    /// The admin thread ends.
    pub(crate) fn end_admin(&self) {
        // Whoever asks at this moment still gets the answer, also of a busy machine; nobody else is waited for.
        let limit = Duration::from_secs(5);
        self.admin.iter().for_each(|admin| admin.send(Order::Drain(limit)));
    }

    /// The mailboxes of the workers.
    pub(crate) fn workers(&self) -> &[Post<Order>] {
        &self.workers
    }

    pub(crate) fn size(&self) -> usize {
        self.workers.len()
    }
}

fn start(parts: &CrewParts, thread: Thread, team: (Member, Inbox)) -> io::Result<Post<Order>> {
    let (post, orders) = mailbox();
    let (index, meters) = match thread {
        Thread::Worker(index) => (index, &parts.meters),
        Thread::Admin | Thread::Health => (0, &parts.admin_meters),
    };
    let meters = Arc::clone(meters);
    let fault_log = parts.fault_log.clone();
    let events = parts.events.clone();
    start_thread(
        &thread.name(),
        move || run(run_worker(WorkerParts { index, meters, fault_log, orders, team })),
        // If the supervisor is gone, so is the program.
        move |end| drop(events.send(Event::Ended(thread, end))),
    )?;
    Ok(post)
}

fn apply(posts: &[Post<Order>], snapshot: &Arc<Snapshot>) -> Vec<String> {
    let (sender, answers) = channel();
    for post in posts {
        post.send(Order::Apply(Arc::clone(snapshot), sender.clone()));
    }
    drop(sender);
    let mut problems = Vec::new();
    for _ in posts {
        match answers.recv_timeout(ANSWER) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => problems.push(format!("a worker cannot open a listener: {error}")),
            Err(_) => {
                problems.push("a worker does not answer".to_owned());
                break;
            }
        }
    }
    problems
}
