//! What a script is told that asks for an exchange where there is none.

use crate::frame::{Frame, Reply};

/// There is no request, or no answer, at this time.
#[cold]
pub(crate) fn nothing_there(frame: &Frame<'_>) -> Reply {
    frame.raise("nothing of an exchange is at hand here: it is over, or this task is none of its")
}
