//! A worker thread's life: apply snapshots, serve, drain.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::Poll;
use std::time::Duration;

use sluice_filter::LentFetcher;
use sluice_meter::Meters;
use sluice_net::{Deadline, LogWriter, Mailbox, spawn, wake_all, yield_now};
use sluice_upstream::Cluster;

use crate::Snapshot;
use crate::accept::{accept_loop, adopt_loop};
use crate::beside::Runner;
use crate::burst::{Exchanges, Job, exchanges};
use crate::coroutine::Crowd;
use crate::fault_log::FaultLog;
use crate::fetch::WorkersFetcher;
use crate::listener::{ListenerState, Listeners, Open};
use crate::local::{Phase, View, Worker};
use crate::snapshot::SWEEP;
use crate::team::{Inbox, Member};

/// What control tells a worker.
pub enum Order {
    /// Serve under this snapshot from now on. The answer says whether its listeners could be opened.
    Apply(Arc<Snapshot>, Sender<io::Result<()>>),
    /// Close so many thousandths of the connections, as far as they are idle: the longest idle first.
    Shed(usize),
    /// Accept nothing more, let running exchanges finish for so long, then end.
    Drain(Duration),
}

/// What a worker is made of.
pub struct WorkerParts {
    /// Its number, from 0.
    pub index: usize,
    /// Counters of the process.
    pub meters: Arc<Meters>,
    /// The log of faults.
    pub fault_log: LogWriter,
    /// Where orders come from.
    pub orders: Mailbox<Order>,
    /// Whom it shares new connections with.
    pub team: (Member, Inbox),
}

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were cut off because they took longer than allowed.
    pub cut_off: usize,
}

/// The root of a worker thread: serves until it is told to drain, or nobody is left to tell.
pub async fn run_worker(parts: WorkerParts) -> Drained {
    let WorkerParts { index, meters, fault_log, mut orders, team: (member, inbox) } = parts;
    let crowd = Crowd::default();
    let exchanges = exchanges(crowd.clone());
    let runner = Rc::clone(&exchanges);
    let _runner = Runner::new(Rc::new(move |connection| {
        let running = runner.start(Job::Burst(connection));
        Box::pin(async move { running.await.map(drop) })
    }));
    let voices = (meters, FaultLog::new(fault_log));
    let worker = Rc::new(Worker::new(index, voices, crowd, member));
    let _fetcher = LentFetcher::new(Rc::new(WorkersFetcher(Rc::clone(&worker))));
    let listeners = Rc::new(Listeners::default());
    spawn(sweep(Rc::clone(&worker)));
    spawn(flush_each_turn(Rc::clone(&worker)));
    spawn(adopt_loop(Rc::clone(&worker), Rc::clone(&exchanges), Rc::clone(&listeners), inbox));
    while let Some(order) = orders.recv().await {
        match order {
            Order::Apply(snapshot, done) => {
                let result = worker.apply(snapshot, &exchanges, &listeners);
                // Control may have given up on us; then nobody wants to know.
                let _ = done.send(result);
            }
            Order::Shed(thousandths) => worker.shed(thousandths).await,
            Order::Drain(limit) => return worker.drain(&listeners, limit).await,
        }
    }
    Drained { cut_off: worker.connections.get() }
}

/// Hands lines over once per turn of the loop, after the exchanges that wrote them.
async fn flush_each_turn(worker: Rc<Worker>) {
    poll_fn(|cx| {
        worker.access.set_flusher(cx.waker());
        let view = worker.view();
        if let Some(log) = &view.snapshot.access {
            worker.access.flush(log);
        }
        Poll::<()>::Pending
    })
    .await;
}

async fn sweep(worker: Rc<Worker>) {
    let deadline = Deadline::new();
    loop {
        deadline.sleep(SWEEP).await;
        worker.activity.tick(worker.meter());
        let view = worker.view();
        view.clusters.iter().for_each(|cluster| cluster.sweep());
    }
}

impl Worker {
    /// Takes a new snapshot on: clusters keep their connections by name, listeners their sockets by
    /// binding.
    fn apply(
        self: &Rc<Self>,
        snapshot: Arc<Snapshot>,
        exchanges: &Rc<Exchanges>,
        listeners: &Listeners,
    ) -> io::Result<()> {
        if let Some(log) = &self.view().snapshot.access {
            self.access.flush(log);
        }
        let view = self.build_view(snapshot);
        self.set_view(Rc::clone(&view));
        self.change_listeners(&view, exchanges, listeners)
    }

    /// This worker's view of a snapshot. Clusters that it has already keep their connections.
    pub(crate) fn build_view(&self, snapshot: Arc<Snapshot>) -> Rc<View> {
        let before = self.view();
        Rc::new(View {
            clusters: snapshot
                .clusters
                .iter()
                .map(|plan| {
                    let known = before.clusters.iter().find(|old| old.plan().name == plan.name);
                    match known {
                        Some(same) if Arc::ptr_eq(same.plan(), plan) => Rc::clone(same),
                        other => Rc::new(Cluster::build(plan, self.index, other.map(|c| &**c))),
                    }
                })
                .collect(),
            snapshot,
        })
    }

    fn change_listeners(
        self: &Rc<Self>,
        view: &Rc<View>,
        exchanges: &Rc<Exchanges>,
        listeners: &Listeners,
    ) -> io::Result<()> {
        let plans = &view.snapshot.listeners;
        let mut result = Ok(());
        for plan in plans {
            // Control lets go of a binding only after no snapshot names it any more.
            let Some(binding) = plan.binding.upgrade() else { continue };
            if let Some(state) = listeners.find(&plan.binding) {
                state.update(view, plan);
                continue;
            }
            match binding.listeners(self.index) {
                Ok(sockets) => {
                    let state = ListenerState::new(view, plan, self.index);
                    for listener in sockets {
                        let exchanges = Rc::clone(exchanges);
                        spawn(accept_loop(Rc::clone(self), exchanges, Rc::clone(&state), listener));
                    }
                    listeners.add(Open { binding, state });
                }
                Err(error) => result = Err(error),
            }
        }
        let kept: Vec<_> = plans.iter().map(|plan| plan.binding.as_ptr()).collect();
        listeners.close_others(&kept);
        // Accept loops and idle connections of closed listeners see it.
        wake_all();
        result
    }

    /// Closes so many thousandths of the connections, among those that are idle, the longest idle
    /// first.
    pub(crate) async fn shed(&self, thousandths: usize) {
        self.close_idle(self.connections.get().saturating_mul(thousandths).div_ceil(1000)).await;
    }

    /// Closes so many connections of those that are idle, the longest idle first.
    pub(crate) async fn close_idle(&self, count: usize) {
        // Another choice is being made: it closes some as well.
        if !self.selection.begin() {
            return;
        }
        ask_all().await;
        let chosen = self.selection.settle(count);
        if chosen > 0 {
            ask_all().await;
        }
        let closed = chosen.saturating_sub(self.selection.end());
        self.meters.idle_closed.add(u64::try_from(closed).unwrap_or(u64::MAX));
    }

    async fn drain(self: &Rc<Self>, listeners: &Listeners, limit: Duration) -> Drained {
        self.phase.set(Phase::Draining);
        // What is quiet is not what the limit is to cut off.
        self.patience.set(self.patience.get().min(limit / 4));
        self.member.close();
        listeners.close_others(&[]);
        // Accept loops empty the kernel's queues before the first look at the count.
        ask_all().await;
        // Whether time ran out shows in the count.
        let _ = Deadline::new().limit(limit, self.all_closed()).await;
        let view = self.view();
        view.clusters.iter().for_each(|cluster| cluster.close_idle());
        if let Some(log) = &view.snapshot.access {
            self.access.flush(log);
        }
        Drained { cut_off: self.connections.get() }
    }

    /// Waits until no connection is open or on its way here.
    async fn all_closed(&self) {
        loop {
            poll_fn(|cx| {
                if self.connections.get() == 0 {
                    return Poll::Ready(());
                }
                *self.drained.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            })
            .await;
            if self.member.is_settled() {
                return;
            }
            // Another worker is just handing one over, or finding out that it is too late.
            yield_now().await;
        }
    }
}

/// Lets every task run once.
async fn ask_all() {
    wake_all();
    // The first time round this task may be the first of those that were woken.
    yield_now().await;
    yield_now().await;
}
