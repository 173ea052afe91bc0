//! Byte scripts as data: what is sent, what must come back, and why.
//!
//! ```text
//! # a comment
//! case: both framings
//! why: RFC 9112 6.3: Content-Length beside Transfer-Encoding is refused
//! > POST /echo HTTP/1.1          a line and its CRLF
//! | 0\r\n\r\n                    bytes as they are, no CRLF; escapes \r \n \t \0 \\ \xHH
//! > X: {a*9000}                  a byte repeated; {a..z*N} repeats a piece of text
//! shut                           the client sends FIN here
//! continue                       the client waits for `100 Continue` here
//! = 400 closed                   statuses in their order, then what becomes of the connection;
//! = 200x3 open                   a further line is another outcome that the rule allows
//! asks: HEAD GET                 methods of the requests that are answered; GET when not said
//! has: 1 Allow: GET              the first answer has this field with this value
//! lacks: 1 Date                  the first answer has no such field
//! body: 2 text                   the second answer's body is this text (same escapes)
//! interim: 1 100                 1xx statuses before the first answer
//! origin: 1                      so many complete requests reach the origin; none when not said and
//!                                every outcome is a single refusal
//! ```

use crate::response::Asked;

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// A further request is answered.
    Open,
    /// FIN.
    Closed,
    /// RST: the gateway gives up on a client that has gone.
    Reset,
    /// 101 has made it a tunnel; nothing is looked at afterwards.
    Tunnel,
}

/// Something more that an answer must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// It has this field with this value.
    Has(String, String),
    /// It has no field of this name.
    Lacks(String),
    /// Its body is this.
    Body(Vec<u8>),
    /// These interim answers came before it.
    Interim(Vec<u16>),
}

/// A step of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends FIN.
    Shut,
    /// Waits for `100 Continue`.
    Continue,
}

/// How a script may end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The statuses that come back.
    pub statuses: Vec<u16>,
    /// What becomes of the connection.
    pub then: Then,
}

/// One script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// What it is called in a failure.
    pub name: String,
    /// The line of the file it begins at, for finding it.
    pub line: usize,
    /// The rule that demands the outcome.
    pub why: String,
    /// What the client does.
    pub steps: Vec<Step>,
    /// What may come of it, in most cases one thing.
    pub outcomes: Vec<Outcome>,
    /// What the answers belong to; beyond its end [`Asked::Get`].
    pub asks: Vec<Asked>,
    /// Checks of the answer with this index, counted from 0.
    pub checks: Vec<(usize, Check)>,
    /// How many complete requests reach the origin, when it matters.
    pub origin: Option<usize>,
}

impl Case {
    /// What the answer with this index, counted from 0, belongs to.
    #[must_use]
    pub fn asked(&self, index: usize) -> Asked {
        self.asks.get(index).copied().unwrap_or(Asked::Get)
    }
}

/// Reads a file of cases.
///
/// # Errors
/// The line and what is wrong with it.
pub fn parse(text: &str) -> Result<Vec<Case>, String> {
    let mut cases: Vec<Case> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("case: ") {
            cases.push(Case::begin(name, number));
            continue;
        }
        let case = cases.last_mut().ok_or(format!("line {number}: before the first case"))?;
        case.take(line).map_err(|why| format!("line {number}: {why}"))?;
    }
    cases.into_iter().map(Case::finish).collect()
}

impl Case {
    fn begin(name: &str, line: usize) -> Self {
        Self {
            name: name.trim().to_owned(),
            line,
            why: String::new(),
            steps: Vec::new(),
            outcomes: Vec::new(),
            asks: Vec::new(),
            checks: Vec::new(),
            origin: None,
        }
    }

    fn take(&mut self, line: &str) -> Result<(), String> {
        if line == ">" {
            self.send(b"\r\n".to_vec());
        } else if let Some(text) = line.strip_prefix("> ") {
            let mut bytes = unescape(text)?;
            bytes.extend_from_slice(b"\r\n");
            self.send(bytes);
        } else if let Some(text) = line.strip_prefix("| ") {
            self.send(unescape(text)?);
        } else if line == "shut" {
            self.steps.push(Step::Shut);
        } else if line == "continue" {
            self.steps.push(Step::Continue);
        } else if let Some(text) = line.strip_prefix("= ") {
            self.expect(text)?;
        } else {
            let (key, value) = line.split_once(": ").ok_or("neither bytes nor `key: value`")?;
            self.set(key, value)?;
        }
        Ok(())
    }

    fn send(&mut self, bytes: Vec<u8>) {
        match self.steps.last_mut() {
            Some(Step::Send(sent)) => sent.extend_from_slice(&bytes),
            _ => self.steps.push(Step::Send(bytes)),
        }
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let then = match words.pop() {
            Some("open") => Then::Open,
            Some("closed") => Then::Closed,
            Some("reset") => Then::Reset,
            Some("tunnel") => Then::Tunnel,
            _ => return Err("an outcome ends in open, closed, reset or tunnel".to_owned()),
        };
        let mut statuses = Vec::new();
        for word in words {
            let (status, times) = word.split_once('x').unwrap_or((word, "1"));
            statuses.extend(vec![parse_number::<u16>(status)?; parse_number(times)?]);
        }
        self.outcomes.push(Outcome { statuses, then });
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "why" => value.clone_into(&mut self.why),
            "origin" => self.origin = Some(parse_number(value)?),
            "asks" => self.asks = value.split_whitespace().map(asked).collect(),
            "has" | "lacks" | "body" | "interim" => {
                let (which, rest) = value.split_once(' ').unwrap_or((value, ""));
                let index: usize = parse_number(which)?;
                let index = index.checked_sub(1).ok_or("answers are counted from 1")?;
                self.checks.push((index, check(key, rest)?));
            }
            other => return Err(format!("unknown key {other}")),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Self, String> {
        let place = format!("line {}: case {}", self.line, self.name);
        if self.why.is_empty() {
            return Err(format!("{place}: no `why:`"));
        }
        if self.steps.is_empty() {
            return Err(format!("{place}: sends nothing"));
        }
        let longest = self.outcomes.iter().map(|outcome| outcome.statuses.len()).max();
        let Some(longest) = longest else { return Err(format!("{place}: no `=` line")) };
        if self.checks.iter().any(|(index, _)| *index >= longest) {
            return Err(format!("{place}: a check of an answer that is not expected"));
        }
        let refused = |outcome: &Outcome| outcome.statuses.iter().all(|status| *status >= 400);
        if self.origin.is_none() && longest <= 1 && self.outcomes.iter().all(refused) {
            self.origin = Some(0);
        }
        Ok(self)
    }
}

fn asked(method: &str) -> Asked {
    match method {
        "HEAD" => Asked::Head,
        "CONNECT" => Asked::Connect,
        _ => Asked::Get,
    }
}

fn parse_number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.trim().parse().map_err(|_| format!("not a number: {text}"))
}

fn check(key: &str, text: &str) -> Result<Check, String> {
    match key {
        "has" => {
            let (name, value) = text.split_once(':').ok_or("a field is `Name: value`")?;
            Ok(Check::Has(name.trim().to_owned(), value.trim().to_owned()))
        }
        "lacks" => Ok(Check::Lacks(text.trim().to_owned())),
        "body" => Ok(Check::Body(unescape(text)?)),
        _ => {
            Ok(Check::Interim(text.split_whitespace().map(parse_number).collect::<Result<_, _>>()?))
        }
    }
}

/// Text with `\r \n \t \0 \\ \{ \xHH` and `{text*N}` to bytes.
fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '{']) {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let special = &rest[at..];
        let (piece, used) =
            if special.starts_with('{') { repeat(special)? } else { escape(special)? };
        bytes.extend_from_slice(&piece);
        rest = &special[used..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

fn escape(text: &str) -> Result<(Vec<u8>, usize), String> {
    let byte = match text.as_bytes().get(1) {
        Some(b'r') => b'\r',
        Some(b'n') => b'\n',
        Some(b't') => b'\t',
        Some(b'0') => 0,
        Some(b's') => b' ',
        Some(b'\\') => b'\\',
        Some(b'{') => b'{',
        Some(b'x') => {
            let digits = text.get(2..4).ok_or("\\x wants two digits")?;
            let byte = u8::from_str_radix(digits, 16).map_err(|_| format!("\\x{digits}"))?;
            return Ok((vec![byte], 4));
        }
        _ => return Err(format!("unknown escape in {text}")),
    };
    Ok((vec![byte], 2))
}

fn repeat(text: &str) -> Result<(Vec<u8>, usize), String> {
    let end = text.find('}').ok_or("a { without }; write \\{")?;
    let (piece, count) = text[1..end].rsplit_once('*').ok_or("{text*count}")?;
    let count: usize = parse_number(count)?;
    Ok((unescape(piece)?.repeat(count), end + 1))
}

#[cfg(test)]
mod tests {
    use super::{Asked, Check, Outcome, Step, Then, parse, unescape};

    #[test]
    fn reads_a_case_with_everything() {
        let text = "# words\ncase: one\nwhy: because\n> GET / HTTP/1.1\n>\n| a\\x00\\n\nshut\n\
            = 200 400 closed\nasks: HEAD\nhas: 1 Allow: GET\nbody: 2 x\\ty\norigin: 0\n";
        let cases = parse(text).unwrap();
        let case = &cases[0];
        assert_eq!(case.steps[0], Step::Send(b"GET / HTTP/1.1\r\n\r\na\0\n".to_vec()));
        assert_eq!(case.steps[1], Step::Shut);
        let outcome = Outcome { statuses: vec![200, 400], then: Then::Closed };
        assert_eq!(case.outcomes, [outcome]);
        assert_eq!((case.asked(0), case.asked(1)), (Asked::Head, Asked::Get));
        assert_eq!((case.origin, case.line), (Some(0), 2));
        assert_eq!(case.checks[0], (0, Check::Has("Allow".into(), "GET".into())));
        assert_eq!(case.checks[1], (1, Check::Body(b"x\ty".to_vec())));
    }

    #[test]
    fn a_refusal_reaches_no_origin() {
        let case = |end: &str| parse(&format!("case: a\nwhy: b\n> x\n{end}")).unwrap().remove(0);
        assert_eq!(case("= 400 closed\n= closed").origin, Some(0));
        assert_eq!(case("= 400 closed\norigin: 1").origin, Some(1));
        assert_eq!(case("= 400 closed\n= 200 open").origin, None);
        assert_eq!(case("= 200x3 400 closed").outcomes[0].statuses, [200, 200, 200, 400]);
    }

    #[test]
    fn refuses_nonsense() {
        let table = [
            "> GET",
            "case: a\nwhy: b\n> x",
            "case: a\nwhy: b\n= 200 open",
            "case: a\n> x\n= 200 open",
            "case: a\nwhy: b\n> x\n= yes open",
            "case: a\nwhy: b\n> x\n= 200",
            "case: a\nwhy: b\n> \\q\n= 200 open",
            "case: a\nwhy: b\n> {x\n= 200 open",
            "case: a\nwhy: b\n> x\nfoo: bar\n= 200 open",
            "case: a\nwhy: b\n> x\n= 200 open\nbody: 2 x",
        ];
        for text in table {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn repeats_and_escapes() {
        assert_eq!(unescape("{ab*3}\\{\\s").unwrap(), b"ababab{ ");
        assert_eq!(unescape("{\\x80*2}").unwrap(), [0x80, 0x80]);
    }
}
