//! A gateway whose one route has filters, asked the same over HTTP/1.1 and HTTP/2.

use std::fmt::Write as _;
use std::path::Path;

use sluice_message::BodyLength;
use sluice_testkit::{Origin, Scratch, Sluice, ask, behaviour};
use sluice_wire::h2::End;

use crate::config;
use crate::http2::Http2Client;

/// A gateway with filters in front of an origin that answers with what it got.
pub struct Filtered {
    /// The program.
    pub sluice: Sluice,
    /// The origin.
    pub origin: Origin,
    /// Files that the configuration names.
    pub files: Scratch,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The method.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Field lines, `Host` (which is `a.example`) and framing left out.
    pub fields: &'a [(&'a str, &'a str)],
    /// Content.
    pub body: &'a str,
}

impl Default for Question<'_> {
    fn default() -> Self {
        Self { method: "GET", target: "/", fields: &[], body: "" }
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Told {
    /// `HTTP/1.1` or `HTTP/2`.
    pub protocol: &'static str,
    /// The status.
    pub status: u16,
    /// Field lines, names in lower case.
    pub fields: Vec<(String, String)>,
    /// Content.
    pub text: String,
}

impl Told {
    /// The value of the first line of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    /// The values of all lines of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    /// The values of the lines of this name that the origin got.
    #[must_use]
    pub fn origin_got(&self, name: &str) -> Vec<&str> {
        let line = |line: &'_ str| {
            let (have, _) = line.split_once(": ")?;
            have.eq_ignore_ascii_case(name).then_some(have.len() + 2)
        };
        self.text.lines().filter_map(|text| text.get(line(text)?..)).collect()
    }
}

impl Filtered {
    /// A gateway with the filter `f`, whose table is `filter`; `{files}` in it stands for a directory with
    /// these files.
    #[must_use]
    pub fn start(filter: &str, files: &[(&str, &str)]) -> Self {
        Self::build(filter, files, |origin| {
            format!("[[route]]\nproxy = \"{origin}\"\nfilters = [\"f\"]\n")
        })
    }

    /// The same with routes of the test's own, made for the address of the origin.
    #[must_use]
    pub fn build(filter: &str, files: &[(&str, &str)], routes: impl Fn(&str) -> String) -> Self {
        let (origin, scratch) = (Origin::start(behaviour::echo), Scratch::new());
        for (name, content) in files {
            scratch.write(name, content);
        }
        let filter = filter.replace("{files}", &scratch.path().display().to_string());
        let text = config(&format!("{filter}\n{}", routes(origin.address())));
        Self { sluice: Sluice::start(&text), origin, files: scratch }
    }

    /// A gateway with the first example of a page of `docs/filters`, at a free port and in front of an origin
    /// of the test's. `change` makes of it what a test can run, such as paths of files.
    ///
    /// # Panics
    /// When the page has no example.
    #[must_use]
    pub fn of_page(page: &str, files: &[(&str, &str)], change: impl Fn(String) -> String) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/filters")
            .join(format!("{page}.md"));
        let text = std::fs::read_to_string(path).expect("the page is there");
        let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
        let example = example.expect("the page begins with an example").to_owned();
        let (origin, scratch) = (Origin::start(behaviour::echo), Scratch::new());
        for (name, content) in files {
            scratch.write(name, content);
        }
        let example = change(example)
            .replace("/etc/sluice", &scratch.path().display().to_string())
            .replace("\":8080\"", "\"127.0.0.1:0\"\nname = \"web\"")
            .replace("127.0.0.1:9000", origin.address());
        // Behind the example, which may begin with keys of the whole program.
        let rest = "[admin]\naddress = \"127.0.0.1:0\"\n\n[log]\naccess = \"off\"\n";
        let text = format!("{example}\n{rest}");
        Self { sluice: Sluice::start(&text), origin, files: scratch }
    }

    /// Asks over both protocols, which have to say the same.
    ///
    /// # Panics
    /// When they do not.
    #[track_caller]
    pub fn ask(&self, question: Question<'_>) -> [Told; 2] {
        let told = [self.ask_http1(question), self.ask_http2(question)];
        assert_eq!(told[0].status, told[1].status, "{question:?}: {told:#?}");
        told
    }

    /// Asks over both protocols and compares the status.
    ///
    /// # Panics
    /// When it is another one.
    #[track_caller]
    pub fn expect(&self, status: u16, question: Question<'_>) -> [Told; 2] {
        let told = self.ask(question);
        assert_eq!(told[0].status, status, "{question:?}: {told:#?}");
        told
    }

    /// A GET with these fields.
    ///
    /// # Panics
    /// When the status is another one.
    #[track_caller]
    pub fn get(&self, status: u16, fields: &[(&str, &str)]) -> [Told; 2] {
        self.expect(status, Question { fields, ..Question::default() })
    }

    /// What a metric of the filter `f` says.
    #[must_use]
    pub fn outcome(&self, outcome: &str) -> u64 {
        let sample = format!("sluice_filter_outcomes_total{{filter=\"f\",outcome=\"{outcome}\"}}");
        crate::metric(&self.sluice.admin(), &sample)
    }

    /// Asks over HTTP/1.1.
    #[must_use]
    #[track_caller]
    pub fn ask_http1(&self, question: Question<'_>) -> Told {
        let Question { method, target, fields, body } = question;
        let mut request = format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\n");
        for (name, value) in fields {
            // Writing to a text cannot fail.
            let _ = write!(request, "{name}: {value}\r\n");
        }
        if !body.is_empty() {
            let _ = write!(request, "Content-Length: {}\r\n", body.len());
        }
        let _ = write!(request, "Connection: close\r\n\r\n{body}");
        let response = ask(&self.sluice.address("web"), &request);
        let lower = |(name, value): &(String, String)| (name.to_ascii_lowercase(), value.clone());
        Told {
            protocol: "HTTP/1.1",
            status: response.status,
            fields: response.fields.0.iter().map(lower).collect(),
            text: response.text(),
        }
    }

    /// Asks over HTTP/2.
    #[must_use]
    #[track_caller]
    pub fn ask_http2(&self, question: Question<'_>) -> Told {
        let Question { method, target, fields, body } = question;
        let mut client = Http2Client::connect(&self.sluice.address("web"));
        let lower: Vec<(String, &str)> =
            fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), *value)).collect();
        let fields: Vec<(&str, &str)> =
            lower.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let length = match u64::try_from(body.len()) {
            Ok(length) if length > 0 => BodyLength::Known(length),
            _ => BodyLength::Empty,
        };
        let stream = client.begin((method, target), &fields, length);
        if !body.is_empty() {
            client.send(stream, body.as_bytes(), End::Stream);
        }
        let answered = client.wait(stream);
        Told {
            protocol: "HTTP/2",
            status: answered.status(),
            text: answered.text(),
            fields: answered.fields,
        }
    }
}
