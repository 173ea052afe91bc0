//! Content of a file, window by window, for whoever must not wait for a disk.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use crate::disk::DiskFile;
use crate::offload::{Pool, offload_to};

/// Bytes that are read at a time.
pub const WINDOW: usize = 64 * 1024;

/// Bytes that are asked of the disk at a time where the kernel copies them itself: more than a socket takes at once, or
/// each call would end where this does.
const AHEAD: u64 = 2 * 1024 * 1024;

/// What another thread has read.
type Read = io::Result<Vec<u8>>;

/// Reading parts of files. What lies in memory is had at once; the disk is waited for on another thread.
#[derive(Default)]
pub struct Reading {
    waiting: Option<Waiting>,
    /// Up to here the kernel has the content in memory, as far as was looked.
    near: u64,
}

struct Waiting {
    done: Pin<Box<dyn Future<Output = bool>>>,
    result: Arc<Mutex<Option<Read>>>,
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reading").field("near", &self.near).finish_non_exhaustive()
    }
}

impl Reading {
    /// Puts up to [`WINDOW`] and `most` bytes from `offset` on into `buffer`, whose content is replaced. It comes
    /// out empty at the end of the file. While it is pending it is asked again for the same part.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn poll_window(
        &mut self,
        cx: &mut Context<'_>,
        file: &Arc<DiskFile>,
        (offset, most): (u64, u64),
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<()>> {
        if self.waiting.is_none() {
            let length = usize::try_from(most).map_or(WINDOW, |most| most.min(WINDOW));
            buffer.resize(length, 0);
            if let Some(filled) = file.read_at_hand(buffer, offset)? {
                buffer.truncate(filled);
                return Poll::Ready(Ok(()));
            }
            let mut room = std::mem::take(buffer);
            let file = Arc::clone(file);
            self.waiting = Some(read_elsewhere(move || {
                let filled = file.read_at(&mut room, offset)?;
                room.truncate(filled);
                Ok(room)
            }));
        }
        *buffer = ready!(self.poll_waiting(cx))?;
        Poll::Ready(Ok(()))
    }

    /// Ready once the kernel has what follows `offset` in memory, at least its beginning and end, or nobody
    /// can tell. Says how many bytes, up to `most`.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn poll_near(
        &mut self,
        cx: &mut Context<'_>,
        file: &Arc<DiskFile>,
        (offset, most): (u64, u64),
    ) -> Poll<io::Result<u64>> {
        if self.waiting.is_some() {
            let _ = ready!(self.poll_waiting(cx))?;
        }
        let known = self.near.saturating_sub(offset);
        // Short rests are not worth a call: looked further ahead before.
        if known >= most.min(AHEAD / 2) {
            return Poll::Ready(Ok(most.min(known)));
        }
        let length = most.min(AHEAD);
        let end = offset.saturating_add(length);
        let mut probe = [0];
        for at in [offset.max(self.near), end.saturating_sub(1)] {
            if file.read_at_hand(&mut probe, at)?.is_none() {
                self.near = end;
                let file = Arc::clone(file);
                self.waiting = Some(read_elsewhere(move || fetch(&file, offset, end)));
                let _ = ready!(self.poll_waiting(cx))?;
                return Poll::Ready(Ok(length));
            }
        }
        self.near = end;
        Poll::Ready(Ok(length))
    }

    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<Read> {
        let Some(waiting) = &mut self.waiting else { return Poll::Ready(Ok(Vec::new())) };
        let done = ready!(waiting.done.as_mut().poll(cx));
        let result = waiting.result.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.waiting = None;
        let refused = || Err(io::Error::from(io::ErrorKind::ResourceBusy));
        Poll::Ready(result.filter(|_| done).unwrap_or_else(refused))
    }
}

fn read_elsewhere(work: impl FnOnce() -> Read + Send + 'static) -> Waiting {
    let result = Arc::new(Mutex::new(None));
    let place = Arc::clone(&result);
    let done = offload_to(
        Pool::Disks,
        Box::new(move || {
            let read = work();
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
        }),
    );
    Waiting { done: Box::pin(done), result }
}

/// Has the kernel read a part of a file, which it keeps.
fn fetch(file: &DiskFile, offset: u64, end: u64) -> Read {
    let mut room = vec![0; WINDOW];
    let mut at = offset;
    while at < end {
        let left = usize::try_from(end - at).map_or(WINDOW, |left| left.min(WINDOW));
        let part = room.get_mut(..left).unwrap_or_default();
        match file.read_at(part, at)? {
            0 => break,
            length => at = at.saturating_add(u64::try_from(length).unwrap_or(u64::MAX)),
        }
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[test]
    fn a_file_is_read_in_windows_to_its_end() {
        let path = std::env::temp_dir().join(format!("sluice-windows-{}", std::process::id()));
        let content: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        std::fs::write(&path, &content).unwrap();
        let file = Arc::new(DiskFile::open(&path).unwrap());
        let length = u64::try_from(content.len()).unwrap();
        assert_eq!(file.looks().unwrap().size, length);
        let read = crate::run(async move {
            let (mut reading, mut buffer, mut all) = (Reading::default(), Vec::new(), Vec::new());
            loop {
                let at = u64::try_from(all.len()).unwrap();
                let near = poll_fn(|cx| reading.poll_near(cx, &file, (at, u64::MAX))).await;
                assert!(near.unwrap() > 0);
                let part = (at, u64::MAX);
                poll_fn(|cx| reading.poll_window(cx, &file, part, &mut buffer)).await.unwrap();
                assert!(buffer.len() <= WINDOW);
                if buffer.is_empty() {
                    return all;
                }
                all.extend_from_slice(&buffer);
            }
        });
        assert!(read.unwrap() == content);
        std::fs::remove_file(&path).unwrap();
    }
}
