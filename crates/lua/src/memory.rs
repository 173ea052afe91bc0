//! The memory of a Lua state: counted, and bounded.
#![expect(unsafe_code, reason = "an allocator that LuaJIT calls works on raw memory")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;

/// What LuaJIT wants every block to be aligned to.
const ALIGN: usize = 16;

/// What a state uses, and how much it may.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    used: Cell<usize>,
    limit: Cell<usize>,
    /// From so much on garbage may be in the way.
    near: Cell<usize>,
    /// The program itself is at work on the state: it may exceed the limit, since a call of C that runs out of
    /// memory would jump over its frames. What it takes is little, and the script pays with its next block.
    relaxed: Cell<bool>,
}

impl Memory {
    /// Memory with a limit in bytes.
    pub(crate) fn new(limit: usize) -> Self {
        let memory = Self::default();
        memory.limit.set(limit);
        memory.near.set(limit - limit / 4);
        memory
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.used.get()
    }

    /// Bytes that may be used.
    pub(crate) fn limit(&self) -> usize {
        self.limit.get()
    }

    /// Bytes that are left of it.
    pub(crate) fn room(&self) -> usize {
        self.limit.get().saturating_sub(self.used.get())
    }

    /// Whether so much is in use that garbage may be in the way.
    #[inline]
    pub(crate) fn is_near_the_limit(&self) -> bool {
        self.used.get() >= self.near.get()
    }

    /// From now on the limit does not count; says whether it did before.
    #[inline]
    pub(crate) fn relax(&self) -> Relaxed {
        Relaxed(self.relaxed.replace(true))
    }

    /// The limit counts again, if it did before [`Memory::relax`].
    #[inline]
    pub(crate) fn restore(&self, before: Relaxed) {
        self.relaxed.set(before.0);
    }

    /// The program keeps so many bytes for the script, which count as its own. It pays with its next block if there
    /// are too many.
    #[inline]
    pub(crate) fn charge(&self, bytes: usize) {
        self.count(0, bytes);
    }

    /// The program keeps them no longer.
    #[inline]
    pub(crate) fn release(&self, bytes: usize) {
        self.count(bytes, 0);
    }

    /// Whether a block may grow by so much.
    fn allows(&self, more: usize) -> bool {
        self.relaxed.get() || self.used.get().saturating_add(more) <= self.limit.get()
    }

    fn count(&self, before: usize, after: usize) {
        self.used.set(self.used.get().saturating_sub(before).saturating_add(after));
    }
}

/// What held before [`Memory::relax`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relaxed(bool);

/// `lua_Alloc`: frees for a size of 0, else makes a block of `after` bytes that begins with what is in `block`.
///
/// # Safety
/// `memory` points to the [`Memory`] of the state, `block` to `before` bytes that came from here, or is null.
pub(crate) unsafe extern "C" fn allocate(
    memory: *mut c_void,
    block: *mut c_void,
    before: usize,
    after: usize,
) -> *mut c_void {
    // SAFETY: the state is closed before its memory goes; only shared borrows are ever made of it.
    let memory = unsafe { &*memory.cast::<Memory>() };
    let before = if block.is_null() { 0 } else { before };
    let layout = |size| Layout::from_size_align(size, ALIGN);
    if after == 0 {
        if let (false, Ok(layout)) = (block.is_null(), layout(before)) {
            // SAFETY: it came from here with this very layout.
            unsafe { dealloc(block.cast(), layout) };
        }
        memory.count(before, 0);
        return null_mut();
    }
    let (Ok(new), true) = (layout(after), after <= before || memory.allows(after - before)) else {
        return null_mut();
    };
    let made = match layout(before) {
        // SAFETY: it came from here with this layout, and the new size is not 0 and not too large.
        Ok(old) if !block.is_null() => unsafe { realloc(block.cast(), old, after) },
        // SAFETY: the size is not 0.
        _ => unsafe { alloc(new) },
    };
    if made.is_null() {
        if memory.relaxed.get() {
            // Nobody could be told: the machine itself is out of memory.
            handle_alloc_error(new);
        }
        return null_mut();
    }
    memory.count(before, after);
    made.cast()
}
