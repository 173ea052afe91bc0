//! Flow-control windows (RFC 9113, 5.2 and 6.9).

use super::error::{Error, ErrorCode, Reason};
use super::frame::LOW_31;

/// What may be sent. Below zero after the peer made its windows smaller (RFC 9113, 6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SendWindow(i64);

const OVERFLOW: Error = Error::new(ErrorCode::FLOW_CONTROL_ERROR, Reason::Window);

impl SendWindow {
    /// Nothing may be sent.
    pub(super) const EMPTY: Self = Self(0);

    pub(super) fn new(bytes: u32) -> Self {
        Self(i64::from(bytes))
    }

    /// Bytes that may be sent now.
    #[inline(always)]
    pub(super) fn room(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// So many bytes, at most [`SendWindow::room`], were sent.
    #[inline(always)]
    pub(super) fn take(&mut self, bytes: usize) {
        self.0 -= i64::try_from(bytes).unwrap_or(i64::MAX);
    }

    /// The peer takes so many bytes more.
    ///
    /// # Errors
    /// `FLOW_CONTROL_ERROR` beyond 2^31-1 (RFC 9113, 6.9.1).
    #[inline]
    pub(super) fn widen(&mut self, bytes: u32) -> Result<(), Error> {
        self.shift(i64::from(bytes))
    }

    /// The peer's initial window changed by so many bytes.
    ///
    /// # Errors
    /// `FLOW_CONTROL_ERROR` beyond 2^31-1 (RFC 9113, 6.9.2).
    #[inline]
    pub(super) fn shift(&mut self, bytes: i64) -> Result<(), Error> {
        let wider = self.0.saturating_add(bytes);
        if wider > i64::from(LOW_31) {
            return Err(OVERFLOW);
        }
        self.0 = wider;
        Ok(())
    }
}

/// What the peer may send. It is given back as content is consumed, half a window at a time: what the
/// peer may send and what is kept for readers together never exceed the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceiveWindow {
    /// Bytes the peer may still send.
    left: u32,
    /// Bytes consumed and not yet given back.
    consumed: u32,
    full: u32,
}

impl ReceiveWindow {
    pub(super) const fn new(bytes: u32) -> Self {
        Self { left: bytes, consumed: 0, full: bytes }
    }

    /// The peer has sent so many bytes.
    ///
    /// # Errors
    /// `FLOW_CONTROL_ERROR` if they are more than it may send.
    #[inline(always)]
    pub(super) fn take(&mut self, bytes: u32) -> Result<(), Error> {
        const OVERRUN: Error = Error::new(ErrorCode::FLOW_CONTROL_ERROR, Reason::WindowOverrun);
        self.left = self.left.checked_sub(bytes).ok_or(OVERRUN)?;
        Ok(())
    }

    /// So many bytes were consumed; says by how much to update the window, if it is time to.
    #[inline(always)]
    pub(super) fn consume(&mut self, bytes: u32) -> Option<u32> {
        // More than was sent is never given back.
        let consumed = self.consumed.saturating_add(bytes).min(self.full.saturating_sub(self.left));
        self.consumed = consumed;
        if consumed == 0 || consumed < self.full / 2 {
            return None;
        }
        self.consumed = 0;
        self.left += consumed;
        Some(consumed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn send_windows_overflow_and_go_below_zero() {
        let mut window = SendWindow::new(10);
        window.take(8);
        window.shift(-9).unwrap();
        assert_eq!(window.room(), 0);
        window.widen(8).unwrap();
        assert_eq!(window.room(), 1);
        assert_eq!(window.widen(LOW_31), Err(OVERFLOW));
        window.widen(LOW_31 - 1).unwrap();
        assert_eq!(window.room(), usize::try_from(LOW_31).unwrap());
    }

    #[test]
    fn receive_windows_are_given_back_in_halves() {
        let mut window = ReceiveWindow::new(100);
        window.take(100).unwrap();
        assert!(window.take(1).is_err());
        assert_eq!(window.consume(49), None);
        assert_eq!(window.consume(1), Some(50));
        window.take(50).unwrap();
        assert!(window.take(1).is_err());
        // Claims of more than was sent widen nothing.
        assert_eq!(window.consume(u32::MAX), Some(100));
        assert_eq!(window.consume(50), None);
        window.take(100).unwrap();
        assert!(window.take(1).is_err());
    }
}
