//! `fetch`: requests that a script makes, to upstreams of the configuration.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use sluice_filter::{Fetch, FetchFault, Fetched, fetcher};
use sluice_message::{FieldId, Fields};

use super::fields;
use super::request::BODY;
use crate::frame::{Frame, Kind, Reply, native};
use crate::host::Host;
use crate::known::is_name;
use crate::tcp::{milliseconds, no_task};
use crate::vm;

native!(native_fetch, fetch);

/// How long all of it may take if the script does not say.
const TIMEOUT: Duration = Duration::from_secs(10);

/// `fetch(upstream, target, { method, headers, body, host, timeout, limit })`: the answer as a table of `status`,
/// `headers` and `body`, or nil and why there is none. It waits.
fn fetch(frame: &Frame<'_>) -> Reply {
    let Some(name) = frame.bytes(1).filter(|_| frame.kind(1) == Kind::String) else {
        return frame.raise("bad argument #1 to 'fetch': the name of an upstream is expected");
    };
    let name = String::from_utf8_lossy(name).into_owned();
    let host = frame.host().shared();
    let Some(id) = frame.task() else { return no_task(frame) };
    let Some(fetcher) = fetcher() else {
        return frame.raise("fetch: there are no upstreams here");
    };
    let Some(cluster) = fetcher.cluster(&name) else {
        let name = name.escape_debug();
        return frame.raise(&format!(
            "fetch: the configuration has no upstream \"{name}\": declare it as [upstream.{name}]"
        ));
    };
    let request = match made(frame, &host, cluster) {
        Ok(request) => request,
        Err(raised) => return raised,
    };
    let fetching = fetcher.fetch(request);
    sluice_net::spawn(async move {
        let fetched = fetching.await;
        vm::answer(&host, id, |frame| push(frame, fetched));
    });
    Reply::Wait
}

/// The request that the arguments are.
fn made(frame: &Frame<'_>, host: &Host, cluster: usize) -> Result<Fetch, Reply> {
    let target = frame.bytes(2).filter(|target| is_target(target));
    let Some(target) = target.map(<[u8]>::to_vec) else {
        return Err(frame.raise(
            "bad argument #2 to 'fetch': a path is expected, with its query, free of white space and '#'",
        ));
    };
    // What passed here once goes on with what is asked for its sake: it may lead back.
    let mut fields = Fields::new();
    let client = host.exchange.with(|exchange| {
        let view = exchange.view()?;
        for value in view.request.fields.values(FieldId::Via) {
            fields.push(b"via", value).ok()?;
        }
        Some(view.client)
    });
    let client = client.flatten();
    let mut request = Fetch {
        cluster,
        method: b"GET".to_vec(),
        target,
        host: Vec::new(),
        fields,
        body: Vec::new(),
        timeout: TIMEOUT,
        limit: BODY,
        client: client.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
    };
    match frame.kind(3) {
        Kind::Nil => {}
        Kind::Table => read_options(frame, &mut request)?,
        _ => return Err(frame.raise("bad argument #3 to 'fetch': a table is expected")),
    }
    Ok(request)
}

fn is_target(target: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b'#' || *byte >= 0x80;
    target.starts_with(b"/") && target.iter().all(plain)
}

fn read_options(frame: &Frame<'_>, request: &mut Fetch) -> Result<(), Reply> {
    frame.push_field(3, b"headers");
    let headers = frame.absolute(-1);
    match frame.kind(headers) {
        Kind::Nil => {}
        Kind::Table => fields::write_all(frame, &mut request.fields, (headers, "fetch"))?,
        _ => return Err(frame.raise("fetch: headers are a table")),
    }
    // The client's own is not what the upstream is asked for.
    if request.fields.values_of(b"host").next().is_some() {
        return Err(frame.raise("fetch: the host is an option of its own: host = \"name\""));
    }
    let text = |name: &str, fits: fn(&[u8]) -> bool| -> Result<Option<Vec<u8>>, Reply> {
        frame.push_field(3, name.as_bytes());
        match frame.kind(-1) {
            Kind::Nil => Ok(None),
            Kind::String | Kind::Number => match frame.bytes(-1).filter(|text| fits(text)) {
                Some(text) => Ok(Some(text.to_vec())),
                None => Err(frame.raise(&format!("fetch: this is no {name}"))),
            },
            _ => Err(frame.raise(&format!("fetch: a text is expected as {name}"))),
        }
    };
    if let Some(method) = text("method", is_method)? {
        request.method = method;
    }
    if let Some(host) = text("host", fields::is_host)? {
        request.host = host;
    }
    if let Some(body) = text("body", |_| true)? {
        request.body = body;
    }
    frame.push_field(3, b"timeout");
    if frame.kind(-1) != Kind::Nil {
        let Some(timeout) = frame.number(-1).filter(|timeout| *timeout > 0.0) else {
            return Err(frame.raise("fetch: timeout is a number of milliseconds"));
        };
        request.timeout = milliseconds(timeout);
    }
    frame.push_field(3, b"limit");
    if frame.kind(-1) != Kind::Nil {
        let limit = frame.integer(-1).and_then(|limit| usize::try_from(limit).ok());
        let Some(limit) = limit else {
            return Err(frame.raise("fetch: limit is a number of bytes"));
        };
        request.limit = limit;
    }
    Ok(())
}

/// What opens a tunnel is no request that has an answer (RFC 9110, 9.3.6).
fn is_method(method: &[u8]) -> bool {
    is_name(method) && method != b"CONNECT"
}

/// Pushes what came of it.
fn push(frame: &Frame<'_>, fetched: Result<Fetched, FetchFault>) -> i32 {
    match fetched {
        Ok(answer) => {
            frame.push_table(0, 3);
            frame.push_count(answer.status.into());
            frame.set_field(b"status");
            fields::push_all(frame, &answer.fields);
            frame.set_field(b"headers");
            frame.push_bytes(&answer.body);
            frame.set_field(b"body");
            1
        }
        Err(fault) => {
            frame.fail(fault.to_string().as_bytes());
            2
        }
    }
}
