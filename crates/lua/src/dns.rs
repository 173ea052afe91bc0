//! `silly.net.dns`: names become addresses.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use sluice_net::resolve::{Lookups, Records, ResolverSettings, Wanted};
use sluice_net::{mailbox, spawn};

use crate::frame::{Frame, Kind, Reply, native};
use crate::tcp::{milliseconds, no_task};
use crate::vm;

native!(native_open, open);
native!(native_close, close);
native!(native_ask, ask);
native!(native_family, family);

pub(crate) const FUNCTIONS: [(&str, mlua_sys::lua_CFunction); 4] = [
    ("dns_open", native_open),
    ("dns_close", native_close),
    ("dns_ask", native_ask),
    ("dns_family", native_family),
];

/// Most name servers.
const SERVERS: usize = 8;

/// Gone once there is another one.
struct Asker(RefCell<Option<Lookups>>);

/// `open({server...}, timeout_ms)`: what questions are put to; no servers are those of the system.
fn open(frame: &Frame<'_>) -> Reply {
    let mut servers = Vec::new();
    if frame.kind(1) == Kind::Table {
        for index in 1..=i32::try_from(frame.elements(1).min(SERVERS)).unwrap_or(0) {
            frame.push_element(1, index);
            let text = frame.text(-1).unwrap_or_default();
            frame.pop();
            let address = text.parse::<SocketAddr>().ok();
            let with_port = || text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 53));
            match address.or_else(with_port) {
                Some(address) => servers.push(address),
                None => {
                    return frame
                        .raise(&format!("dns.conf: '{text}' is no address of a name server"));
                }
            }
        }
    }
    let settings = ResolverSettings {
        servers,
        timeout: frame.number(2).map_or(Duration::from_secs(5), milliseconds),
        min_ttl: Duration::ZERO,
        max_ttl: Duration::MAX,
    };
    match Lookups::start(settings) {
        Ok(lookups) => frame.push_object(Rc::new(Asker(RefCell::new(Some(lookups)))), 1024),
        Err(error) => return frame.raise(&format!("dns: cannot start a thread: {error}")),
    }
    Reply::Values(1)
}

/// `close(lookups)`: questions that wait for an answer end.
fn close(frame: &Frame<'_>) -> Reply {
    if let Some(asker) = frame.object::<Asker>(1) {
        asker.0.take();
    }
    Reply::Values(0)
}

/// `ask(lookups, name, type, timeout_ms)`: a table of what there is, or nil and an error.
fn ask(frame: &Frame<'_>) -> Reply {
    let (Some(lookups), Some(name)) = (frame.object::<Asker>(1), frame.text(2)) else {
        return frame.raise("bad argument #1 to 'lookup': a name is expected");
    };
    let wanted = match frame.integer(3) {
        Some(1) => Wanted::V4,
        Some(28) => Wanted::V6,
        Some(33) => Wanted::Services,
        _ => {
            return frame
                .raise("bad argument #2 to 'lookup': dns.A, dns.AAAA or dns.SRV is expected");
        }
    };
    let limit = frame.number(4).map_or(Duration::from_secs(5), milliseconds);
    let host = frame.host().shared();
    let Some(id) = frame.task() else { return no_task(frame) };
    let (post, mut inbox) = mailbox();
    if let Some(lookups) = &*lookups.0.borrow() {
        lookups.ask((name, wanted), limit, move |answer| post.send(answer));
    }
    spawn(async move {
        let answer = inbox.recv().await.unwrap_or_else(|| Err("Dns reconfigured".to_owned()));
        vm::answer(&host, id, |frame| match answer {
            Ok(records) => {
                push(frame, &records);
                1
            }
            Err(said) => {
                frame.fail(said.as_bytes());
                2
            }
        });
    });
    Reply::Wait
}

fn push(frame: &Frame<'_>, records: &Records) {
    frame.push_table(4, 0);
    match records {
        Records::Addresses(list) => {
            for (index, address) in (1..).zip(list) {
                frame.push_bytes(address.to_string().as_bytes());
                frame.set_element(index);
            }
        }
        Records::Services(list) => {
            for (index, record) in (1..).zip(list) {
                frame.push_table(0, 4);
                let numbers: [(&[u8], u16); 3] = [
                    (b"priority", record.priority),
                    (b"weight", record.weight),
                    (b"port", record.port),
                ];
                for (name, number) in numbers {
                    frame.push_count(u64::from(number));
                    frame.set_field(name);
                }
                frame.push_bytes(record.target.as_bytes());
                frame.set_field(b"target");
                frame.set_element(index);
            }
        }
    }
}

/// `family(text)`: 4 or 6 for an address in digits, nil for a name.
fn family(frame: &Frame<'_>) -> Reply {
    match frame.text(1).and_then(|text| text.parse::<IpAddr>().ok()) {
        Some(IpAddr::V4(_)) => frame.push_count(4),
        Some(IpAddr::V6(_)) => frame.push_count(6),
        None => frame.push_nil(),
    }
    Reply::Values(1)
}
