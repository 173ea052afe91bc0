//! The codings that are known.

/// A content coding (RFC 9110, 8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// `gzip` (RFC 1952).
    Gzip,
    /// `br` (RFC 7932).
    Brotli,
    /// `zstd` (RFC 8878, with the window of RFC 9659).
    Zstd,
    /// `deflate`: the zlib format (RFC 1950). It is decoded and never made, for some peers mean something else
    /// by it.
    Deflate,
}

impl Coding {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Gzip, Self::Brotli, Self::Zstd, Self::Deflate];

    /// The name in fields.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Deflate => "deflate",
        }
    }

    /// The coding of this name, in capitals or small letters (RFC 9110, 8.4.1). `x-gzip` is `gzip`
    /// (RFC 9110, 8.4.1.3).
    #[must_use]
    pub fn of(name: &[u8]) -> Option<Self> {
        if is(name, b"x-gzip") {
            return Some(Self::Gzip);
        }
        Self::ALL.into_iter().find(|coding| is(name, coding.name().as_bytes()))
    }
}

fn is(name: &[u8], other: &[u8]) -> bool {
    name.eq_ignore_ascii_case(other)
}

/// The codings that content went through, in the order they were applied, by the values of its
/// `Content-Encoding` fields. `identity` is none. `None` if one of them is not known.
pub fn codings_of<'v>(values: impl Iterator<Item = &'v [u8]>) -> Option<Vec<Coding>> {
    let mut found = Vec::new();
    for name in values.flat_map(|value| value.split(|&byte| byte == b',')) {
        let name = name.trim_ascii();
        if !name.is_empty() && !is(name, b"identity") {
            found.push(Coding::of(name)?);
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_letters() {
        for coding in Coding::ALL {
            assert_eq!(Coding::of(coding.name().as_bytes()), Some(coding));
            assert_eq!(Coding::of(coding.name().to_uppercase().as_bytes()), Some(coding));
        }
        assert_eq!(Coding::of(b"X-GZip"), Some(Coding::Gzip));
        for name in [&b""[..], b"x-br", b"identity", b"compress", b"gzi", b"gzipp"] {
            assert_eq!(Coding::of(name), None, "{name:?}");
        }
    }

    #[test]
    fn layers_are_told_in_the_order_they_were_applied() {
        let of = |values: &[&str]| codings_of(values.iter().map(|value| value.as_bytes()));
        assert_eq!(of(&[]), Some(vec![]));
        assert_eq!(of(&["identity", " , "]), Some(vec![]));
        assert_eq!(of(&["gzip , br"]), Some(vec![Coding::Gzip, Coding::Brotli]));
        assert_eq!(of(&["gzip", "zstd"]), Some(vec![Coding::Gzip, Coding::Zstd]));
        assert_eq!(of(&["gzip, aes128gcm"]), None);
    }
}
