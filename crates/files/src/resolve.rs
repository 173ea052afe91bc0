//! What a request comes to: a file, a folder, another place, or nothing.

use std::sync::Arc;

use crate::open::{Content, Key, Opened};
use crate::way::{Way, parts_are_plain};
use crate::{Attempt, Listing, Settings};

/// What a request comes to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// This file: the name with what it stands for.
    File(Arc<Opened>),
    /// The same with a slash behind it.
    Redirect,
    /// What is in this folder.
    List(Vec<u8>),
    /// Nothing.
    Status(u16),
    /// Something that cannot be had, and why.
    Denied(u16, Arc<Opened>),
}

/// Names that have to be looked at before it can be said.
#[derive(Debug)]
pub(crate) struct Need(pub(crate) Vec<Key>);

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) way: Way,
    /// Places of the encodings the client takes.
    pub(crate) encodings: Vec<u8>,
}

/// Says what names stand for, as far as that is known.
pub(crate) type Look<'l> = dyn FnMut(&Key) -> Option<Arc<Opened>> + 'l;

/// What the request comes to by what is known.
pub(crate) fn resolve(
    asked: &Asked,
    settings: &Settings,
    look: &mut Look<'_>,
) -> Result<Outcome, Need> {
    for attempt in &settings.attempts {
        let parts = match attempt {
            Attempt::Status(status) => return Ok(Outcome::Status(*status)),
            Attempt::Path(parts) => parts,
        };
        let way = Way::made(parts, &asked.way);
        let own = parts_are_plain(parts);
        let opened = need(Key::Plain(way.path.clone()), asked, look)?;
        match &*opened {
            // A file is no folder, and what looks like another place to a browser is one.
            Opened::File(_) if way.folder => {}
            Opened::File(_) => return choose(&way.path, opened, asked, look),
            Opened::Folder => {
                let form = if own && !way.folder { Form::Bare } else { Form::Folder };
                if let Some(outcome) = enter(&way, form, (asked, settings), look)? {
                    return Ok(outcome);
                }
            }
            Opened::Missing => {}
            Opened::Denied(404, _) if settings.attempts.len() > 1 => {}
            Opened::Denied(status, _) => return Ok(Outcome::Denied(*status, opened)),
        }
    }
    Ok(Outcome::Status(404))
}

/// How a folder was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// With a slash behind it, as what is in it is to be referred to from it.
    Folder,
    Bare,
}

/// What a folder comes to, if to anything.
fn enter(
    way: &Way,
    form: Form,
    (asked, settings): (&Asked, &Settings),
    look: &mut Look<'_>,
) -> Result<Option<Outcome>, Need> {
    for name in &settings.index {
        let path = way.join(name);
        let opened = need(Key::Plain(path.clone()), asked, look)?;
        match &*opened {
            Opened::File(_) if form == Form::Bare => return Ok(Some(Outcome::Redirect)),
            Opened::File(_) => return choose(&path, opened, asked, look).map(Some),
            Opened::Denied(status, _) if *status != 404 => {
                return Ok(Some(Outcome::Denied(*status, opened)));
            }
            _ => {}
        }
    }
    Ok(match (settings.listing, form) {
        (Listing::Off, _) => None,
        (Listing::On, Form::Bare) => Some(Outcome::Redirect),
        (Listing::On, Form::Folder) => Some(Outcome::List(way.path.clone())),
    })
}

/// The encoded form of a file that the client likes best, or the file itself.
fn choose(
    path: &[u8],
    plain: Arc<Opened>,
    asked: &Asked,
    look: &mut Look<'_>,
) -> Result<Outcome, Need> {
    for place in &asked.encodings {
        let opened = need(Key::Encoded(path.to_vec(), *place), asked, look)?;
        if is_form_of(&opened, &plain) {
            return Ok(Outcome::File(opened));
        }
    }
    Ok(Outcome::File(plain))
}

/// Whether an encoded form stands for this file: one that is older was made of what the file was before.
fn is_form_of(form: &Opened, plain: &Opened) -> bool {
    match (form, plain) {
        (Opened::File(form), Opened::File(plain)) => form.looks.modified >= plain.looks.modified,
        _ => false,
    }
}

/// What the name stands for; whoever has to look for it looks for its encoded forms as well.
fn need(key: Key, asked: &Asked, look: &mut Look<'_>) -> Result<Arc<Opened>, Need> {
    if let Some(opened) = look(&key) {
        return Ok(opened);
    }
    let path = match &key {
        Key::Plain(path) | Key::Encoded(path, _) => path.clone(),
    };
    let encoded = asked.encodings.iter().map(|place| Key::Encoded(path.clone(), *place));
    let mut keys: Vec<Key> = encoded.filter(|other| *other != key).collect();
    keys.insert(0, key);
    Err(Need(keys))
}

impl Outcome {
    /// The file, if it is one.
    pub(crate) fn content(&self) -> Option<&Content> {
        match self {
            Self::File(opened) => match &**opened {
                Opened::File(content) => Some(content),
                _ => None,
            },
            _ => None,
        }
    }
}
