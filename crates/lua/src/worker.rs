//! One worker of a script: a thread with a state of its own.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use sluice_net::{Mailbox, spawn};

use crate::basic::{chunk_name, read, without_first_comment};
use crate::host::{Ending, Host, Owner};
use crate::modules::install;
use crate::ports::Ports;
use crate::settings::Settings;
use crate::task;
use crate::vm::{self, Vm};
use crate::voice::Voice;

/// What a worker is made of.
pub(crate) struct Parts {
    pub(crate) settings: Settings,
    pub(crate) voice: Voice,
    pub(crate) ports: Ports,
    /// From 0 on.
    pub(crate) index: usize,
    /// Names of signals.
    pub(crate) signals: Mailbox<&'static str>,
}

/// Runs the script until it asks for the end; its status, or why it could not begin.
pub(crate) async fn work(parts: Parts) -> Result<u8, String> {
    let Parts { settings, voice, ports, index, signals } = parts;
    let host = Host::new(settings, voice, ports, index);
    let vm = Vm::new(Rc::clone(&host)).map_err(|error| format!("cannot start LuaJIT: {error}"))?;
    install(&host)?;
    spawn(task::pump(Rc::clone(&host)));
    spawn(deliver(Rc::clone(&host), signals));
    begin(&host)?;
    let status = poll_fn(|cx| match host.exit.get() {
        Some(status) => Poll::Ready(status),
        None => {
            *host.watcher.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        }
    });
    let status = status.await;
    drop(vm);
    Ok(status)
}

/// Starts the script itself, in a coroutine like all others.
fn begin(host: &Rc<Host>) -> Result<(), String> {
    let path = &host.settings.script;
    let name = path.display();
    let text = read(path).map_err(|error| format!("{name}: cannot read it: {error}"))?;
    let (id, thread) = vm::create(host, Some(Rc::new(Main(Rc::clone(host)))));
    vm::with_stack(host, thread, |frame| {
        frame.push_chunk(without_first_comment(&text), &chunk_name(path))
    })?;
    vm::run(host, id, 0);
    Ok(())
}

/// The coroutine of the script itself: what it could not set up nobody else will.
struct Main(Rc<Host>);

impl Owner for Main {
    fn ended(&self, ending: Ending) {
        if ending == Ending::Failed {
            self.0.leave(1);
        }
    }
}

/// Tells the script of signals.
async fn deliver(host: Rc<Host>, mut signals: Mailbox<&'static str>) {
    while let Some(name) = signals.recv().await {
        let Some(function) = host.on_signal.get() else { continue };
        let (id, thread) = vm::create(&host, None);
        vm::with_stack(&host, thread, |frame| {
            frame.push_kept(function);
            frame.push_bytes(name.as_bytes());
        });
        vm::run(&host, id, 1);
    }
}
