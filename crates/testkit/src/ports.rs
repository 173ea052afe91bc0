//! Ports for programs that cannot be told to take any free one.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where ports that systems do not give out by themselves begin at the latest; below are well-known services.
const LOWEST: u32 = 10_000;
/// How far the ports of two test programs with neighbouring process ids lie apart.
const STRIDE: u32 = 131;

static GIVEN: AtomicU32 = AtomicU32::new(0);

/// A port of 127.0.0.1 that nobody listens on, outside the range from which the system takes ports for
/// port 0 and for connections that go out.
///
/// A port inside that range may be somebody's before the program binds it: a listener of another test, or
/// the very connection that asks whether the program is up, which then talks to itself.
///
/// # Panics
/// When every port of the range is taken.
#[must_use]
pub fn unclaimed_port() -> u16 {
    let ports = beside(&ephemeral());
    let span = ports.end - ports.start;
    for _ in 0..span {
        let step = GIVEN.fetch_add(1, Ordering::Relaxed);
        let place = std::process::id().wrapping_mul(STRIDE).wrapping_add(step) % span;
        let port = u16::try_from(ports.start + place).expect("the range ends at 65 535");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port in {ports:?} is free");
}

/// The range that the system gives out: what Linux does unless told otherwise where that cannot be read.
fn ephemeral() -> Range<u32> {
    let text =
        std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut words = text.split_whitespace().map(str::parse);
    match (words.next(), words.next()) {
        (Some(Ok(first)), Some(Ok(last))) => first..last + 1,
        _ => 32_768..61_000,
    }
}

/// The longer one of the stretches below and above that range.
fn beside(ephemeral: &Range<u32>) -> Range<u32> {
    let below = LOWEST..ephemeral.start.max(LOWEST);
    let above = ephemeral.end..65_536;
    if below.len() >= above.len() { below } else { above }
}

#[cfg(test)]
mod tests {
    use super::{beside, ephemeral, unclaimed_port};

    #[test]
    fn ports_are_beside_those_that_the_system_gives_out() {
        let (first, second) = (unclaimed_port(), unclaimed_port());
        assert_ne!(first, second);
        assert!(!ephemeral().contains(&u32::from(first)));
        assert_eq!(beside(&(32_768..61_000)), 10_000..32_768);
        assert_eq!(beside(&(1_024..40_000)), 40_000..65_536);
    }
}
