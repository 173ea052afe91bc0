//! A suite as it is written: TOML, every name checked, every mistake shown with its line.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::results::Length;

/// A whole suite file.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Short name.
    pub name: String,
    /// Title of the report.
    pub title: String,
    /// What it is for.
    #[serde(default)]
    pub about: String,
    /// Caveats that no measurement can find.
    #[serde(default)]
    pub notes: Vec<String>,
    /// How often each server is measured at each setting.
    pub rounds: Both<u32>,
    /// How long a run takes.
    pub duration: Both<Seconds>,
    /// What comes before each run.
    pub warm_up: WarmUp,
    /// CPUs of the load generator, like `1` or `2-3`.
    pub load_cpus: Option<Spanned<String>>,
    /// How user instructions are counted, in cases that ask for it.
    #[serde(default)]
    pub instructions: Instructions,
    /// Servers.
    #[serde(rename = "server")]
    pub servers: Vec<ServerEntry>,
    /// What may be missing yet.
    #[serde(default)]
    pub feature: BTreeMap<String, Feature>,
    /// Cases.
    #[serde(rename = "case")]
    pub cases: Vec<CaseEntry>,
    /// The folder of the file; configurations are found from here.
    #[serde(skip)]
    pub folder: PathBuf,
}

impl Suite {
    /// Lets every run take this long, whatever the file says. Users still end by themselves.
    pub fn set_duration(&mut self, duration: Duration) {
        let both = Both { short: Seconds(duration), full: Seconds(duration) };
        self.duration = both;
        for case in self.cases.iter_mut().filter(|case| case.duration.is_some()) {
            case.duration = Some(both);
        }
    }
}

/// A value for a short look and one for the published measurement.
#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(deny_unknown_fields)]
pub struct Both<T> {
    /// For a look.
    pub short: T,
    /// As published.
    pub full: T,
}

impl<T: Copy> Both<T> {
    /// The one for this length.
    pub fn of(&self, length: Length) -> T {
        match length {
            Length::Short => self.short,
            Length::Full => self.full,
        }
    }
}

/// A duration written like `500ms`, `2s` or `1m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub Duration);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        duration(&text).map(Self).ok_or_else(|| {
            D::Error::custom(format!("`{text}` is no duration like 500ms, 2s or 1m"))
        })
    }
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..)? {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(digits.parse::<f64>().ok()? * unit).ok()
}

/// The warm-up before each run.
#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(deny_unknown_fields)]
pub struct WarmUp {
    /// Connections.
    pub connections: u32,
    /// For a look.
    pub short: Seconds,
    /// As published.
    pub full: Seconds,
}

/// How user instructions are counted: the server runs under callgrind.
#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Instructions {
    /// Counted requests.
    pub requests: u64,
    /// Over so many connections.
    pub connections: u32,
}

impl Default for Instructions {
    fn default() -> Self {
        Self { requests: 20_000, connections: 50 }
    }
}

/// A server to start.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct ServerEntry {
    /// Name in the suite and in the report.
    pub name: Spanned<String>,
    /// Program and arguments; `{sluice}`, `{config}`, `{dir}`, `{port}`, `{port:NAME}` and
    /// `{workers}` are filled in.
    pub command: Spanned<Vec<String>>,
    /// The same for counting instructions, where it has to differ: one process, no workers.
    pub instructions_command: Option<Vec<String>>,
    /// Its configuration, a template beside the suite file.
    pub config: Option<Spanned<String>>,
    /// Other files, put into `{dir}` under their own names.
    #[serde(default)]
    pub files: Vec<Spanned<String>>,
    /// The CPUs it may use.
    pub cpus: Option<Spanned<String>>,
    /// Where it is asked; requests go to this machine only.
    #[serde(default = "any_port")]
    pub url: Spanned<String>,
    /// How it is known to be ready.
    #[serde(default)]
    pub ready: Ready,
    /// What prints its version.
    #[serde(default)]
    pub version: Vec<String>,
    /// Servers it needs beside it.
    #[serde(default)]
    pub uses: Vec<Spanned<String>>,
    /// A feature without which it cannot be started.
    pub needs: Option<Spanned<String>>,
}

fn any_port() -> Spanned<String> {
    Spanned::new(0..0, "http://127.0.0.1:{port}".to_owned())
}

/// The answer that shows that a server is ready.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Ready {
    /// This path ...
    pub path: String,
    /// ... answered with this status. 0: an accepted connection is enough.
    pub status: u16,
    /// Within this time.
    pub within: Seconds,
}

impl Default for Ready {
    fn default() -> Self {
        let within = Seconds(Duration::from_secs(15));
        Self { path: "/".to_owned(), status: 200, within }
    }
}

/// Something that may not exist yet.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// Words for the report: `waiting for ...`.
    pub says: String,
    /// A command that succeeds where it exists; placeholders as in a server's command.
    pub check: Spanned<Vec<String>>,
    /// A configuration for `{config}`.
    pub config: Option<Spanned<String>>,
}

/// The same load on several servers.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct CaseEntry {
    /// Short name.
    pub name: Spanned<String>,
    /// Title in the report.
    pub title: String,
    /// What it measures.
    #[serde(default)]
    pub about: String,
    /// The first is compared with each of the others.
    pub servers: Vec<Spanned<String>>,
    /// Asked for.
    #[serde(default = "root")]
    pub path: String,
    /// Other paths for some servers.
    #[serde(default)]
    pub paths: BTreeMap<String, String>,
    /// Connections, or users.
    pub connections: Spanned<Vec<u32>>,
    /// Open loop: offered requests per second.
    pub rate: Option<Spanned<f64>>,
    /// Users instead of connections that go on.
    pub users: Option<Users>,
    /// Requests in flight on one connection.
    #[serde(default = "one")]
    pub pipeline: u32,
    /// What is spoken.
    #[serde(default)]
    pub protocol: Protocol,
    /// HTTP/2: requests under way at once on one connection.
    pub streams: Option<Spanned<u32>>,
    /// Each request on a connection of its own that is encrypted: handshakes of this kind.
    pub handshakes: Option<Spanned<Handshakes>>,
    /// Method.
    #[serde(default = "get")]
    pub method: String,
    /// Further request fields.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Request body.
    #[serde(default)]
    pub body: String,
    /// How often the body is repeated.
    #[serde(default = "one")]
    pub body_repeat: u32,
    /// The status every answer must have.
    #[serde(default = "ok")]
    pub status: u16,
    /// How long an answer may take.
    pub timeout: Option<Seconds>,
    /// Other durations than the suite's.
    pub duration: Option<Both<Seconds>>,
    /// A test of the Redis protocol instead of HTTP, like `ping_inline`.
    pub redis: Option<String>,
    /// Whether user instructions are counted.
    #[serde(default)]
    pub instructions: bool,
    /// A feature without which it is not run.
    pub needs: Option<Spanned<String>>,
}

/// What is spoken with servers.
#[derive(Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    #[serde(rename = "http/1.1")]
    Http1,
    /// HTTP/2, from the first byte on where nothing is encrypted.
    #[serde(rename = "http/2")]
    Http2,
}

/// What handshakes are measured.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Handshakes {
    /// With everything.
    Full,
    /// All but the first of each client shortened by the ticket of the one before.
    Resumed,
}

/// Users who each send some requests and leave.
#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(deny_unknown_fields)]
pub struct Users {
    /// Requests of each.
    pub requests: u64,
    /// Within which time all have started.
    pub ramp: Seconds,
}

fn root() -> String {
    "/".to_owned()
}

fn one() -> u32 {
    1
}

fn get() -> String {
    "GET".to_owned()
}

fn ok() -> u16 {
    200
}

/// Reads a suite. `name` is what messages call it, `folder` where its other files are.
///
/// # Errors
/// What is wrong, with file, line, column and a caret under the place.
pub fn parse(name: &str, text: &str, folder: &Path) -> Result<Suite, String> {
    let mut suite: Suite = toml::from_str(text)
        .map_err(|error| shown(name, text, error.span().unwrap_or(0..0), error.message()))?;
    folder.clone_into(&mut suite.folder);
    check(&suite).map_err(|(span, message)| shown(name, text, span, &message))?;
    Ok(suite)
}

type Flaw = (Range<usize>, String);

fn check(suite: &Suite) -> Result<(), Flaw> {
    let mut names: Vec<&str> = Vec::new();
    for server in &suite.servers {
        new_name(&server.name, &mut names)?;
        loopback(&server.url)?;
        if server.command.get_ref().is_empty() {
            return Err((server.command.span(), "a command needs a program".to_owned()));
        }
        known(server.uses.iter(), suite)?;
        feature(server.needs.as_ref(), suite)?;
        server.config.iter().chain(&server.files).try_for_each(|file| exists(file, suite))?;
    }
    for feature in suite.feature.values() {
        feature.config.iter().try_for_each(|file| exists(file, suite))?;
    }
    let sets = suite.servers.iter().filter_map(|server| server.cpus.as_ref());
    sets.chain(&suite.load_cpus).try_for_each(cpu_set)?;
    let mut names: Vec<&str> = Vec::new();
    for case in &suite.cases {
        new_name(&case.name, &mut names)?;
        check_case(case, suite)?;
    }
    Ok(())
}

fn check_case(case: &CaseEntry, suite: &Suite) -> Result<(), Flaw> {
    known(case.servers.iter(), suite)?;
    feature(case.needs.as_ref(), suite)?;
    if case.servers.is_empty() {
        return Err((case.name.span(), "a case needs at least one server".to_owned()));
    }
    if case.connections.get_ref().is_empty() || case.connections.get_ref().contains(&0) {
        return Err((case.connections.span(), "connection counts are 1 or more".to_owned()));
    }
    if let Some(rate) = case.rate.as_ref().filter(|rate| *rate.get_ref() <= 0.0) {
        return Err((rate.span(), "a rate is above zero".to_owned()));
    }
    check_protocol(case, suite)?;
    if let (Some(rate), Some(_)) = (&case.rate, &case.users) {
        return Err((rate.span(), "a rate and users exclude each other".to_owned()));
    }
    Ok(())
}

fn check_protocol(case: &CaseEntry, suite: &Suite) -> Result<(), Flaw> {
    if let Some(streams) = &case.streams {
        if case.protocol == Protocol::Http1 {
            let message = "streams are of HTTP/2: write protocol = \"http/2\" beside them";
            return Err((streams.span(), message.to_owned()));
        }
        if *streams.get_ref() == 0 {
            return Err((streams.span(), "streams are 1 or more".to_owned()));
        }
    }
    if case.protocol == Protocol::Http2 && case.pipeline > 1 {
        let message = "HTTP/2 has no pipelining: write `streams`".to_owned();
        return Err((case.name.span(), message));
    }
    let Some(handshakes) = &case.handshakes else { return Ok(()) };
    let plain = |name: &&Spanned<String>| {
        let mut servers = suite.servers.iter();
        let server = servers.find(|server| server.name.get_ref() == name.get_ref());
        server.is_none_or(|server| !server.url.get_ref().starts_with("https:"))
    };
    if let Some(name) = case.servers.iter().find(plain) {
        let message = format!("`{}` is asked without TLS: it has no handshakes", name.get_ref());
        return Err((name.span(), message));
    }
    let many = case.pipeline > 1 || case.streams.as_ref().is_some_and(|it| *it.get_ref() > 1);
    match many {
        true => Err((handshakes.span(), "each handshake is for one request".to_owned())),
        false => Ok(()),
    }
}

fn new_name<'a>(name: &'a Spanned<String>, seen: &mut Vec<&'a str>) -> Result<(), Flaw> {
    if seen.contains(&name.get_ref().as_str()) {
        return Err((name.span(), format!("`{}` stands here twice", name.get_ref())));
    }
    seen.push(name.get_ref());
    Ok(())
}

fn known<'a>(
    mut names: impl Iterator<Item = &'a Spanned<String>>,
    suite: &Suite,
) -> Result<(), Flaw> {
    let known = |name: &str| suite.servers.iter().any(|server| server.name.get_ref() == name);
    match names.find(|name| !known(name.get_ref())) {
        Some(name) => Err((name.span(), format!("there is no server `{}`", name.get_ref()))),
        None => Ok(()),
    }
}

fn feature(name: Option<&Spanned<String>>, suite: &Suite) -> Result<(), Flaw> {
    match name.filter(|name| !suite.feature.contains_key(name.get_ref())) {
        Some(name) => Err((name.span(), format!("there is no feature `{}`", name.get_ref()))),
        None => Ok(()),
    }
}

fn exists(file: &Spanned<String>, suite: &Suite) -> Result<(), Flaw> {
    let path = suite.folder.join(file.get_ref());
    match path.is_file() {
        true => Ok(()),
        false => Err((file.span(), format!("there is no file {}", path.display()))),
    }
}

fn cpu_set(set: &Spanned<String>) -> Result<(), Flaw> {
    match cpus(set.get_ref()) {
        Some(_) => Ok(()),
        None => Err((set.span(), "a set of CPUs is written like 0 or 2-3 or 0,2".to_owned())),
    }
}

/// The kernel's own limit of a CPU set.
const LAST_CPU: usize = 1023;

/// The CPUs of a set like `0,2-3`.
pub(crate) fn cpus(set: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in set.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last > LAST_CPU {
            return None;
        }
        all.extend(first..=last);
    }
    (!all.is_empty()).then_some(all)
}

/// A suite starts what it measures; load on anybody else's machine is refused.
fn loopback(url: &Spanned<String>) -> Result<(), Flaw> {
    match is_loopback(url.get_ref()) {
        true => Ok(()),
        false => Err((
            url.span(),
            format!("`{}` is not on this machine: a suite loads loopback only", url.get_ref()),
        )),
    }
}

/// Whether a URL points to this machine by an address that nothing can redirect.
pub(crate) fn is_loopback(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else {
        return url.starts_with("unix:");
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // `http://127.0.0.1@example.com/` goes to example.com.
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let address = host.parse::<std::net::IpAddr>();
    address.is_ok_and(|address| address.is_loopback()) || host == "localhost"
}

/// A message with the place it is about.
fn shown(name: &str, text: &str, span: Range<usize>, message: &str) -> String {
    let start = span.start.min(text.len());
    let before = text.get(..start).unwrap_or_default();
    let number = before.matches('\n').count().saturating_add(1);
    let line_start = before.rfind('\n').map_or(0, |at| at.saturating_add(1));
    let line = text.get(line_start..).unwrap_or_default().lines().next().unwrap_or_default();
    let indent: String = before
        .get(line_start..)
        .unwrap_or_default()
        .chars()
        .map(|c| if c == '\t' { '\t' } else { ' ' })
        .collect();
    let column = indent.chars().count().saturating_add(1);
    let marked = text.get(start..span.end.min(text.len())).unwrap_or_default();
    let width = marked.lines().next().unwrap_or_default().chars().count().max(1);
    let gutter = " ".repeat(number.to_string().len());
    let message = message.trim().replace('\n', ", ");
    format!(
        "error: {message}\n{gutter}--> {name}:{number}:{column}\n{gutter} |\n{number} | {line}\n\
         {gutter} | {indent}{}\n",
        "^".repeat(width)
    )
}
