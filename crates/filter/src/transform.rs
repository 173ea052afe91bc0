//! Content that is changed while it passes.

use std::fmt::Debug;
use std::task::{Poll, Waker};

use sluice_message::{FaultKind, Fields, Syntax};

/// Content that cannot be what it says it is: the message is broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// Changes content piece by piece. It holds no more back than it has to: content is not gathered.
pub trait Transform: Debug {
    /// The next piece; what comes out of it is appended. Pieces are cut anywhere.
    ///
    /// # Errors
    /// [`Broken`]; no more is asked of it then.
    fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Broken>;

    /// Whether content passes as it is, so that its length stays what it was. Asked once, before the first piece.
    fn keeps_content(&self) -> bool {
        false
    }

    /// Whether somebody else waits for what passes: it is read on then even if the client takes nothing more, or
    /// is gone. The waker is woken when somebody begins to wait.
    fn is_awaited(&self, waker: &Waker) -> bool {
        let _ = waker;
        false
    }

    /// Whether it can take nothing more for now: nothing is read then that it would have to take. The waker is woken
    /// when it can.
    fn is_full(&mut self, waker: &Waker) -> bool {
        let _ = waker;
        false
    }

    /// No more content comes: whether [`Self::end`] may be called now. If not, the waker is woken when it is to be asked
    /// again.
    fn can_end(&mut self, waker: &Waker) -> bool {
        let _ = waker;
        true
    }

    /// No more is at hand for now. What can be passed on without knowing what follows is to be.
    fn flush(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// The content has ended, with these trailers if there are any; they may be changed or taken out.
    ///
    /// # Errors
    /// [`Broken`] if it must not end here.
    fn end(&mut self, trailers: &mut Option<Fields>, out: &mut Vec<u8>) -> Result<(), Broken> {
        let _ = (trailers, out);
        Ok(())
    }

    /// What is wrong with the content, once it was found to be [`Broken`].
    fn fault(&self) -> FaultKind {
        FAULT
    }
}

/// What is wrong with content of which nobody says more.
const FAULT: FaultKind = FaultKind::Malformed(Syntax::Content);

/// Several transforms, each working on what the one before it made.
#[derive(Debug)]
pub struct Pipeline {
    transforms: Vec<Box<dyn Transform>>,
    /// How many of them have been told of the end.
    over: usize,
    /// What goes into a transform and what comes out of it.
    buffers: [Vec<u8>; 2],
}

impl Pipeline {
    /// Of these, in this order.
    #[must_use]
    pub const fn new(transforms: Vec<Box<dyn Transform>>) -> Self {
        Self { transforms, over: 0, buffers: [Vec::new(), Vec::new()] }
    }

    /// Whether content passes all of them as it is.
    #[must_use]
    pub fn keeps_content(&self) -> bool {
        self.transforms.iter().all(|transform| transform.keeps_content())
    }

    /// Whether somebody else waits for what passes; the waker is woken when somebody begins to.
    #[must_use]
    pub fn is_awaited(&self, waker: &Waker) -> bool {
        self.transforms.iter().any(|transform| transform.is_awaited(waker))
    }

    /// Whether one of them can take nothing more for now; the waker is woken when it can.
    #[must_use]
    pub fn is_full(&mut self, waker: &Waker) -> bool {
        self.transforms.iter_mut().any(|transform| transform.is_full(waker))
    }

    /// The same with one more behind the others.
    #[must_use]
    pub fn followed_by(mut self, last: Box<dyn Transform>) -> Self {
        self.transforms.push(last);
        self
    }

    /// See [`Transform::push`].
    ///
    /// # Errors
    /// [`Broken`]
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        let Self { transforms, buffers: [current, next], .. } = self;
        match transforms.as_mut_slice() {
            [] => out.extend_from_slice(piece),
            [only] => only.push(piece, out)?,
            [first, others @ ..] => {
                current.clear();
                first.push(piece, current)?;
                pass(others, (current, next))?;
                out.append(current);
            }
        }
        Ok(())
    }

    /// See [`Transform::flush`].
    ///
    /// # Errors
    /// [`Broken`]
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        let Self { transforms, buffers: [current, next], .. } = self;
        let mut rest = transforms.as_mut_slice();
        while let [first, others @ ..] = rest {
            current.clear();
            first.flush(current);
            pass(others, (current, next))?;
            out.append(current);
            rest = others;
        }
        Ok(())
    }

    /// See [`Transform::fault`].
    #[must_use]
    pub fn fault(&self) -> FaultKind {
        let mut faults = self.transforms.iter().map(|transform| transform.fault());
        faults.find(|fault| *fault != FAULT).unwrap_or(FAULT)
    }

    /// See [`Transform::can_end`] and [`Transform::end`]: each is told once those before it have ended. To be called
    /// until it is ready.
    ///
    /// # Errors
    /// [`Broken`]
    pub fn poll_end(
        &mut self,
        waker: &Waker,
        trailers: &mut Option<Fields>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<(), Broken>> {
        let Self { transforms, over, buffers: [current, next] } = self;
        while let Some([first, others @ ..]) = transforms.get_mut(*over..) {
            if !first.can_end(waker) {
                return Poll::Pending;
            }
            current.clear();
            first.end(trailers, current)?;
            pass(others, (current, next))?;
            out.append(current);
            *over += 1;
        }
        Poll::Ready(Ok(()))
    }
}

/// What is in `current` goes through these.
fn pass(
    transforms: &mut [Box<dyn Transform>],
    (current, next): (&mut Vec<u8>, &mut Vec<u8>),
) -> Result<(), Broken> {
    for transform in transforms {
        if current.is_empty() {
            return Ok(());
        }
        next.clear();
        transform.push(current, next)?;
        std::mem::swap(current, next);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the last byte back until more comes.
    #[derive(Debug)]
    struct Behind(Option<u8>, &'static [u8]);

    impl Transform for Behind {
        fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
            for byte in piece {
                out.extend(self.0.replace(*byte));
            }
            if piece.contains(&b'!') { Err(Broken) } else { Ok(()) }
        }

        fn end(&mut self, _: &mut Option<Fields>, out: &mut Vec<u8>) -> Result<(), Broken> {
            out.extend(self.0.take());
            out.extend_from_slice(self.1);
            Ok(())
        }
    }

    fn through(transforms: Vec<Box<dyn Transform>>, pieces: &[&[u8]]) -> Result<Vec<u8>, Broken> {
        let mut pipeline = Pipeline::new(transforms);
        let mut out = Vec::new();
        for piece in pieces {
            pipeline.push(piece, &mut out)?;
            pipeline.flush(&mut out)?;
        }
        let ended = pipeline.poll_end(Waker::noop(), &mut None, &mut out);
        assert!(ended.is_ready());
        let Poll::Ready(Ok(())) = ended else { return Err(Broken) };
        Ok(out)
    }

    #[test]
    fn each_works_on_what_the_one_before_made() {
        let behind = |end| -> Box<dyn Transform> { Box::new(Behind(None, end)) };
        let pieces: [&[u8]; 4] = [b"ab", b"", b"c", b"de"];
        for count in 0..4 {
            let ends: [&[u8]; 3] = [b"1", b"2", b"3"];
            let all = ends.iter().take(count).map(|end| behind(end)).collect();
            let expected = [b"abcde", &*ends[..count].concat()].concat();
            assert_eq!(through(all, &pieces).unwrap(), expected, "{count}");
        }
        assert_eq!(through(vec![behind(b""), behind(b"")], &[b"a!b"]), Err(Broken));
    }
}
