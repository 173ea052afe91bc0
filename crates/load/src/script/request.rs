//! One request of a script: read once, rendered for every sending.

use std::time::Duration;

use sluice_message::Method;

use super::answer::Part;
use super::condition::{Condition, unknown_part};
use super::fields::{Fields, text};
use super::problem::{Report, Span};
use super::runner::{Runner, credentials};
use super::template::{Place, Scope, Template, Values};
use super::text::{push_base64, push_number};
use super::url::Url;
use super::variable::{VariableId, Variables};
use super::yaml::{Node, Value};

/// More copies of a body or a request than this are a slip.
const REPEATS: u64 = 100_000_000;

/// One entry of `requests`.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Method and URL as typed, for messages.
    pub(crate) words: String,
    /// Place in the script's targets.
    pub(crate) target: u32,
    head: Template,
    /// What of the head comes behind the target.
    fields: Vec<Template>,
    body: Option<Template>,
    body_repeats: u64,
    /// Sent as it stands if nothing in it changes.
    constant: Option<Box<[u8]>>,
    /// How often it is sent in a row.
    pub(crate) repeats: u64,
    /// Variables that have one value per request, and per copy of the body.
    once: Vec<VariableId>,
    line: Vec<VariableId>,
    pub(crate) assert: Option<Condition>,
    /// Where parts of the answer are registered.
    pub(crate) register: Vec<(usize, Part)>,
    pub(crate) pause: Option<Duration>,
    /// The pause before the first of its repetitions.
    pub(crate) pause_before: Option<Duration>,
}

/// What all requests of a script share while they are read.
pub(crate) struct Surroundings<'s> {
    pub(crate) runner: &'s Runner,
    pub(crate) variables: &'s Variables,
    pub(crate) registered: &'s [String],
    pub(crate) targets: &'s mut Vec<String>,
}

/// The names a list of requests registers.
pub(crate) fn registered(list: &[Node]) -> Vec<String> {
    let mut names = Vec::new();
    // Problems are reported when the requests themselves are read.
    let mut silent = Report::new("", "");
    for node in list {
        let Some(mut fields) = Fields::of(node, "a request", &mut silent) else { continue };
        for pair in fields.pairs("register", &mut silent) {
            if !names.contains(&pair.key) {
                names.push(pair.key.clone());
            }
        }
    }
    names
}

impl Request {
    pub(crate) fn read(
        node: &Node,
        around: &mut Surroundings<'_>,
        report: &mut Report<'_>,
    ) -> Option<Self> {
        let mut outer = Fields::of(node, "an entry of `requests`", report)?;
        let assert =
            outer.take("assert").and_then(|node| Condition::read(node, around.registered, report));
        let register = registrations(&mut outer, around.registered, report);
        let pause = outer.take("sleep").and_then(|node| pause(node, report));
        let request = outer.take("request");
        if let Some(node) = outer.take("assert_dsl") {
            report.error(node.span, "`assert_dsl` is not supported; write it as `assert`");
        }
        outer.finish(report);
        let Some(request) = request else {
            report.error(Span::new(node.span.start, node.span.start), "`request` is missing");
            return None;
        };
        let mut fields = Fields::of(request, "a request", report)?;
        let request = Draft::read(&mut fields, around, report);
        fields.finish(report);
        Some(Self { assert, register, pause, ..request? })
    }

    /// Whether the content of an answer is looked at.
    pub(crate) fn needs_body(&self) -> bool {
        self.register.iter().any(|(_, part)| part.needs_body())
            || self.assert.as_ref().is_some_and(|assert| assert.asks(&Part::needs_body))
    }

    /// Whether the content of an answer is looked at as JSON.
    pub(crate) fn needs_json(&self) -> bool {
        let is_json = |part: &Part| matches!(part, Part::BodyJson(_));
        self.register.iter().any(|(_, part)| is_json(part))
            || self.assert.as_ref().is_some_and(|assert| assert.asks(&is_json))
    }

    /// Appends the request with the present values. `body` is a buffer that is used again.
    pub(crate) fn write(
        &self,
        variables: &Variables,
        values: &mut Values,
        (out, body): (&mut Vec<u8>, &mut Vec<u8>),
    ) {
        if let Some(constant) = &self.constant {
            out.extend_from_slice(constant);
            return;
        }
        refill(&self.once, &mut values.once, (variables, &mut values.maker));
        self.head.write(variables, values, out);
        for field in &self.fields {
            field.write(variables, values, out);
        }
        self.write_body(variables, values, body);
        // Methods that usually carry content say so when they carry none (RFC 9110, 8.6).
        let says_none = matches!(self.method, Method::Post | Method::Put | Method::Patch);
        if !body.is_empty() || says_none {
            out.extend_from_slice(b"Content-Length: ");
            push_number(out, u64::try_from(body.len()).unwrap_or(u64::MAX));
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body);
    }

    fn write_body(&self, variables: &Variables, values: &mut Values, body: &mut Vec<u8>) {
        body.clear();
        let Some(template) = &self.body else { return };
        for _ in 0..self.body_repeats {
            refill(&self.line, &mut values.line, (variables, &mut values.maker));
            template.write(variables, values, body);
        }
    }
}

/// Gives each slot a new value of its variable.
fn refill(
    ids: &[VariableId],
    slots: &mut Vec<Vec<u8>>,
    (variables, maker): (&Variables, &mut super::variable::Maker),
) {
    if slots.len() < ids.len() {
        slots.resize_with(ids.len(), Vec::new);
    }
    for (id, slot) in ids.iter().zip(slots) {
        slot.clear();
        variables.write(*id, maker, slot);
    }
}

fn registrations(
    outer: &mut Fields<'_>,
    names: &[String],
    report: &mut Report<'_>,
) -> Vec<(usize, Part)> {
    let mut list = Vec::new();
    for pair in outer.pairs("register", report) {
        let Some(path) = text(&pair.node, "register", report) else { continue };
        let slot = names.iter().position(|name| *name == pair.key);
        match (slot, Part::named(path, names)) {
            (Some(slot), Some(part)) => list.push((slot, part)),
            _ => report.error(pair.node.span, unknown_part(path)),
        }
    }
    list
}

/// The pause of an entry that is nothing else.
pub(crate) fn only_pauses(node: &Node, report: &mut Report<'_>) -> Option<Duration> {
    match &node.value {
        Value::Table(entries) => match entries.as_slice() {
            [only] if only.key == "sleep" => Some(pause(&only.node, report).unwrap_or_default()),
            _ => None,
        },
        _ => None,
    }
}

fn pause(node: &Node, report: &mut Report<'_>) -> Option<Duration> {
    let mut fields = Fields::of(node, "`sleep`", report)?;
    let length = fields.count("sleep_in_milli_seconds", report);
    fields.finish(report);
    length.filter(|length| *length > 0).map(Duration::from_millis)
}

/// Reads what stands under `request`.
struct Draft<'d, 'r> {
    scope: Scope<'d>,
    variables: &'d Variables,
    runner: &'d Runner,
    report: &'d mut Report<'r>,
}

impl<'d> Draft<'d, '_> {
    fn read(
        fields: &mut Fields<'_>,
        around: &mut Surroundings<'_>,
        report: &mut Report<'_>,
    ) -> Option<Request> {
        let simple = fields.flag("simple_mode", report);
        // Of earlier versions of Loadgen, which had to be told where to look for templates.
        fields.flag("has_variable", report);
        let (once_names, once) = runtime(fields, "runtime_variables", around.variables, report);
        let (line_names, line) =
            runtime(fields, "runtime_body_line_variables", around.variables, report);
        if let Some(node) = fields.take("disable_header_names_normalizing") {
            report.warning(node.span, "has no effect: header names are always sent as written");
        }
        let (scoped, body_names) = (once_names.as_slice(), line_names.as_slice());
        let mut draft = Draft {
            scope: Scope {
                line: body_names,
                once: scoped,
                registered: around.registered,
                variables: around.variables,
            },
            variables: around.variables,
            runner: around.runner,
            report,
        };
        draft.request(fields, simple, (once, line), around.targets)
    }

    fn request(
        &mut self,
        fields: &mut Fields<'_>,
        simple: bool,
        (once, line): (Vec<VariableId>, Vec<VariableId>),
        targets: &mut Vec<String>,
    ) -> Option<Request> {
        let method = self.method(fields);
        let url = fields.required("url", self.report);
        let auth = credentials(fields.take("basic_auth"), self.report);
        let body = self.body(fields, simple);
        let body_repeats = self.repeats(fields, "body_repeat_times");
        let repeats = self.repeats(fields, "execute_repeat_times");
        let headers = self.headers(fields, simple);
        let ((text, span), (method_text, method)) = (url?, method?);
        let url = Url::read((text, span), self.runner.default_endpoint.as_ref(), self.report)?;
        let head = self.head((&method_text, &url), span, simple);
        let mut lines = vec![self.host_and_agent(&url, &headers)];
        if body.is_some() && !headers.names("content-type") {
            let line = "Content-Type: application/json\r\n";
            lines.push(Template::literal(line, Place::Body));
        }
        let auth = auth.or_else(|| url.credentials.clone());
        let auth = auth.or_else(|| self.runner.default_basic_auth.clone());
        if let Some((user, password)) = auth.filter(|_| !headers.names("authorization")) {
            lines.push(Template::literal(&basic(&user, &password), Place::Body));
        }
        lines.extend(headers.templates);
        let words = format!("{method_text} {text}");
        let mut request = Request {
            method,
            words,
            target: target(targets, &url.origin),
            head,
            fields: lines,
            body,
            body_repeats,
            constant: None,
            repeats,
            once,
            line,
            assert: None,
            register: Vec::new(),
            pause: None,
            pause_before: None,
        };
        request.fix(self.variables);
        Some(request)
    }

    fn method(&mut self, fields: &mut Fields<'_>) -> Option<(String, Method)> {
        let Some((text, span)) = fields.text("method", self.report) else {
            return Some(("GET".to_owned(), Method::Get));
        };
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if text.is_empty() || !text.bytes().all(token) {
            self.report.error(span, "this is no method");
            return None;
        }
        let method = Method::of(text.as_bytes());
        if method == Method::Connect {
            self.report.error(span, "CONNECT makes a tunnel, which a script cannot use");
            return None;
        }
        Some((text.to_owned(), method))
    }

    fn repeats(&mut self, fields: &mut Fields<'_>, name: &'static str) -> u64 {
        let times = fields.count(name, self.report).unwrap_or(1);
        if times > REPEATS {
            self.report.error(fields.span, format!("`{name}` is at most {REPEATS}"));
        }
        // 0 is what Loadgen's own files say for "once".
        times.clamp(1, REPEATS)
    }

    fn body(&mut self, fields: &mut Fields<'_>, simple: bool) -> Option<Template> {
        let body = fields.text("body", self.report)?;
        if simple {
            self.report.warning(body.1, "`simple_mode` sends no body");
            return None;
        }
        (!body.0.is_empty()).then(|| Template::new(body, Place::Body, &self.scope, self.report))
    }

    fn head(&mut self, (method, url): (&str, &Url), span: Span, simple: bool) -> Template {
        let line = format!("{method} ");
        let mut head = Template::literal(&line, Place::Body);
        let target = match simple {
            true => Template::literal(&url.target, Place::Target),
            false => {
                Template::new((&url.target, span), Place::Target, &self.body_free(), self.report)
            }
        };
        head.append(target);
        head.append(Template::literal(" HTTP/1.1\r\n", Place::Body));
        head
    }

    /// The scope outside the body, where no copy of it is being made.
    const fn body_free(&self) -> Scope<'d> {
        Scope {
            line: &[],
            once: self.scope.once,
            registered: self.scope.registered,
            variables: self.scope.variables,
        }
    }

    fn headers(&mut self, fields: &mut Fields<'_>, simple: bool) -> Headers {
        let mut headers = Headers { names: Vec::new(), templates: Vec::new() };
        for pair in fields.pairs("headers", self.report) {
            let token =
                |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if pair.key.is_empty() || !pair.key.bytes().all(token) {
                self.report.error(pair.span, "this is no name of a header");
                continue;
            }
            let name = pair.key.to_ascii_lowercase();
            if matches!(name.as_str(), "content-length" | "transfer-encoding") {
                self.report.warning(pair.span, "is not sent: the body's real length is");
                continue;
            }
            let value = match pair.node.is_null() {
                true => "",
                false => match text(&pair.node, &pair.key, self.report) {
                    Some(value) => value,
                    None => continue,
                },
            };
            let mut line = Template::literal(&format!("{}: ", pair.key), Place::Field);
            line.append(match simple {
                true => Template::literal(value, Place::Field),
                false => Template::new(
                    (value, pair.node.span),
                    Place::Field,
                    &self.body_free(),
                    self.report,
                ),
            });
            line.append(Template::literal("\r\n", Place::Body));
            headers.names.push(name);
            headers.templates.push(line);
        }
        headers
    }

    fn host_and_agent(&self, url: &Url, headers: &Headers) -> Template {
        let mut lines = String::new();
        if !headers.names("host") {
            lines.push_str(&format!("Host: {}\r\n", url.authority));
        }
        if !headers.names("user-agent") {
            lines.push_str(concat!("User-Agent: sluice/", env!("CARGO_PKG_VERSION"), "\r\n"));
        }
        Template::literal(&lines, Place::Body)
    }
}

struct Headers {
    /// In small letters.
    names: Vec<String>,
    templates: Vec<Template>,
}

impl Headers {
    fn names(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }
}

impl Request {
    /// Renders the request once and for all if nothing in it changes.
    fn fix(&mut self, variables: &Variables) {
        let changes = !self.head.is_constant()
            || !self.fields.iter().all(Template::is_constant)
            || !self.body.as_ref().is_none_or(Template::is_constant);
        if changes {
            return;
        }
        // Variables of a request without a template are not evaluated, so that a sequence stands still.
        self.once.clear();
        self.line.clear();
        let mut values = Values::new(0);
        let (mut out, mut body) = (Vec::new(), Vec::new());
        self.write(variables, &mut values, (&mut out, &mut body));
        self.constant = Some(out.into());
    }
}

/// `runtime_variables` and their like: names with the variable each takes a value of.
fn runtime(
    fields: &mut Fields<'_>,
    section: &'static str,
    variables: &Variables,
    report: &mut Report<'_>,
) -> (Vec<String>, Vec<VariableId>) {
    let (mut names, mut ids) = (Vec::new(), Vec::new());
    for pair in fields.pairs(section, report) {
        let Some(source) = text(&pair.node, section, report) else { continue };
        if names.contains(&pair.key) {
            report.error(pair.span, format!("`{}` is written twice", pair.key));
        }
        match variables.used(source, report) {
            Some(id) => {
                names.push(pair.key.clone());
                ids.push(id);
            }
            None => {
                report.error(pair.node.span, format!("no variable is called `{source}`"));
                // Known all the same, so that its uses are no second problem.
                names.push(pair.key.clone());
                ids.push(0);
            }
        }
    }
    (names, ids)
}

fn target(targets: &mut Vec<String>, origin: &str) -> u32 {
    let known = targets.iter().position(|target| target == origin);
    let index = known.unwrap_or_else(|| {
        targets.push(origin.to_owned());
        targets.len().saturating_sub(1)
    });
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn basic(user: &str, password: &str) -> String {
    let mut code = Vec::new();
    push_base64(&mut code, format!("{user}:{password}").as_bytes());
    format!("Authorization: Basic {}\r\n", String::from_utf8_lossy(&code))
}
