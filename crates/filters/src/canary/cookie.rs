//! The cookie by which a client is known again: an identifier that says nothing of it.

use std::sync::Arc;

use sluice_filter::{RequestContext, ResponseContext};

use crate::cookie::CookieForm;
use crate::uuid::uuid_v7;

/// Whether the cookie goes over encrypted connections alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Where it was set over one.
    AsConnection,
    /// It does.
    Always,
    /// It does not have to.
    Never,
}

/// A cookie.
#[derive(Debug)]
pub struct OwnCookie {
    name: String,
    form: CookieForm,
    /// Seconds.
    age: Option<u64>,
    security: Security,
    /// Where the identifier of a new client waits for the answer.
    note: Arc<str>,
}

/// No identifier of ours is longer.
const LONGEST: usize = 64;

/// Whether it may be one of ours.
pub(super) fn is_identifier(text: &[u8]) -> bool {
    let letters = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    (1..=LONGEST).contains(&text.len()) && text.iter().all(letters)
}

impl OwnCookie {
    /// With this name, which was checked, for so many seconds, or until the browser is closed.
    #[must_use]
    pub fn new(name: &str, form: CookieForm, age: Option<u64>, security: Security) -> Self {
        let note = format!("canary.cookie.{name}").into();
        Self { name: name.to_owned(), form, age, security, note }
    }

    /// The identifier of a client that has brought none.
    pub(super) fn identifier<'c>(&self, context: &'c mut RequestContext<'_>) -> &'c [u8] {
        if context.notes.get(&self.note).is_none() {
            let random = [context.gateway.random(), context.gateway.random()];
            let fresh = uuid_v7(context.gateway.unix_ms(), random);
            context.notes.set(&self.note, &fresh);
        }
        context.notes.get(&self.note).unwrap_or_default()
    }

    /// Gives a client that has brought none its identifier.
    pub(super) fn set(&self, context: &mut ResponseContext<'_>) {
        let Some(fresh) = context.notes.get(&self.note) else { return };
        let scheme = match self.security {
            Security::Always => "https",
            Security::AsConnection => context.gateway.scheme(),
            Security::Never => "http",
        };
        let fresh = std::str::from_utf8(fresh).unwrap_or_default();
        let value = self.form.set(&self.name, fresh, scheme, self.age);
        // A client that is not told gets another one with its next request.
        let _ = context.response.fields.push(b"set-cookie", value.as_bytes());
    }
}
