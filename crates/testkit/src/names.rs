//! A fake name server over UDP: A, AAAA and SRV records that a test changes while it runs.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What the server answers for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// These addresses, each of its family's type, for so many seconds.
    Addresses(Vec<IpAddr>, u32),
    /// Another name, and what that one resolves to, in one answer.
    Alias(String, Vec<IpAddr>, u32),
    /// The servers of a service, for so many seconds.
    Service(Vec<Service>, u32),
    /// Another name, and the servers of the service that one is, in one answer.
    ServiceAlias(String, Vec<Service>, u32),
    /// SERVFAIL.
    Failure,
    /// No answer at all.
    Silence,
}

/// One SRV record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Lower first.
    pub priority: u16,
    /// Share among those of its priority.
    pub weight: u16,
    /// Where it listens.
    pub port: u16,
    /// The host, or `.` for none.
    pub target: String,
    /// An address of the host that comes along in the additional section, for so many seconds.
    pub along: Option<(IpAddr, u32)>,
}

#[derive(Debug, Default)]
struct Zone {
    names: HashMap<String, Resolution>,
    queries: Vec<(String, u16)>,
    stopped: bool,
}

/// A name server on a free UDP port of 127.0.0.1, stopped on drop. Names it was not told are NXDOMAIN.
#[derive(Debug)]
pub struct NameServer {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    /// Starts a server that knows no name.
    ///
    /// # Panics
    /// When there is no free port.
    #[must_use]
    pub fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let address = socket.local_addr().expect("a bound socket has an address");
        let zone = Arc::new(Mutex::new(Zone::default()));
        let of_thread = Arc::clone(&zone);
        let thread = Some(std::thread::spawn(move || serve(&socket, &of_thread)));
        Self { address, zone, thread }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets what a name resolves to from now on.
    pub fn set(&self, name: &str, resolution: Resolution) {
        locked(&self.zone).names.insert(name.to_ascii_lowercase(), resolution);
    }

    /// Every question so far: the name in lower case, the type (1 = A, 28 = AAAA, 33 = SRV).
    #[must_use]
    pub fn queries(&self) -> Vec<(String, u16)> {
        locked(&self.zone).queries.clone()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        locked(&self.zone).stopped = true;
        let woken = UdpSocket::bind("127.0.0.1:0").and_then(|s| s.send_to(&[], self.address));
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

fn locked(zone: &Mutex<Zone>) -> std::sync::MutexGuard<'_, Zone> {
    zone.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(socket: &UdpSocket, zone: &Mutex<Zone>) {
    let mut buffer = [0; 1500];
    while let Ok((count, from)) = socket.recv_from(&mut buffer) {
        let mut zone = locked(zone);
        if zone.stopped {
            return;
        }
        let Some((name, kind, question)) = parse_query(&buffer[..count]) else { continue };
        zone.queries.push((name.clone(), kind));
        let found = zone.names.get(&name).cloned();
        drop(zone);
        if found != Some(Resolution::Silence) {
            let _ = socket.send_to(&answer(&buffer[..count], question, kind, found), from);
        }
    }
}

/// The name, the type and where the question section ends (RFC 1035 4.1.2).
fn parse_query(bytes: &[u8]) -> Option<(String, u16, usize)> {
    let mut at = 12;
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        let label = bytes.get(at..at + length)?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?);
    bytes.get(at..at + 4)?;
    Some((labels.join("."), kind, at + 4))
}

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const SRV: u16 = 33;

fn answer(query: &[u8], question: usize, kind: u16, found: Option<Resolution>) -> Vec<u8> {
    let (mut addresses, mut services) = (Vec::new(), Vec::new());
    let (code, alias, ttl) = match found {
        Some(Resolution::Addresses(list, ttl)) => {
            addresses = list;
            (0, None, ttl)
        }
        Some(Resolution::Alias(name, list, ttl)) => {
            addresses = list;
            (0, Some(name), ttl)
        }
        Some(Resolution::Service(list, ttl)) => {
            services = list;
            (0, None, ttl)
        }
        Some(Resolution::ServiceAlias(name, list, ttl)) => {
            services = list;
            (0, Some(name), ttl)
        }
        Some(Resolution::Failure | Resolution::Silence) => (2, None, 0),
        None => (3, None, 0),
    };
    let mut records = Records::default();
    // A pointer to the question's name, or the alias spelled out.
    let mut owner = vec![0xc0, 12];
    if let Some(name) = alias {
        let spelled = encode_name(&name);
        records.push(&owner, (CNAME, ttl), &spelled);
        owner = spelled;
    }
    for (its_kind, data) in addresses.into_iter().map(address_data) {
        if its_kind == kind {
            records.push(&owner, (kind, ttl), &data);
        }
    }
    let mut additional = Records::default();
    for service in services.iter().filter(|_| kind == SRV) {
        let target = encode_name(&service.target);
        let numbers = [service.priority, service.weight, service.port];
        let mut data: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        data.extend_from_slice(&target);
        records.push(&owner, (SRV, ttl), &data);
        if let Some((address, ttl)) = service.along {
            let (kind, data) = address_data(address);
            additional.push(&target, (kind, ttl), &data);
        }
    }
    let mut bytes = query[..2].to_vec();
    // A response, authoritative, recursion desired as asked and available.
    bytes.extend_from_slice(&[0x84 | (query[2] & 1), 0x80 | code, 0, 1]);
    bytes.extend_from_slice(&records.count.to_be_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&additional.count.to_be_bytes());
    bytes.extend_from_slice(&query[12..question]);
    bytes.extend_from_slice(&records.bytes);
    bytes.extend_from_slice(&additional.bytes);
    bytes
}

fn address_data(address: IpAddr) -> (u16, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (A, v4.octets().to_vec()),
        IpAddr::V6(v6) => (AAAA, v6.octets().to_vec()),
    }
}

/// One section of an answer.
#[derive(Default)]
struct Records {
    bytes: Vec<u8>,
    count: u16,
}

impl Records {
    fn push(&mut self, owner: &[u8], (kind, ttl): (u16, u32), data: &[u8]) {
        let bytes = &mut self.bytes;
        bytes.extend_from_slice(owner);
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&[0, 1]);
        bytes.extend_from_slice(&ttl.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u16).to_be_bytes());
        bytes.extend_from_slice(data);
        self.count += 1;
    }
}

fn encode_name(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{A, AAAA, NameServer, Resolution, SRV, Service, encode_name};
    use std::net::UdpSocket;

    fn query(server: &NameServer, name: &str, kind: u16) -> Vec<u8> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(crate::PATIENCE)).unwrap();
        let mut bytes = vec![7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend_from_slice(&encode_name(name));
        bytes.extend_from_slice(&[0, kind as u8, 0, 1]);
        socket.send_to(&bytes, server.address()).unwrap();
        let mut answer = [0; 512];
        let count = socket.recv(&mut answer).unwrap();
        answer[..count].to_vec()
    }

    #[test]
    fn answers_what_it_was_told() {
        let server = NameServer::start();
        let both = vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
        server.set("Origin.Test", Resolution::Addresses(both.clone(), 5));
        let answer = query(&server, "origin.TEST", A);
        assert_eq!(answer[..8], [7, 9, 0x85, 0x80, 0, 1, 0, 1]);
        assert_eq!(answer[answer.len() - 10..], [0, 0, 0, 5, 0, 4, 127, 0, 0, 1]);
        assert_eq!(query(&server, "origin.test", AAAA)[answer.len() - 6..][..2], [0, 16]);

        server.set("alias.test", Resolution::Alias("origin.test".into(), both, 1));
        assert_eq!(query(&server, "alias.test", A)[7], 2);
        let along = Some(("127.0.0.1".parse().unwrap(), 9));
        let service = Service { priority: 1, weight: 2, port: 80, target: "t.test".into(), along };
        server.set("_s._tcp.test", Resolution::Service(vec![service], 5));
        let answer = query(&server, "_s._tcp.test", SRV);
        assert_eq!(answer[6..12], [0, 1, 0, 0, 0, 1], "one answer, one additional record");
        assert!(answer.windows(8).any(|it| it == [0, 1, 0, 2, 0, 80, 1, b't']));
        server.set("broken.test", Resolution::Failure);
        assert_eq!(query(&server, "broken.test", A)[3], 0x82);
        assert_eq!(query(&server, "unknown.test", A)[3], 0x83);
        assert_eq!(server.queries()[0], ("origin.test".to_owned(), A));
    }
}
