//! A worker's own view of the snapshot, and what it keeps across snapshots.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use sluice_meter::{Meters, WorkerMeter, http_date};
use sluice_net::{Nanos, now, unix_ms};
use sluice_upstream::Cluster;

use crate::access::AccessBuffer;
use crate::activity::Activity;
use crate::answer::Level;
use crate::coroutine::{Crowd, Panicked};
use crate::fault_log::FaultLog;
use crate::shed::Selection;
use crate::spare::Spares;
use crate::team::Member;
use crate::{ListenerPlan, Snapshot};

/// Longer than a busy client takes from an answer to its next request, and short enough to wait for.
const PATIENCE: Duration = Duration::from_secs(1);

/// A snapshot with the clusters this worker made of it.
pub(crate) struct View {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) clusters: Vec<Rc<Cluster>>,
}

/// What a request of one listener runs under.
pub(crate) struct Scope {
    pub(crate) view: Rc<View>,
    pub(crate) listener: Arc<ListenerPlan>,
}

/// Whether the worker is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    /// Running exchanges finish, idle connections close, answers announce the end.
    Draining,
}

/// One worker: everything its tasks share.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) phase: Cell<Phase>,
    /// How long an idle connection must have been quiet to be closed when it is to end.
    pub(crate) patience: Cell<Duration>,
    view: RefCell<Rc<View>>,
    /// Exchanges under way.
    pub(crate) crowd: Crowd,
    pub(crate) meters: Arc<Meters>,
    pub(crate) fault_log: FaultLog,
    pub(crate) access: AccessBuffer,
    /// For requests beside those of exchanges.
    pub(crate) spares: Spares,
    date: RefCell<DateText>,
    /// Whom new connections are shared with.
    pub(crate) member: Member,
    pub(crate) activity: Activity,
    /// Open client connections.
    pub(crate) connections: Cell<usize>,
    /// Who of the idle connections has to go.
    pub(crate) selection: Selection,
    /// Who waits for the last connection to close.
    pub(crate) drained: RefCell<Option<Waker>>,
}

struct DateText {
    /// When the next second begins, on the clock of the worker.
    until: Nanos,
    text: [u8; 29],
}

impl DateText {
    /// A step of the wall clock shows after a second at the latest.
    #[cold]
    fn renew(&mut self) {
        let ms = unix_ms();
        self.until = now().saturating_add((1000 - ms % 1000) * 1_000_000);
        http_date(ms / 1000, &mut self.text);
    }
}

impl Worker {
    pub(crate) fn new(
        index: usize,
        (meters, fault_log): (Arc<Meters>, FaultLog),
        crowd: Crowd,
        member: Member,
    ) -> Self {
        let view = View { snapshot: Arc::new(Snapshot::empty()), clusters: Vec::new() };
        Self {
            index,
            phase: Cell::new(Phase::Serving),
            patience: Cell::new(PATIENCE),
            view: RefCell::new(Rc::new(view)),
            crowd,
            meters,
            fault_log,
            access: AccessBuffer::default(),
            spares: Spares::default(),
            date: RefCell::new(DateText { until: 0, text: [0; 29] }),
            member,
            activity: Activity::default(),
            connections: Cell::new(0),
            selection: Selection::default(),
            drained: RefCell::default(),
        }
    }

    /// This worker's own counters.
    #[inline]
    pub(crate) fn meter(&self) -> &WorkerMeter {
        self.meters.threads().worker(self.index)
    }

    /// The present view.
    pub(crate) fn view(&self) -> Rc<View> {
        Rc::clone(&self.view.borrow())
    }

    pub(crate) fn set_view(&self, view: Rc<View>) {
        *self.view.borrow_mut() = view;
    }

    pub(crate) fn on_connection_closed(&self) {
        self.connections.set(self.connections.get().saturating_sub(1));
        if self.connections.get() == 0
            && let Some(waiting) = self.drained.take()
        {
            waiting.wake();
        }
    }

    /// The value of `Date` (RFC 9110, 6.6.1), written anew once a second.
    #[inline]
    pub(crate) fn with_date<T>(&self, use_date: impl FnOnce(&[u8]) -> T) -> T {
        let mut date = self.date.borrow_mut();
        if now() >= date.until {
            date.renew();
        }
        use_date(&date.text)
    }

    /// A panic cost one request: it is counted and logged.
    #[cold]
    pub(crate) fn on_panic(&self, panicked: &Panicked) {
        self.meters.panics.increment();
        let line = format_args!("an exchange panicked: {}", panicked.text());
        self.fault_log.write(Level::Error, line);
    }

    /// The same for a panic of the filter that the configuration calls so.
    #[cold]
    pub(crate) fn on_filter_panic(&self, filter: &str, panicked: &Panicked) {
        self.meters.panics.increment();
        let line = format_args!("filter \"{filter}\" panicked: {}", panicked.text());
        self.fault_log.write(Level::Error, line);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.phase.get() == Phase::Draining
    }
}
