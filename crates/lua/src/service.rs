//! A script as a program: its workers, its signals, its end.

use std::io;
use std::sync::mpsc::{Sender, channel};

use sluice_net::process::{End, pin_thread, start_thread};
use sluice_net::{Post, mailbox, run, signals};

use crate::ports::Ports;
use crate::settings::Settings;
use crate::voice::Voice;
use crate::worker::{Parts, work};

/// What a script is started with.
#[derive(Clone, Debug)]
pub struct Launch {
    /// How it is run.
    pub settings: Settings,
    /// How many threads run it, each with a state of its own.
    pub workers: usize,
    /// The CPUs they are bound to, in turn; none if they are not bound.
    pub pin: Vec<usize>,
    /// Where its lines go.
    pub voice: Voice,
}

/// Runs a script until it ends the program, in any of its workers, or a signal does; its status.
///
/// # Errors
/// Why it could not begin, in words.
pub fn serve(launch: &Launch) -> Result<u8, String> {
    let (ends, ended) = channel();
    let ports = Ports::new(launch.workers);
    let mut posts = Vec::new();
    for index in 0..launch.workers {
        let (post, signals) = mailbox();
        posts.push(post);
        let parts = Parts {
            settings: launch.settings.clone(),
            voice: launch.voice.clone(),
            ports: ports.clone(),
            index,
            signals,
        };
        let cpu = launch.pin.get(index % launch.pin.len().max(1)).copied();
        start(parts, cpu, ends.clone())
            .map_err(|error| format!("cannot start a thread: {error}"))?;
    }
    watch(posts).map_err(|error| format!("cannot wait for signals: {error}"))?;
    // We hold a sender ourselves, so this does not fail.
    ended.recv().unwrap_or_else(|_| Err("all workers are gone".to_owned()))
}

type Outcome = Result<u8, String>;

fn start(parts: Parts, cpu: Option<usize>, ends: Sender<Outcome>) -> io::Result<()> {
    let name = format!("sluice-lua-{}", parts.index);
    let body = move || {
        if let Some(cpu) = cpu {
            pin_thread(cpu)
                .map_err(|error| format!("cannot bind a thread to CPU {cpu}: {error}"))?;
        }
        run(work(parts))
            .unwrap_or_else(|error| Err(format!("the loop of a worker failed: {error}")))
    };
    start_thread(&name, body, move |end| {
        let outcome = match end {
            End::Returned(outcome) => outcome,
            End::Panicked => Err("a worker panicked".to_owned()),
        };
        // If nobody waits, another one ended before.
        let _ = ends.send(outcome);
    })
}

/// Brings signals to all workers.
fn watch(posts: Vec<Post<&'static str>>) -> io::Result<()> {
    signals::watch_names(move |name| posts.iter().for_each(|post| post.send(name)))
}
