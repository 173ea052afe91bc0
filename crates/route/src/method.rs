//! Methods as bits of one word, so that a set of them is checked with one instruction.

use std::fmt;

use sluice_message::{Method, RequestHead};

/// The methods with a name of their own in [`Method`], in the order of their bits.
const KNOWN: [(&str, Method); 9] = [
    ("GET", Method::Get),
    ("HEAD", Method::Head),
    ("POST", Method::Post),
    ("PUT", Method::Put),
    ("DELETE", Method::Delete),
    ("CONNECT", Method::Connect),
    ("OPTIONS", Method::Options),
    ("TRACE", Method::Trace),
    ("PATCH", Method::Patch),
];

/// The bit of methods that no route names; only [`MethodSet::ANY`] has it.
const UNNAMED: u64 = 1 << 63;

/// A set of methods, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MethodSet(u64);

impl MethodSet {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const ANY: Self = Self(u64::MAX);

    #[inline]
    pub(crate) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The methods beyond the known ones that routes of a table name.
#[derive(Clone, Debug, Default)]
pub(crate) struct MethodNames {
    extensions: Vec<Box<str>>,
}

impl MethodNames {
    /// The set a route's list of methods stands for.
    pub(crate) fn set(&mut self, methods: &[String]) -> Result<MethodSet, String> {
        if methods.is_empty() {
            return Ok(MethodSet::ANY);
        }
        let mut set = MethodSet::NONE;
        for method in methods {
            set = set.with(self.bit(method)?);
        }
        // HEAD is GET without the content (RFC 9110, 9.3.2): who serves one serves the other.
        let get = known(Method::Get);
        Ok(if set.meets(get) { set.with(known(Method::Head)) } else { set })
    }

    fn bit(&mut self, method: &str) -> Result<MethodSet, String> {
        if let Some(&(_, id)) = KNOWN.iter().find(|(name, _)| *name == method) {
            return Ok(known(id));
        }
        if !is_token(method.as_bytes()) {
            return Err(format!("'{method}' is no method"));
        }
        let place = self.extensions.iter().position(|name| **name == *method);
        let place = place.unwrap_or_else(|| {
            self.extensions.push(method.into());
            self.extensions.len() - 1
        });
        extension(place).ok_or_else(|| "more than 54 methods beside the standard ones".to_owned())
    }

    /// The set that holds the method of a request and nothing else.
    #[inline]
    pub(crate) fn of(&self, head: &RequestHead) -> MethodSet {
        match head.method {
            Method::Extension => self.of_extension(head.method_text()),
            method => known(method),
        }
    }

    fn of_extension(&self, text: &[u8]) -> MethodSet {
        let place = self.extensions.iter().position(|name| name.as_bytes() == text);
        place.and_then(extension).unwrap_or(MethodSet(UNNAMED))
    }
}

#[inline]
const fn known(method: Method) -> MethodSet {
    MethodSet(match method {
        Method::Get => 1,
        Method::Head => 1 << 1,
        Method::Post => 1 << 2,
        Method::Put => 1 << 3,
        Method::Delete => 1 << 4,
        Method::Connect => 1 << 5,
        Method::Options => 1 << 6,
        Method::Trace => 1 << 7,
        Method::Patch => 1 << 8,
        Method::Extension => UNNAMED,
    })
}

/// The bit of the extension at `place`, behind those of the known methods.
fn extension(place: usize) -> Option<MethodSet> {
    let shift = u32::try_from(place + KNOWN.len()).ok()?;
    1_u64.checked_shl(shift).filter(|&bit| bit != UNNAMED).map(MethodSet)
}

/// Whether `text` is a token (RFC 9110, 5.6.2).
pub(crate) fn is_token(text: &[u8]) -> bool {
    !text.is_empty()
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

/// The methods a resource allows: the value of `Allow` (RFC 9110, 10.2.1), which a 405 must carry.
/// `Display` writes it: `GET, HEAD, POST`.
#[derive(Clone, Copy)]
pub struct Allow<'t> {
    set: MethodSet,
    names: &'t MethodNames,
}

impl<'t> Allow<'t> {
    pub(crate) const fn new(set: MethodSet, names: &'t MethodNames) -> Self {
        Self { set, names }
    }

    /// The methods: the well-known ones first, then extensions in the order of the configuration.
    pub fn methods(&self) -> impl Iterator<Item = &'t str> {
        let set = self.set;
        let extensions = self.names.extensions.iter().enumerate();
        let extensions = extensions
            .filter(move |&(place, _)| extension(place).is_some_and(|bit| set.meets(bit)))
            .map(|(_, name)| &**name);
        let standard = KNOWN.iter().filter(move |&&(_, method)| set.meets(known(method)));
        standard.map(|&(name, _)| name).chain(extensions)
    }

    /// Appends the field value to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        for (place, method) in self.methods().enumerate() {
            if place > 0 {
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(method.as_bytes());
        }
    }
}

impl fmt::Display for Allow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, method) in self.methods().enumerate() {
            if place > 0 {
                f.write_str(", ")?;
            }
            f.write_str(method)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Allow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Allow({self})")
    }
}

impl PartialEq for Allow<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.methods().eq(other.methods())
    }
}
