//! Looks up requests in a table of many routes, to be run under callgrind: `count KIND ROUTES FINDS`.
//!
//! Instructions for one look-up are the difference between two runs with different FINDS:
//! `valgrind --tool=callgrind target/release/examples/count exact 10000 100000`.
//! Kinds: root, exact, prefix, template, host, wildcard, header; mixed has routes of all kinds and asks
//! for an exact path of any host.

use std::env;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use sluice_message::{RequestHead, Span};
use sluice_route::{HostSpec, Match, PathSpec, RouteSpec, Table, ValueSpec};

fn main() -> Result<(), String> {
    let mut arguments = env::args().skip(1);
    let kind = arguments.next().unwrap_or_else(|| "exact".to_owned());
    let mut number = |otherwise: usize| match arguments.next() {
        Some(text) => text.parse::<usize>().map_err(|error| format!("{text}: {error}")),
        None => Ok(otherwise),
    };
    let (routes, finds) = (number(1)?, number(100_000)?);
    let specs = (0..routes).map(|at| route(&kind, at)).collect::<Result<Vec<_>, _>>()?;
    let table = Table::build(specs).map_err(|error| error.to_string())?;
    // Requests from all over the table, so that no look-up profits from the one before.
    // Of mixed kinds, every fifth is an exact path.
    let step = if kind == "mixed" { 5 } else { 1 };
    let wanted: Vec<usize> = (0..64).map(|at| at * 7_919 * step % routes).collect();
    let heads = wanted.iter().map(|&at| request(&kind, at)).collect::<Result<Vec<_>, _>>()?;
    let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
    for (head, &at) in heads.iter().zip(&wanted) {
        let found = table.find(head, client);
        if found != Match::Found(at) {
            return Err(format!("route {at} was not found but {found:?}"));
        }
    }
    for head in heads.iter().cycle().take(finds) {
        black_box(table.find(black_box(head), client));
    }
    Ok(())
}

fn route(kind: &str, at: usize) -> Result<RouteSpec, String> {
    if kind == "mixed" {
        let kinds = ["exact", "prefix", "template", "host", "wildcard"];
        return route(kinds.get(at % 5).copied().unwrap_or_default(), at);
    }
    let path = match kind {
        "root" | "host" | "wildcard" | "header" => PathSpec::Prefix("/".to_owned()),
        "exact" => PathSpec::Exact(format!("/service/{at}")),
        "prefix" => PathSpec::Prefix(format!("/service/{at}/")),
        "template" => PathSpec::Template(format!("/service/{at}/users/{{id}}")),
        _ => return Err(format!("no such kind: {kind}")),
    };
    let mut spec = RouteSpec::new(path);
    match kind {
        "host" => spec.hosts.push(HostSpec::Exact(format!("host{at}.example.com"))),
        "wildcard" => spec.hosts.push(HostSpec::Wildcard(format!(".host{at}.example.com"))),
        "header" => spec.headers.push(("user-agent".to_owned(), ValueSpec::Present)),
        _ => {}
    }
    Ok(spec)
}

fn request(kind: &str, at: usize) -> Result<RequestHead, String> {
    let kind = if kind == "mixed" { "exact" } else { kind };
    let path = match kind {
        "exact" => format!("/service/{at}"),
        "prefix" | "template" => format!("/service/{at}/users/42"),
        _ => "/".to_owned(),
    };
    let host = match kind {
        "host" => format!("host{at}.example.com"),
        "wildcard" => format!("www.host{at}.example.com"),
        _ => "127.0.0.1:8080".to_owned(),
    };
    let mut head = RequestHead::new();
    let mut add = |text: &[u8]| -> Result<Span, String> {
        head.fields.append(text).map_err(|_| "no space".to_owned())
    };
    let (method, path, authority) = (add(b"GET")?, add(path.as_bytes())?, add(host.as_bytes())?);
    (head.method_text, head.path, head.authority) = (method, path, authority);
    for (name, value) in [("Host", host.as_str()), ("User-Agent", "count"), ("Accept", "*/*")] {
        let pushed = head.fields.push(name.as_bytes(), value.as_bytes());
        pushed.map_err(|_| "no space".to_owned())?;
    }
    Ok(head)
}
