//! A file that lists servers of an upstream.

use super::server::{SERVER, Scheme, Server, items, read_server};
use crate::address::ServerAddress;
use crate::environment;
use crate::fields::Fields;
use crate::place::Span;
use crate::problem::{Flaw, Problems};
use crate::report::Report;
use crate::section::{Key, Kind, Preset, Section};
use crate::source::Source;
use crate::tree::{Node, Value};

/// Servers of one file. Every worker goes through all of them when one comes or goes.
const MOST: usize = 10_000;

/// What such a file may be beside a bare list, which TOML does not have.
static LIST: Section = Section {
    name: "list of servers",
    doc: "The servers of an upstream, in a file of their own.",
    keys: &[Key {
        name: "servers",
        kind: Kind::Shorts("server address", &SERVER),
        preset: Preset::Required,
        doc: "the servers, written as in an upstream: servers = [\"127.0.0.1:9001\"]",
    }],
};

/// The servers a file lists: a list (in YAML and JSON), or a table with `servers`, written as in an
/// upstream. It may be empty. `environment` looks variables up.
///
/// # Errors
/// All problems of the file, in the order of its text.
pub fn parse_servers(
    source: &Source<'_>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Server>, Problems> {
    let report = Report::new(source.name, source.body());
    let Some(mut document) = crate::read_tree(source, &report) else {
        return Err(report.into_problems());
    };
    environment::expand(&mut document, environment, &report);
    let servers = read_list(&document, &report);
    match report.has_errors() {
        true => Err(report.into_problems()),
        false => Ok(servers),
    }
}

fn read_list(document: &Node, report: &Report<'_>) -> Vec<Server> {
    let (list, place) = match &document.value {
        Value::List(list) => (list.as_slice(), document.span),
        Value::Table(_) => {
            let fields = Fields::open(Some(document), Span::default(), &LIST, report);
            let Some(entry) = fields.entry("servers") else { return Vec::new() };
            (items(&entry.node), entry.span)
        }
        _ => {
            let message = format!("a list of servers is a list, this is {}", document.kind());
            report.error(document.span, Flaw::new(message));
            return Vec::new();
        }
    };
    if list.len() > MOST {
        let flaw = Flaw::new(format!("these are {} servers, more than {MOST}", list.len()));
        report.error(place, flaw);
        return Vec::new();
    }
    let read = |item: &Node| {
        let server = read_server(item, report)?;
        if matches!(server.address, ServerAddress::File(_)) {
            let flaw = Flaw::new("a list of servers cannot name another one")
                .with_help("name both in the `servers` of the upstream");
            report.error(item.span, flaw);
        }
        if server.scheme == Scheme::Https {
            let flaw = Flaw::new("a list of servers says nothing about encryption")
                .with_help("leave \"https://\" out, and write tls = {} at the upstream");
            report.error(item.span, flaw);
        }
        Some(server)
    };
    list.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Format;
    use crate::upstream::Role;

    fn read(name: &str, text: &str) -> Result<Vec<Server>, Problems> {
        let format = Format::of_path(name);
        let port = |name: &str| (name == "PORT").then(|| "8080".to_owned());
        parse_servers(&Source { name, text, format }, &port)
    }

    fn shown(name: &str, text: &str) -> Result<Vec<(String, u32)>, String> {
        let servers = read(name, text).map_err(|problems| problems.to_string())?;
        Ok(servers.iter().map(|it| (it.address.to_string(), it.weight)).collect())
    }

    #[test]
    fn the_same_list_in_every_notation() {
        let rows = [
            ("a.toml", "servers = ['10.0.0.1:80', { address = 'h.test:${PORT}', weight = 3 }]"),
            (
                "a.toml",
                "[[servers]]\naddress = '10.0.0.1:80'\n[[servers]]\naddress = 'h.test:8080'\nweight = 3",
            ),
            ("a.yaml", "- 10.0.0.1:80\n- address: h.test:8080\n  weight: 3\n"),
            ("a.json", "[\"10.0.0.1:80\", {\"address\": \"h.test:8080\", \"weight\": 3}]"),
            (
                "a.json",
                "{\"servers\":[\"10.0.0.1:80\",{\"address\":\"h.test:8080\",\"weight\":3}]}",
            ),
            (
                "a.json",
                "{\r\n\t\"servers\" : [\r\n\t\t\"10.0.0.1:80\",\r\n\t\t{\r\n\t\t\t\"address\":\"h.test:8080\",\r\n\
                 \t\t\t\"weight\":3\r\n\t\t}\r\n\t]\r\n}\r\n",
            ),
        ];
        let expected = Ok(vec![("10.0.0.1:80".to_owned(), 1), ("h.test:8080".to_owned(), 3)]);
        for (name, text) in rows {
            assert_eq!(shown(name, text), expected, "{name}: {text}");
        }
    }

    #[test]
    fn an_empty_list_is_a_list_and_an_empty_file_is_none() {
        for (name, text) in
            [("a.toml", "servers = []"), ("a.json", "[]"), ("a.yaml", "servers: []")]
        {
            assert_eq!(shown(name, text), Ok(Vec::new()), "{name}");
        }
        for name in ["a.toml", "a.json", "a.yaml"] {
            assert!(shown(name, "").is_err(), "{name}");
        }
    }

    #[test]
    fn problems_have_their_place() {
        let rows = [
            (
                "a.toml",
                "servers = [\n  '10.0.0.1:80',\n  '10.0.0.2',\n]",
                "a.toml:3:3",
                "has no port",
            ),
            ("a.toml", "servers = [{ address = 'a:1', weigth = 2 }]", "a.toml:1:31", "weigth"),
            ("a.toml", "server = ['a:1']", "a.toml:1:1", "unknown key `server`"),
            ("a.json", "[\"a:1\", {\"weight\": 2}]", "a.json:1:", "`address` is missing"),
            ("a.json", "[\"a:1\",", "a.json:1:", ""),
            ("a.json", "\"a:1\"", "a.json:1:1", "is a list, this is a text"),
            ("a.json", "[\"file:b.json\"]", "a.json:1:2", "cannot name another"),
            ("a.json", "[12]", "a.json:1:2", ""),
        ];
        for (name, text, place, said) in rows {
            let problems = shown(name, text).unwrap_err();
            assert!(problems.contains(place) && problems.contains(said), "{text}: {problems}");
            assert!(problems.contains('^'), "{problems}");
        }
    }

    #[test]
    fn a_list_has_an_end() {
        let list = |count: usize| format!("[{}]", vec!["\"10.0.0.1:80\""; count].join(","));
        assert_eq!(read("a.json", &list(MOST)).unwrap().len(), MOST);
        let problems = shown("a.json", &list(MOST + 1)).unwrap_err();
        assert!(problems.contains("10001 servers, more than 10000"), "{problems}");
    }

    #[test]
    fn what_is_said_of_a_list_goes_for_its_servers() {
        let servers = read("a.json", "[\"a:1\", {\"address\": \"b:1\", \"weight\": 3}]").unwrap();
        let most = Some(5);
        let list =
            Server { weight: 2, role: Role::Backup, max_connections: most, ..servers[0].clone() };
        let listed: Vec<Server> = servers.iter().map(|it| it.of_list(&list)).collect();
        assert_eq!(listed.iter().map(|it| it.weight).collect::<Vec<_>>(), [2, 6]);
        assert!(listed.iter().all(|it| it.role == Role::Backup && it.max_connections == most));
        let own = Server { max_connections: Some(9), ..servers[0].clone() };
        assert_eq!(own.of_list(&list).max_connections, Some(9), "its own goes before");
    }
}
