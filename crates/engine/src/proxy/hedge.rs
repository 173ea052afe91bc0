//! Asking a second server when the first one takes long: whoever answers first wins.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use sluice_conn::OriginChannel;
use sluice_message::Fault;
use sluice_net::Nanos;
use sluice_upstream::{Cluster, HedgeRule, Server, Visit};
use sluice_wire::h1::Upgrade;

use super::Halves;
use super::attempt::NO_SERVER;
use super::solo::{Whole, ask};
use super::tries::Tries;
use crate::exchange::{Exchange, Stop};
use crate::patience::end_after;
use crate::spare::Spare;

/// Which try of a race it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    First,
    Hedge,
}

type Answered<'s> = (&'s mut Spare, Result<OriginChannel, Fault>);

/// One try under way.
struct Run<'s> {
    visit: Visit,
    turn: Turn,
    answer: Pin<Box<dyn Future<Output = Answered<'s>> + 's>>,
}

impl<'s> Run<'s> {
    fn start(
        cluster: &'s Cluster,
        (visit, turn): (Visit, Turn),
        whole: Whole<'s>,
        spare: &'s mut Spare,
    ) -> Self {
        let server = Rc::clone(&visit);
        let answer = Box::pin(async move {
            let answered = ask((cluster, &server), whole, spare).await;
            (spare, answered)
        });
        Self { visit, turn, answer }
    }
}

/// What a race waits for.
enum Event<'s> {
    /// The try at this place ended.
    Ended(usize, Answered<'s>),
    /// It is time for another one.
    Late,
    Gone(Fault),
}

impl Exchange<'_, '_> {
    /// How the request may be hedged: if it changes nothing, and all of it can be sent at once.
    #[inline]
    pub(super) fn hedge_rule(&self, cluster: &Cluster, upgrade: Upgrade) -> Option<HedgeRule> {
        let rule = cluster.settings().retry.hedge?;
        let request = &*self.request;
        let allowed = request.method.is_safe() && !request.has_content() && upgrade == Upgrade::No;
        allowed.then_some(rule)
    }

    /// One try, and more beside it if it takes long. The first answer wins that policy does not want
    /// another try after; else what came last is what came.
    pub(super) async fn race(
        &mut self,
        (cluster, rule): (&Rc<Cluster>, HedgeRule),
        first: &Rc<Server>,
        tries: &mut Tries,
        (receiver, sender): Halves<'_>,
    ) -> Result<OriginChannel, Stop> {
        let worker = self.worker;
        let mut spares: Vec<_> = (0..=rule.most).map(|_| worker.spares.take()).collect();
        let mut free = spares.iter_mut();
        let Some(spare) = free.next() else { return Err(NO_SERVER.into()) };
        let header = self.announce(first.proxy_protocol());
        let whole = Whole { head: &*self.request, content: &[], trailers: None, header: &header };
        let visit = self.upstream.server.take().unwrap_or_else(|| Visit::new(cluster, first));
        let mut runs = vec![Run::start(cluster, (visit, Turn::First), whole, spare)];
        tries.note(first);
        let mut next = end_after(Some(rule.after));
        let outcome = loop {
            match self.next_event(&mut runs, next).await {
                Event::Gone(fault) => {
                    self.upstream.server = runs.pop().map(|run| run.visit);
                    break Err(fault);
                }
                Event::Late => {
                    next = Nanos::MAX;
                    if free.len() > 0
                        && let Some(server) = self.hedge_server(cluster, tries)
                        && let Some(visit) = Visit::try_new(cluster, &server)
                        && let Some(spare) = free.next()
                    {
                        self.upstream.attempts += 1;
                        runs.push(Run::start(cluster, (visit, Turn::Hedge), whole, spare));
                        next = end_after(Some(rule.after));
                    }
                }
                Event::Ended(at, (spare, answered)) => {
                    let Run { visit, turn, answer } = runs.swap_remove(at);
                    drop(answer);
                    let refused = match &answered {
                        Ok(_) => cluster.settings().retry.on.has_status(spare.response.status),
                        Err(_) => true,
                    };
                    if refused && !runs.is_empty() {
                        match answered {
                            Ok(_) => tries.note_answer(&visit, &spare.response),
                            Err(fault) => {
                                cluster.on_failure(&visit, fault);
                                cluster.on_blame(&visit, fault);
                            }
                        }
                        continue;
                    }
                    if turn == Turn::Hedge && !refused {
                        cluster.meter().hedges_won.increment();
                    }
                    if answered.is_ok() {
                        std::mem::swap(self.response, &mut spare.response);
                        std::mem::swap(receiver, &mut spare.receiver);
                        std::mem::swap(sender, &mut spare.sender);
                        self.upstream.nanos = Some(spare.nanos);
                        self.upstream.connection = std::mem::take(&mut spare.connection);
                    }
                    self.upstream.server = Some(visit);
                    break answered;
                }
            }
        };
        // Whoever lost is cut off: its connection closes.
        drop(runs);
        spares.into_iter().for_each(|spare| worker.spares.put(spare));
        outcome.map_err(Stop::from)
    }

    async fn next_event<'s>(&self, runs: &mut [Run<'s>], next: Nanos) -> Event<'s> {
        poll_fn(|cx| {
            if let Poll::Ready(fault) = self.downstream.poll_gone(cx) {
                return Poll::Ready(Event::Gone(fault));
            }
            for (at, run) in runs.iter_mut().enumerate() {
                if let Poll::Ready(answered) = run.answer.as_mut().poll(cx) {
                    return Poll::Ready(Event::Ended(at, answered));
                }
            }
            self.downstream.deadline.poll_at(next, cx).map(|_| Event::Late)
        })
        .await
    }

    /// A server that nobody of this request has asked, if policy and budget allow another try.
    fn hedge_server(&self, cluster: &Cluster, tries: &mut Tries) -> Option<Rc<Server>> {
        let server = self.other_server(cluster, tries)?;
        cluster.meter().hedges.increment();
        tries.note(&server);
        Some(server)
    }
}
