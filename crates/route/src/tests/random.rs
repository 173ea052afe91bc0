//! Random routes and requests: the table must answer as the plainest matcher does.

use std::cmp::Reverse;
use std::net::IpAddr;

use sluice_message::RequestHead;

use super::{answer, request};
use crate::{HostSpec, IpNet, PathSpec, RouteSpec, Table, ValueSpec};

/// Numbers that look random and repeat with their seed (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(high).unwrap() % limit
    }

    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }
}

/// Few words, so that routes overlap and requests hit.
const SEGMENTS: [&str; 7] = ["a", "b", "ab", "abc", "users", "us", "1"];
const HOSTS: [&str; 7] =
    ["example.com", "a.example.com", "b.a.example.com", "A.Example.Com.", "x.org", "com", "[::1]"];
const METHODS: [&str; 5] = ["GET", "HEAD", "POST", "PURGE", "BREW"];
const REGEXES: [&str; 5] = ["^/a", "b$", "^/[a-z]+/[0-9]+$", "users", "^/$"];
const CLIENTS: [&str; 4] = ["10.0.0.1", "::ffff:10.0.0.1", "192.0.2.1", "2001:db8::1"];
const NETWORKS: [&str; 4] = ["10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32", "192.0.2.0/25"];

fn random_path(dice: &mut Dice, parameters: bool) -> String {
    let mut path = String::new();
    for place in 0..dice.below(4) {
        path.push('/');
        if parameters && dice.one_in(2) {
            path.push_str(&format!("{{p{place}}}"));
        } else {
            path.push_str(dice.pick(&SEGMENTS));
        }
    }
    if path.is_empty() || dice.one_in(3) {
        path.push('/');
    }
    path
}

fn random_route(dice: &mut Dice) -> RouteSpec {
    let path = match dice.below(7) {
        0 | 1 => PathSpec::Exact(random_path(dice, false)),
        2 | 3 => PathSpec::Prefix(random_path(dice, false)),
        4 | 5 => PathSpec::Template(random_path(dice, true)),
        _ => PathSpec::Regex(dice.pick(&REGEXES).to_owned()),
    };
    let mut spec = RouteSpec::new(path);
    while dice.one_in(2) {
        let host = dice.pick(&HOSTS).to_owned();
        spec.hosts.push(match dice.below(2) {
            0 if !host.starts_with('[') => HostSpec::Wildcard(format!(".{host}")),
            _ => HostSpec::Exact(host),
        });
    }
    while dice.one_in(3) {
        spec.methods.push(dice.pick(&METHODS).to_owned());
    }
    let value = |dice: &mut Dice| match dice.below(3) {
        0 => ValueSpec::Present,
        1 => ValueSpec::Regex("^[0-4]".to_owned()),
        _ => ValueSpec::Exact(dice.below(8).to_string()),
    };
    if dice.one_in(6) {
        spec.headers.push(("x-h".to_owned(), value(dice)));
    }
    if dice.one_in(6) {
        spec.queries.push(("q".to_owned(), value(dice)));
    }
    if dice.one_in(6) {
        spec.cookies.push(("c".to_owned(), value(dice)));
    }
    if dice.one_in(6) {
        spec.clients.push(dice.pick(&NETWORKS).parse().unwrap());
    }
    spec
}

fn random_request(dice: &mut Dice) -> RequestHead {
    let host = dice.pick(&HOSTS);
    let port = dice.pick(&["", ":80"]);
    let path = random_path(dice, false);
    let query = dice.below(8);
    let line = format!("{} {host}{port}{path}?q={query}", dice.pick(&METHODS));
    let header = dice.below(8).to_string();
    let cookie = format!("z=0; c={}", dice.below(8));
    request(&line, &[("X-H", &header), ("Cookie", &cookie)])
}

/// Where a route stands among those that match host and path: lowest first, then by index.
type Rank = (Reverse<usize>, usize, Vec<usize>);

/// The host part of the rank: exact hosts before wildcards, the longest first.
fn host_ranks(spec: &RouteSpec, host: &str) -> Vec<Reverse<usize>> {
    if spec.hosts.is_empty() {
        return vec![Reverse(0)];
    }
    let fits = |wanted: &HostSpec| {
        let (HostSpec::Exact(text) | HostSpec::Wildcard(text)) = wanted;
        let text = text.trim_end_matches('.').to_ascii_lowercase();
        match wanted {
            HostSpec::Exact(_) => (text == host).then_some(Reverse(1000)),
            HostSpec::Wildcard(_) => {
                let below = host.len() > text.len() && host.ends_with(&text);
                below.then_some(Reverse(text.len()))
            }
        }
    };
    spec.hosts.iter().filter_map(fits).collect()
}

/// The path part of the rank, if the path fits.
fn path_rank(spec: &PathSpec, path: &str) -> Option<(usize, Vec<usize>)> {
    match spec {
        PathSpec::Exact(text) => (text == path).then_some((0, vec![])),
        PathSpec::Prefix(text) => {
            let fits = path.starts_with(text.as_str()) || format!("{path}/") == *text;
            fits.then(|| (2, vec![1000 - text.len()]))
        }
        PathSpec::Regex(text) => {
            regex::Regex::new(text).unwrap().is_match(path).then_some((3, vec![]))
        }
        PathSpec::Template(text) => {
            let (wanted, have): (Vec<_>, Vec<_>) =
                (text.split('/').collect(), path.split('/').collect());
            let parameter = |segment: &str| segment.starts_with('{');
            let fits = wanted.len() == have.len()
                && wanted.iter().zip(&have).all(|(wanted, have)| {
                    if parameter(wanted) { !have.is_empty() } else { wanted == have }
                });
            let shape: Vec<usize> = wanted.iter().map(|w| usize::from(parameter(w))).collect();
            let parameters: usize = shape.iter().sum();
            // A template without parameters is an exact path.
            let rank = usize::from(parameters > 0);
            fits.then(|| (rank, [vec![parameters], shape].concat()))
                .map(|(rank, key)| if rank == 0 { (0, vec![]) } else { (rank, key) })
        }
    }
}

fn holds(spec: &ValueSpec, value: &str) -> bool {
    match spec {
        ValueSpec::Exact(text) => text == value,
        ValueSpec::Regex(text) => regex::Regex::new(text).unwrap().is_match(value),
        ValueSpec::Present => true,
    }
}

fn conditions_hold(spec: &RouteSpec, head: &RequestHead, client: IpAddr) -> bool {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let header = text(head.fields.values_of(b"x-h").next().unwrap());
    let query = text(head.query()).replace("q=", "");
    let cookie = text(head.fields.values_of(b"cookie").next().unwrap()).replace("z=0; c=", "");
    let within = |network: &IpNet| network.contains(&client.to_canonical());
    spec.headers.iter().all(|(_, wanted)| holds(wanted, &header))
        && spec.queries.iter().all(|(_, wanted)| holds(wanted, &query))
        && spec.cookies.iter().all(|(_, wanted)| holds(wanted, &cookie))
        && (spec.clients.is_empty() || spec.clients.iter().any(within))
}

/// Looks at every route, sorts those that fit, asks each for its method.
fn reference(specs: &[RouteSpec], head: &RequestHead, client: IpAddr) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let host = text(head.host()).trim_end_matches('.').to_ascii_lowercase();
    let (path, method) = (text(head.path()), text(head.method_text()));
    let mut fitting: Vec<(Rank, usize)> = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        let Some((kind, detail)) = path_rank(&spec.path, &path) else { continue };
        if !conditions_hold(spec, head, client) {
            continue;
        }
        for host in host_ranks(spec, &host) {
            fitting.push(((host, kind, detail.clone()), index));
        }
    }
    fitting.sort();
    let allows = |spec: &RouteSpec, method: &str| {
        spec.methods.is_empty()
            || spec.methods.iter().any(|m| m == method || (m == "GET" && method == "HEAD"))
    };
    if let Some((_, index)) = fitting.iter().find(|(_, index)| allows(&specs[*index], &method)) {
        return index.to_string();
    }
    if fitting.is_empty() {
        return "404".to_owned();
    }
    // Extensions stand in the order in which the routes first name them.
    let mut order = vec!["GET", "HEAD", "POST"];
    for method in specs.iter().flat_map(|spec| &spec.methods) {
        if !order.contains(&method.as_str()) {
            order.push(method);
        }
    }
    order.retain(|method| {
        let allowed = |&(_, index): &(Rank, usize)| allows(&specs[index], method);
        fitting.iter().any(allowed)
    });
    format!("405 {}", order.join(", "))
}

#[test]
fn the_table_answers_as_the_plainest_matcher() {
    let mut answers = [0_usize; 3];
    for seed in 1..=1_500_u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let specs: Vec<RouteSpec> =
            (0..dice.below(24) + 1).map(|_| random_route(&mut dice)).collect();
        let table = Table::build(specs.clone()).unwrap();
        for _ in 0..40 {
            let head = random_request(&mut dice);
            let client = dice.pick(&CLIENTS).parse().unwrap();
            let expected = reference(&specs, &head, client);
            let got = answer(table.find(&head, client));
            assert_eq!(got, expected, "seed {seed}: {head:?} from {client} among {specs:#?}");
            let kind = if expected == "404" { 0 } else { 1 + usize::from(expected.len() > 3) };
            answers[kind] += 1;
        }
    }
    assert!(answers.iter().all(|&count| count > 1_000), "every kind of answer: {answers:?}");
}
