//! The thread that watches over the servers of all upstreams.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use sluice_engine::Drained;
use sluice_net::process::{End, start_thread};
use sluice_net::{Post, mailbox, run};
use sluice_upstream::{ClusterPlan, HealthOrder, HealthParts, Tone, watch_health};

use crate::event::{Event, Thread};
use crate::voice::Voice;

/// The thread, once an upstream has needed it.
#[derive(Debug, Default)]
pub(crate) struct Watcher {
    post: Option<Post<HealthOrder>>,
}

impl Watcher {
    /// Has the servers of these clusters, and of no others, watched from now on.
    ///
    /// # Errors
    /// If there cannot be another thread.
    pub(crate) fn watch(
        &mut self,
        clusters: &[Arc<ClusterPlan>],
        (voice, events): (&Voice, &Sender<Event>),
    ) -> io::Result<()> {
        if self.post.is_none() && clusters.iter().any(|plan| plan.settings.health.is_used()) {
            self.post = Some(start(voice.clone(), events.clone())?);
        }
        if let Some(post) = &self.post {
            post.send(HealthOrder::Watch(clusters.to_vec()));
        }
        Ok(())
    }
}

fn start(voice: Voice, events: Sender<Event>) -> io::Result<Post<HealthOrder>> {
    let (post, orders) = mailbox();
    let bell = post.clone();
    let say = move |tone, text: &str| match tone {
        Tone::Good => voice.say(text),
        Tone::Bad => voice.warn(text),
    };
    start_thread(
        &Thread::Health.name(),
        move || run(watch_health(HealthParts { orders, post: bell, say: Box::new(say) })),
        move |end| {
            let end = match end {
                End::Returned(result) => End::Returned(result.map(|()| Drained { cut_off: 0 })),
                End::Panicked => End::Panicked,
            };
            // If the supervisor is gone, so is the program.
            drop(events.send(Event::Ended(Thread::Health, end)));
        },
    )?;
    Ok(post)
}
