//! What runs of a script may ask of the exchange they belong to: lent for the time of a call and no longer.
#![expect(
    unsafe_code,
    reason = "a reference goes through LuaJIT and back, where no lifetime follows it"
)]

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;

use sluice_filter::{DoneContext, Owner, Ready, Reply, RequestContext, ResponseContext, View};
use sluice_message::{Fields, RequestHead, ResponseHead, SettledHead};

use crate::known::KnownNames;

/// An exchange in one of its phases, as a function for scripts sees it.
pub(crate) enum Exchange<'x, 'a> {
    /// The request is on its way.
    Request(&'x mut RequestContext<'a>),
    /// The answer is on its way.
    Response(&'x mut ResponseContext<'a>),
    /// All is over.
    Done(&'x DoneContext<'a>),
}

impl Exchange<'_, '_> {
    /// The head of the request.
    pub(crate) fn request(&self) -> Option<&RequestHead> {
        match self {
            Self::Request(context) => Some(context.request),
            Self::Response(context) => Some(context.request),
            Self::Done(_) => None,
        }
    }

    /// All that can be read.
    pub(crate) fn view(&self) -> Option<View<'_>> {
        match self {
            Self::Request(context) => Some(context.view()),
            Self::Response(context) => Some(context.view()),
            Self::Done(_) => None,
        }
    }
}

/// What is lent.
#[derive(Clone, Copy, Default)]
enum Held {
    #[default]
    Nothing,
    Request(NonNull<()>),
    Response(NonNull<()>),
    Done(NonNull<()>),
}

/// What a run asks for beside an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Nothing.
    #[default]
    None,
    /// So many bytes of content, for which it waits.
    Content(usize),
    /// Another route.
    Reroute,
    /// Its end, at once.
    Leave(After),
}

/// What comes after a run that has asked for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Whatever comes after one that returned.
    Others,
    /// The same function, which has more to do.
    Again,
    /// Another route.
    Reroute,
}

/// An answer that a run gives.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Made for this request.
    Made(Box<Reply>),
    /// With a head that many answers have.
    Ready(Ready),
}

impl Answer {
    /// As what takes the place of another answer.
    pub(crate) fn into_reply(self) -> Box<Reply> {
        match self {
            Self::Made(reply) => reply,
            Self::Ready(ready) => Box::new(ready.into()),
        }
    }
}

/// What content is of which a script says nothing.
pub(crate) const PLAIN: &[u8] = b"text/plain; charset=utf-8";

/// The exchange of the run that is under way.
#[derive(Default)]
pub(crate) struct Lease {
    held: Cell<Held>,
    /// The answer the run gives.
    pub(crate) answer: RefCell<Option<Answer>>,
    /// What else it wants.
    pub(crate) wish: Cell<Wish>,
    /// Whose notes are those of the script.
    pub(crate) owner: Cell<Option<Owner>>,
    /// Names of fields that the script uses.
    pub(crate) fields: KnownNames,
    /// Names of notes, which notes share.
    names: RefCell<Vec<Arc<str>>>,
    /// Heads of answers that are plain text, by their status.
    heads: RefCell<Vec<Arc<SettledHead>>>,
}

/// Heads that are kept: there are not many kinds of answers to a script.
const HEADS: usize = 8;

/// Names that are kept; a script that makes up more pays for each.
const NAMES: usize = 64;

/// An exchange is lent as long as there is this: it is taken back also when a panic passes.
#[must_use]
pub(crate) struct Lent<'l>(&'l Lease);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.held.set(Held::Nothing);
    }
}

impl Lease {
    /// The name of a note.
    pub(crate) fn name(&self, text: &str) -> Arc<str> {
        let mut names = self.names.borrow_mut();
        if let Some(known) = names.iter().find(|known| ***known == *text) {
            return Arc::clone(known);
        }
        let name: Arc<str> = text.into();
        if names.len() < NAMES {
            names.push(Arc::clone(&name));
        }
        name
    }

    /// The head of an answer that is plain text.
    #[inline]
    pub(crate) fn plain_head(&self, status: u16) -> Arc<SettledHead> {
        let heads = self.heads.borrow();
        match heads.iter().find(|head| head.status == status) {
            Some(head) => Arc::clone(head),
            None => {
                drop(heads);
                self.make_head(status)
            }
        }
    }

    #[cold]
    fn make_head(&self, status: u16) -> Arc<SettledHead> {
        let mut fields = Fields::new();
        // An empty head has room for one short line.
        let _ = fields.push(b"content-type", PLAIN);
        let head = ResponseHead { status, fields, ..ResponseHead::default() };
        let head = Arc::new(SettledHead::from(head));
        let mut heads = self.heads.borrow_mut();
        heads.truncate(HEADS - 1);
        heads.insert(0, Arc::clone(&head));
        head
    }

    /// Whether the run has asked for nothing.
    #[inline]
    pub(crate) fn is_silent(&self) -> bool {
        self.wish.get() == Wish::None && self.answer.borrow().is_none()
    }

    /// Whether there is an exchange that an answer can be given to.
    #[inline]
    pub(crate) fn is_answerable(&self) -> bool {
        matches!(self.held.get(), Held::Request(_) | Held::Response(_))
    }

    /// Lends an exchange for the time of a run. Whoever lends it drops what this gives, and nobody else can reach the
    /// exchange until then.
    // In line, and no call of a closure, which would be a function of its own.
    #[inline(always)]
    pub(crate) fn lend<'l, 'x: 'l>(&'l self, exchange: Exchange<'x, '_>) -> Lent<'l> {
        let held = match exchange {
            Exchange::Request(context) => Held::Request(NonNull::from(context).cast()),
            Exchange::Response(context) => Held::Response(NonNull::from(context).cast()),
            Exchange::Done(context) => Held::Done(NonNull::from(context).cast()),
        };
        self.held.set(held);
        Lent(self)
    }

    /// Works with the exchange of the run that is under way; `None` if it has none.
    #[inline]
    pub(crate) fn with<R>(&self, work: impl FnOnce(Exchange<'_, '_>) -> R) -> Option<R> {
        // Taken out meanwhile, so that nobody gets a second reference.
        let held = self.held.take();
        // SAFETY: what is held was lent by `lend`, on this thread; whoever did that still has what takes it back, and
        // with it the reference, which nobody else uses meanwhile. It was of the very type that is made of it here; its lifetimes are longer than
        // those that `work`, which takes any, sees.
        let result = unsafe {
            match held {
                Held::Nothing => None,
                Held::Request(context) => {
                    Some(work(Exchange::Request(context.cast::<RequestContext<'_>>().as_mut())))
                }
                Held::Response(context) => {
                    Some(work(Exchange::Response(context.cast::<ResponseContext<'_>>().as_mut())))
                }
                Held::Done(context) => {
                    Some(work(Exchange::Done(context.cast::<DoneContext<'_>>().as_ref())))
                }
            }
        };
        self.held.set(held);
        result
    }
}
