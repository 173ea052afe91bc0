//! The process itself: its threads, its limits, its use of the machine, its service manager.

use std::io;
use std::num::NonZero;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// How a thread ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End<T> {
    /// It returned this.
    Returned(T),
    /// It panicked. The message is on standard error already.
    Panicked,
}

/// Starts a thread of this name. `ended` runs on it as the last thing, also after a panic, so that
/// nobody can lose a thread without hearing of it.
///
/// # Errors
/// If the kernel refuses another thread.
pub fn start_thread<T: 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
    ended: impl FnOnce(End<T>) + Send + 'static,
) -> io::Result<()> {
    let body = move || {
        // The closure is consumed, so nobody sees what a panic left half-done.
        ended(match catch_unwind(AssertUnwindSafe(run)) {
            Ok(output) => End::Returned(output),
            Err(_) => End::Panicked,
        });
    };
    thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}

/// CPUs this process may run on.
#[must_use]
pub fn cpus() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Binds the calling thread to one CPU, counted from 0.
///
/// # Errors
/// If there is no such CPU, or the process may not use it.
pub fn pin_thread(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Raises the limit of open descriptors as far as the kernel lets anybody: each connection takes one,
/// a proxied one two, and the usual soft limit of 1024 is for programs that call select(2).
///
/// Returns the limit now; `None` means that there is none.
pub fn raise_descriptor_limit() -> Option<u64> {
    let before = getrlimit(Resource::Nofile);
    if before.current != before.maximum {
        // A refusal leaves the limit as it was, which is what is returned.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before });
    }
    getrlimit(Resource::Nofile).current
}

/// What the process uses of the machine. What cannot be read is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// When the process started, since 1970; to be exact, when it was first asked.
    pub start: Duration,
    /// User and system CPU time.
    pub cpu: Option<Duration>,
    /// Resident memory in bytes.
    pub resident_bytes: Option<u64>,
    /// Open file descriptors.
    pub open_descriptors: Option<u64>,
    /// Limit of open file descriptors.
    pub max_descriptors: Option<u64>,
}

impl Usage {
    /// What is used now. Reads a few small files of /proc.
    #[must_use]
    pub fn now() -> Self {
        Self {
            start: start(),
            cpu: cpu_time(),
            resident_bytes: crate::memory::resident(),
            open_descriptors: open_descriptors(),
            max_descriptors: getrlimit(Resource::Nofile).current,
        }
    }
}

/// The wall clock, since 1970.
#[must_use]
pub fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// When this was first called, since 1970.
fn start() -> Duration {
    static START: OnceLock<Duration> = OnceLock::new();
    *START.get_or_init(wall_clock)
}

/// How long ago this was first called.
#[must_use]
pub fn uptime() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    let now = Instant::now();
    start();
    now.saturating_duration_since(*START.get_or_init(|| now))
}

fn cpu_time() -> Option<Duration> {
    time_of(ClockId::ProcessCPUTime)
}

/// CPU time of the calling thread, user and system.
#[must_use]
pub fn thread_cpu() -> Option<Duration> {
    time_of(ClockId::ThreadCPUTime)
}

fn time_of(clock: ClockId) -> Option<Duration> {
    Duration::try_from(clock_gettime(clock)).ok()
}

fn open_descriptors() -> Option<u64> {
    // One of them is the directory that is being read.
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    u64::try_from(count).ok()
}

/// Tells the service manager how the service is, if it asked for it (sd_notify(3)): lines like
/// `READY=1`.
///
/// # Errors
/// If the manager's socket cannot be reached. The service runs all the same.
pub fn notify_service_manager(state: &str) -> io::Result<()> {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&path)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not stop us.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address).map(drop)
}

/// Fails if another socket, of this process or of another one, is bound to `address` for listening.
/// Binding with SO_REUSEPORT alone does not: two programs of one user would share the port.
///
/// # Errors
/// "Address in use", or whatever else keeps anybody from binding there.
pub fn ensure_unclaimed(address: std::net::SocketAddr) -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
    if address.port() == 0 {
        return Ok(());
    }
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let probe = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Connections of a program that has just ended (TIME_WAIT) are no reason to refuse.
    sockopt::set_socket_reuseaddr(&probe, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&probe, true)?;
    }
    Ok(bind(&probe, &address)?)
}

/// The monotonic clock in microseconds, as `MONOTONIC_USEC=` of sd_notify(3) wants it.
#[must_use]
pub fn monotonic_micros() -> u64 {
    let time = time_of(ClockId::Monotonic).unwrap_or_default();
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn the_end_of_a_thread_is_told_however_it_comes() {
        let (sender, receiver) = mpsc::channel();
        let also = sender.clone();
        start_thread("returns", || 7, move |end| sender.send(end).unwrap()).unwrap();
        assert_eq!(receiver.recv(), Ok(End::Returned(7)));
        start_thread(
            "panics",
            || panic!("on purpose"),
            move |end: End<i32>| {
                also.send(end).unwrap();
            },
        )
        .unwrap();
        assert_eq!(receiver.recv(), Ok(End::Panicked));
    }

    #[test]
    fn a_port_somebody_listens_at_is_claimed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let error = ensure_unclaimed(address).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        ensure_unclaimed(address).unwrap();
        ensure_unclaimed("127.0.0.1:0".parse().unwrap()).unwrap();
    }

    #[test]
    fn usage_is_read_from_the_kernel() {
        let usage = Usage::now();
        assert!(usage.cpu.is_some());
        assert!(usage.resident_bytes.is_some_and(|bytes| bytes > 1 << 20), "{usage:?}");
        assert!(usage.open_descriptors.is_some_and(|count| count >= 3), "{usage:?}");
        let limit = raise_descriptor_limit();
        assert!(limit.is_none_or(|limit| limit >= 3));
    }
}
