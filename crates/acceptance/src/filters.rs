//! What the tests of filters share: the examples of their pages, and curl by HTTP/1.1 and HTTP/2.

use std::path::Path;
use std::process::Command;

use sluice_testkit::Sluice;

/// The first example of a page in docs/filters, on a free port: its listener is called `web`. `rest` is
/// added, `replace` are words of the example and what stands in their place.
///
/// # Panics
/// There is no such page, or it has no example, or a word is not in it.
#[must_use]
pub fn page_example(page: &str, replace: &[(&str, &str)], rest: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/filters").join(page);
    let text = std::fs::read_to_string(&path).expect("the page is there");
    let (_, after) = text.split_once("```toml\n").expect("the page begins with an example");
    let mut example = after.split("```").next().unwrap_or_default().to_owned();
    for (word, other) in replace {
        assert!(example.contains(word), "{page} says {word:?}");
        example = example.replace(word, other);
    }
    format!("{}{rest}", at_free_addresses(&example, page))
}

/// The first example below a heading of a page of docs, as [`page_example`] makes it.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn section_example(page: &str, heading: &str, replace: &[(&str, &str)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = std::fs::read_to_string(&path).expect("the page is there");
    let (_, section) = text.split_once(heading).expect("the page has this heading");
    let (_, after) = section.split_once("```toml\n").expect("an example follows it");
    let mut example = after.split("```").next().unwrap_or_default().to_owned();
    for (word, other) in replace {
        assert!(example.contains(word), "{page} says {word:?}");
        example = example.replace(word, other);
    }
    at_free_addresses(&example, page)
}

fn at_free_addresses(example: &str, page: &str) -> String {
    let free = "name = \"web\"\naddress = \"127.0.0.1:0\"";
    let mut example = example.to_owned();
    for address in ["address = \"127.0.0.1:8080\"", "address = \"0.0.0.0:8080\""] {
        example = example.replacen(address, free, 1);
    }
    assert!(example.contains(free), "{page} listens on port 8080");
    format!("admin.address = \"127.0.0.1:0\"\nlog.access = \"off\"\n{example}\n")
}

/// What curl got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Status of the last answer; 0 if there was none.
    pub status: u16,
    /// Field lines of the last answer, names in lower case.
    pub fields: Vec<(String, String)>,
    /// Content.
    pub content: String,
}

impl Reply {
    /// The values of all fields of this name.
    #[must_use]
    pub fn values(&self, name: &str) -> Vec<&str> {
        let named = self.fields.iter().filter(|(known, _)| known == name);
        named.map(|(_, value)| value.as_str()).collect()
    }

    /// The value of the first field of this name; empty if there is none.
    #[must_use]
    pub fn value(&self, name: &str) -> &str {
        self.values(name).first().copied().unwrap_or_default()
    }
}

/// What a client gets by HTTP/1.1; `options` are those of curl.
#[must_use]
pub fn ask(gateway: &Sluice, path: &str, options: &[&str]) -> Reply {
    curl(gateway, path, &[&["--http1.1"], options].concat())
}

/// What a client gets by HTTP/2; `options` are those of curl.
#[must_use]
pub fn ask_http2(gateway: &Sluice, path: &str, options: &[&str]) -> Reply {
    curl(gateway, path, &[&["--http2-prior-knowledge"], options].concat())
}

/// What a client gets by both, which has to be the same: status, content and these fields.
///
/// # Panics
/// It is not the same.
#[must_use]
pub fn ask_both(gateway: &Sluice, path: &str, options: &[&str], fields: &[&str]) -> Reply {
    let [first, second] = [ask(gateway, path, options), ask_http2(gateway, path, options)];
    assert_eq!((first.status, &first.content), (second.status, &second.content), "{path}");
    for field in fields {
        assert_eq!(first.values(field), second.values(field), "{path}: {field}");
    }
    first
}

/// Runs curl against the listener `web`.
fn curl(gateway: &Sluice, path: &str, options: &[&str]) -> Reply {
    let url = format!("http://{}{path}", gateway.address("web"));
    let output = Command::new("curl")
        .args(["-s", "-i", "-m", "20", "--path-as-is", &url])
        .args(options)
        .output()
        .expect("curl is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut rest = text.as_str();
    let mut reply = Reply { status: 0, fields: Vec::new(), content: String::new() };
    // Interim answers come before the one that counts.
    while let Some((head, after)) = rest.split_once("\r\n\r\n") {
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap_or_default();
        reply.status = line.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
        let fields = lines.filter_map(|line| line.split_once(':'));
        let field = |(name, value): (&str, &str)| (name.to_lowercase(), value.trim().to_owned());
        reply.fields = fields.map(field).collect();
        rest = after;
        if reply.status >= 200 {
            break;
        }
    }
    rest.clone_into(&mut reply.content);
    reply
}
