//! Closing a connection so that its last answer arrives.

use std::future::poll_fn;
use std::net::Shutdown;
use std::time::Duration;

use sluice_net::{Deadline, Stream};

/// How long a client gets to take the last answer and close.
const PATIENCE: Duration = Duration::from_secs(2);

/// How much of what it still sends is thrown away.
const BYTES: usize = 256 * 1024;

/// Closes the sending side and reads on for a while. A socket closed with unread input makes the
/// kernel send a reset, which destroys the answer on its way (RFC 9112, section 9.6).
pub async fn linger(stream: &Stream, deadline: &Deadline) {
    stream.shut_down(Shutdown::Write);
    // A time-out is as good an end as the client's own.
    let _ = deadline.limit(PATIENCE, drain(stream)).await;
}

async fn drain(stream: &Stream) {
    let mut scratch = Vec::with_capacity(4 * 1024);
    let mut left = BYTES;
    while left > 0 {
        scratch.clear();
        match poll_fn(|cx| stream.poll_read(cx, &mut scratch)).await {
            Ok(0) | Err(_) => return,
            Ok(length) => left = left.saturating_sub(length),
        }
    }
}
