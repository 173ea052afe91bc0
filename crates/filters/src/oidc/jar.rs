//! Sealed texts in a browser's cookies, cut into pieces where one cookie cannot hold them.

use sluice_message::RequestHead;
use sluice_message::pair::cookies;

use crate::CookieForm;

/// A cookie holds no more than this: browsers stop at 4096 bytes, name and attributes included.
const PIECE: usize = 3600;

/// Cookies of one name, of one filter.
#[derive(Debug)]
pub(super) struct CookieJar {
    /// The name of the first piece; the others have a number behind it.
    pub(super) name: String,
    pub(super) form: CookieForm,
    /// A text that takes more pieces than this is not stored.
    pub(super) pieces: usize,
}

impl CookieJar {
    fn piece(&self, piece: usize) -> String {
        if piece == 0 { self.name.clone() } else { format!("{}.{piece}", self.name) }
    }

    /// The text that a request brings, put together.
    pub(super) fn read(&self, request: &RequestHead) -> Option<Vec<u8>> {
        let mut whole = Vec::new();
        for piece in 0..self.pieces {
            let name = self.piece(piece);
            let Some(part) = cookies(request, name.as_bytes()).next() else { break };
            whole.extend_from_slice(part);
        }
        (!whole.is_empty()).then_some(whole)
    }

    /// The values of `Set-Cookie` that store a text for `age` seconds; `None` if it is too long.
    pub(super) fn store(&self, sealed: &str, scheme: &str, age: u64) -> Option<Vec<String>> {
        let mut lines = Vec::new();
        for piece in sealed.as_bytes().chunks(PIECE) {
            let text = std::str::from_utf8(piece).ok()?;
            lines.push(self.form.set(&self.piece(lines.len()), text, scheme, Some(age)));
        }
        if lines.len() > self.pieces {
            return None;
        }
        // A piece of a longer text that was there before would be read as a part of this one.
        if lines.len() < self.pieces {
            lines.push(self.form.set(&self.piece(lines.len()), "", scheme, Some(0)));
        }
        Some(lines)
    }

    /// The values of `Set-Cookie` that remove what a request brings.
    pub(super) fn remove(&self, request: &RequestHead, scheme: &str) -> Vec<String> {
        (0..self.pieces)
            .map(|piece| self.piece(piece))
            .filter(|piece| cookies(request, piece.as_bytes()).next().is_some())
            .map(|piece| self.form.set(&piece, "", scheme, Some(0)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use sluice_message::RequestHead;

    use super::CookieJar;
    use crate::{CookieForm, Readers, SameSite};

    #[test]
    fn texts_of_any_length_are_read_as_they_were_stored() {
        let form = CookieForm {
            path: "/".to_owned(),
            domain: None,
            same_site: SameSite::Lax,
            readers: Readers::Servers,
        };
        let jar = CookieJar { name: "sid".to_owned(), form, pieces: 3 };
        for size in [1, 3600, 3601, 3 * 3600] {
            let text = "t".repeat(size);
            let mut head = RequestHead::new();
            for line in jar.store(&text, "https", 3500).unwrap() {
                assert!(line.len() < 4096 && line.contains("Secure") && line.contains("HttpOnly"));
                let (pair, rest) = line.split_once("; ").unwrap();
                if !rest.contains("Max-Age=0") {
                    assert!(rest.contains("Max-Age=3500"), "{rest}");
                    head.fields.push(b"cookie", pair.as_bytes()).unwrap();
                }
            }
            assert_eq!(jar.read(&head), Some(text.into_bytes()));
            assert_eq!(jar.remove(&head, "https").len(), size.div_ceil(3600));
        }
        assert_eq!(jar.store(&"t".repeat(3 * 3600 + 1), "https", 1), None);
        assert_eq!(jar.read(&RequestHead::new()), None);
    }
}
