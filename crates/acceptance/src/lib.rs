//! What the acceptance tests share: the configuration of a gateway in front of scripted origins.

/// The part of a configuration that every test begins with: free ports, no access log.
pub const PREAMBLE: &str = "\
[admin]
address = \"127.0.0.1:0\"

[log]
access = \"off\"

[[listener]]
name = \"web\"
address = \"127.0.0.1:0\"

";

/// A configuration: the preamble and this.
#[must_use]
pub fn config(rest: &str) -> String {
    format!("{PREAMBLE}{rest}")
}

/// An upstream of this name with one server.
#[must_use]
pub fn upstream(name: &str, server: &str) -> String {
    format!("[upstream.{name}]\nservers = [\"{server}\"]\n\n")
}
