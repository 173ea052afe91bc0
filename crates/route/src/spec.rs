//! What a route asks of a request, as the configuration says it.

use std::fmt;

use ipnet::IpNet;

/// The conditions of one route. All that are given must hold; an empty list asks for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSpec {
    /// Hosts the route answers for; none means any host.
    pub hosts: Vec<HostSpec>,
    /// Path the route answers for.
    pub path: PathSpec,
    /// Methods let through, compared with case (RFC 9110, 9.1). `GET` lets `HEAD` through too.
    pub methods: Vec<String>,
    /// Field name and what one of its lines must hold. A name given twice asks for both.
    pub headers: Vec<(String, ValueSpec)>,
    /// Name of a query pair and what its decoded value must be.
    pub queries: Vec<(String, ValueSpec)>,
    /// Name of a cookie (RFC 6265, 4.2.1) and what its value must be.
    pub cookies: Vec<(String, ValueSpec)>,
    /// Networks the client's address must be in, one of them.
    pub clients: Vec<IpNet>,
}

impl RouteSpec {
    /// A route for any host that asks for nothing but a path.
    #[must_use]
    pub const fn new(path: PathSpec) -> Self {
        Self {
            hosts: Vec::new(),
            path,
            methods: Vec::new(),
            headers: Vec::new(),
            queries: Vec::new(),
            cookies: Vec::new(),
            clients: Vec::new(),
        }
    }
}

/// A host, compared without case, port and trailing dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostSpec {
    /// This host; an IPv6 address stands in brackets.
    Exact(String),
    /// Every host below a domain: `.example.com` matches `a.example.com` and `a.b.example.com`, not
    /// `example.com`.
    Wildcard(String),
}

/// A path. Exact paths, prefixes and templates are brought into the form that request paths have
/// ([`sluice_message::PathRules::read`]); characters no request target can hold are escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathSpec {
    /// This path.
    Exact(String),
    /// Every path that starts so. `/api/` also matches `/api`; `/` matches everything, `*` of
    /// OPTIONS included.
    Prefix(String),
    /// Segments, some of them parameters: `/users/{id}/posts/{post}`. A parameter stands for one
    /// segment that is not empty.
    Template(String),
    /// A regular expression, searched for in the path: it anchors itself with `^` and `$`. Classes
    /// such as `\w` mean ASCII.
    Regex(String),
}

/// What a value must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueSpec {
    /// Byte for byte this.
    Exact(String),
    /// A regular expression, searched for in the value.
    Regex(String),
    /// Anything, as long as the name is there.
    Present,
}

/// Why a table could not be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// Index of the route at fault.
    pub index: usize,
    /// What is wrong with it, for the user.
    pub message: String,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route {}: {}", self.index, self.message)
    }
}

impl std::error::Error for BuildError {}
