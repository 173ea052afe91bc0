//! What a name stands for, found out away from the workers.

use std::io;
use std::sync::Arc;

use sluice_filter::SharedBytes;
use sluice_message::Fields;
use sluice_meter::http_date;
use sluice_net::disk::{Denied, DiskFile, Folder, Kind, Looks};

use crate::media::content_type;
use crate::{Encoding, Settings};

/// A name that is looked for, and what it would be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// What is there.
    Plain(Vec<u8>),
    /// The encoded form of the file of this name.
    Encoded(Vec<u8>, u8),
}

/// What a name stands for.
#[derive(Debug)]
pub(crate) enum Opened {
    File(Content),
    Folder,
    Missing,
    /// It is there and cannot be had: status, and why.
    Denied(u16, String),
}

/// A file.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) looks: Looks,
    pub(crate) store: Store,
    /// Value of `ETag`.
    pub(crate) etag: Vec<u8>,
    /// Fields of an answer with its content.
    pub(crate) fields: Fields,
    pub(crate) media: String,
}

/// Where its content is.
#[derive(Debug)]
pub(crate) enum Store {
    Memory(SharedBytes),
    Disk(Arc<DiskFile>),
}

impl Opened {
    /// Bytes it takes in memory beyond its name.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::File(Content { store: Store::Memory(bytes), .. }) => {
                u64::try_from(bytes.len()).unwrap_or(u64::MAX)
            }
            _ => 0,
        }
    }

    /// What is here now; the same object if nothing has changed. Waits for the disk.
    pub(crate) fn look(key: &Key, before: Option<&Arc<Self>>, settings: &Settings) -> Arc<Self> {
        // Opened each time: a folder that is swapped by its link or its name is to be noticed.
        let found = match Folder::open(&settings.root) {
            Ok(root) => Self::find(key, (&root, before), settings),
            Err(error) => Found::New(Self::Denied(500, format!("the root: {error}"))),
        };
        match (found, before) {
            (Found::Same, Some(before)) => Arc::clone(before),
            (Found::New(opened), _) => Arc::new(opened),
            (Found::Same, None) => Arc::new(Self::Missing),
        }
    }

    fn find(
        key: &Key,
        (root, before): (&Folder, Option<&Arc<Self>>),
        settings: &Settings,
    ) -> Found {
        let opened = match key {
            Key::Plain(path) => root.get(path),
            Key::Encoded(path, place) => match encoding(*place, settings) {
                Some(encoding) => root.get(&[path, encoding.extension()].concat()),
                None => return Found::New(Self::Missing),
            },
        };
        let file = match opened {
            Ok(file) => file,
            Err(denied) => return Found::New(Self::denied(denied)),
        };
        let looks = match file.looks() {
            Ok(looks) => looks,
            Err(error) => return Found::New(Self::denied(Denied::Failed(error))),
        };
        match (looks.kind, before.map(|before| &**before)) {
            (Kind::Directory, _) => Found::New(Self::Folder),
            (Kind::Other, _) => Found::New(Self::Missing),
            (Kind::File, Some(Self::File(known))) if known.looks == looks => Found::Same,
            (Kind::File, _) => Found::New(match Content::new(key, (file, looks), settings) {
                Ok(content) => Self::File(content),
                Err(error) => Self::denied(Denied::Failed(error)),
            }),
        }
    }

    fn denied(denied: Denied) -> Self {
        match denied {
            Denied::Missing => Self::Missing,
            // To clients it does not exist; an operator may wonder why.
            Denied::Outside => Self::Denied(404, "it leads out of the root".into()),
            Denied::Forbidden => Self::Denied(403, "the system does not let us read it".into()),
            Denied::Busy => Self::Denied(503, "too many files are open".into()),
            Denied::Failed(error) => Self::Denied(500, error.to_string()),
        }
    }
}

enum Found {
    Same,
    New(Opened),
}

/// The encoding at this place of the configuration.
pub(crate) fn encoding(place: u8, settings: &Settings) -> Option<Encoding> {
    settings.precompressed.get(usize::from(place)).copied()
}

impl Content {
    fn new(key: &Key, (file, looks): (DiskFile, Looks), settings: &Settings) -> io::Result<Self> {
        let (path, encoding) = match key {
            Key::Plain(path) => (path, None),
            Key::Encoded(path, place) => (path, encoding(*place, settings)),
        };
        let etag = etag(&looks, encoding);
        let media = content_type(path, settings);
        let fields = fields((path, &looks), (&media, &etag), encoding, settings)?;
        let store = if looks.size <= settings.cache.file {
            let bytes = read(&file, &looks)?;
            match bytes {
                Some(bytes) => Store::Memory(bytes.into()),
                None => Store::Disk(Arc::new(file)),
            }
        } else {
            Store::Disk(Arc::new(file))
        };
        Ok(Self { looks, store, etag, fields, media })
    }
}

/// All of a small file; `None` if it changed meanwhile: two halves of different times are no whole.
fn read(file: &DiskFile, looks: &Looks) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; usize::try_from(looks.size).unwrap_or(0)];
    let filled = file.read_at(&mut bytes, 0)?;
    Ok((filled == bytes.len() && file.looks()? == *looks).then_some(bytes))
}

/// Size and time to the nanosecond tell two versions apart, and are the same wherever a copy with the same time is
/// (RFC 9110, 8.8.3). What the encodings of a file are called differs (8.8.3.3).
fn etag(looks: &Looks, encoding: Option<Encoding>) -> Vec<u8> {
    let (seconds, nanos) = (looks.modified.as_secs(), looks.modified.subsec_nanos());
    let mut etag = format!("\"{seconds:x}{nanos:08x}-{:x}", looks.size).into_bytes();
    if let Some(encoding) = encoding {
        etag.push(b'-');
        etag.extend_from_slice(encoding.coding());
    }
    etag.push(b'"');
    etag
}

fn fields(
    (path, looks): (&[u8], &Looks),
    (media, etag): (&str, &[u8]),
    encoding: Option<Encoding>,
    settings: &Settings,
) -> io::Result<Fields> {
    let full = |_| io::Error::from(io::ErrorKind::OutOfMemory);
    let mut fields = Fields::new();
    let mut add = |name: &[u8], value: &[u8]| fields.push(name, value).map_err(full);
    add(b"content-type", media.as_bytes())?;
    if let Some(encoding) = encoding {
        add(b"content-encoding", encoding.coding())?;
    }
    let mut date = [0; 29];
    http_date(looks.modified.as_secs(), &mut date);
    add(b"last-modified", &date)?;
    add(b"etag", etag)?;
    add(b"accept-ranges", b"bytes")?;
    if !settings.precompressed.is_empty() {
        add(b"vary", b"accept-encoding")?;
    }
    let path = [b"/", path].concat();
    if let Some((_, value)) = settings.cache_control.iter().find(|(glob, _)| glob.matches(&path)) {
        add(b"cache-control", value.as_bytes())?;
    }
    if settings.download.iter().any(|glob| glob.matches(&path)) {
        add(b"content-disposition", &disposition(&path))?;
    }
    Ok(fields)
}

/// The name a file is saved under, for clients of every age (RFC 6266, 4.3 and appendix D).
fn disposition(path: &[u8]) -> Vec<u8> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let harmless = |byte: &u8| matches!(byte, b' '..=b'~') && !b"\"\\%".contains(byte);
    let plain: Vec<u8> =
        name.iter().map(|byte| if harmless(byte) { *byte } else { b'_' }).collect();
    let mut value = [b"attachment; filename=\"", plain.as_slice(), b"\""].concat();
    if plain != name {
        value.extend_from_slice(b"; filename*=UTF-8''");
        // RFC 8187 speaks of characters; a name that is none is given as well as can be.
        crate::way::encode(String::from_utf8_lossy(name).as_bytes(), &mut value);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_to_old_and_new_clients() {
        let rows = [
            ("/a/b.zip", "attachment; filename=\"b.zip\""),
            ("/a b.zip", "attachment; filename=\"a b.zip\""),
            ("/\"x\".zip", "attachment; filename=\"_x_.zip\"; filename*=UTF-8''%22x%22.zip"),
            ("/ä.zip", "attachment; filename=\"__.zip\"; filename*=UTF-8''%C3%A4.zip"),
            ("/a\r\nb", "attachment; filename=\"a__b\"; filename*=UTF-8''a%0D%0Ab"),
        ];
        for (path, expected) in rows {
            let value = disposition(path.as_bytes());
            assert_eq!(String::from_utf8_lossy(&value), expected, "{path:?}");
        }
    }
}
