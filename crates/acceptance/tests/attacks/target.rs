//! What is attacked: this gateway, or nginx, each with one worker and an origin behind it.

use sluice_acceptance::peers::{Peer, nginx, nginx_with};
use sluice_acceptance::tls::made;
use sluice_testkit::{Scratch, Sluice, unclaimed_port};

/// A server under attack.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) pid: u32,
    /// Where it speaks HTTP/1.1.
    pub(crate) http1: String,
    /// Where it speaks HTTP/2 without TLS.
    pub(crate) http2: String,
    /// Where it speaks TLS.
    pub(crate) tls: String,
    pub(crate) running: Running,
    /// Its certificates.
    _scratch: Scratch,
}

/// The program itself, which ends with the test.
pub(crate) enum Running {
    Sluice(Sluice),
    Nginx { _peer: Peer },
}

/// An origin that is not hurt by thousands of requests that are given up: responses to `/held` take minutes.
pub(crate) fn origin() -> Peer {
    let server = "location = /held { limit_rate 1; } location = /large { } location = /piece { }\n\
        location = /upload { client_max_body_size 2m; return 200; }\nroot .;";
    nginx_with("", server, |scratch| {
        scratch.write("held", "held ".repeat(40));
        // What nobody takes lies in sockets: with more, thousands of them meet the kernel's limit of
        // memory for TCP, and it resets connections of everybody on the machine.
        scratch.write("large", vec![b'l'; 256 * 1024]);
        scratch.write("piece", vec![b'p'; 32 * 1024]);
    })
}

/// This gateway. `listener` is what its listeners have beside an address.
pub(crate) fn sluice(origin: &str, listener: &str) -> Target {
    let scratch = Scratch::new();
    made(&["localhost"]).write(scratch.path(), "a");
    let folder = scratch.path().display();
    let sluice = Sluice::start(&format!(
        "workers = 1\n[admin]\naddress = \"127.0.0.1:0\"\n[log]\naccess = \"off\"\n\
         [[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\n{listener}\n\
         [[listener]]\nname = \"secure\"\naddress = \"127.0.0.1:0\"\n{listener}\n\
         tls = {{ certificates = [{{ cert = \"{folder}/a.pem\", key = \"{folder}/a.key\" }}] }}\n\
         [upstream.origin]\nservers = [\"{origin}\"]\n\
         [[route]]\npath = \"/\"\nrespond = \"hello\"\n[[route]]\nproxy = \"origin\"\n"
    ));
    Target {
        name: "Sluice",
        pid: sluice.pid(),
        http1: sluice.address("web"),
        http2: sluice.address("web"),
        tls: sluice.address("secure"),
        running: Running::Sluice(sluice),
        _scratch: scratch,
    }
}

/// nginx as it is by default, in one process.
pub(crate) fn beside(origin: &str) -> Target {
    let scratch = Scratch::new();
    made(&["localhost"]).write(scratch.path(), "a");
    let folder = scratch.path().display();
    let [http1, tls] = [(); 2].map(|()| format!("127.0.0.1:{}", unclaimed_port()));
    let peer = nginx(
        "http2",
        &format!(
            "listen {http1}; listen {tls} ssl http2;\n\
             ssl_certificate {folder}/a.pem; ssl_certificate_key {folder}/a.key;\n\
             location = / {{ return 200 hello; }} location / {{ proxy_pass http://{origin}; }}"
        ),
    );
    Target {
        name: "nginx",
        pid: peer.pid(),
        http1,
        http2: peer.address.clone(),
        tls,
        running: Running::Nginx { _peer: peer },
        _scratch: scratch,
    }
}

/// What a process has used up to now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Seconds of processor time.
    pub(crate) processor: f64,
    /// The most resident memory since [`Target::forget_peak`], in KiB.
    pub(crate) peak: u64,
    /// Resident memory, in KiB.
    pub(crate) resident: u64,
}

impl Target {
    pub(crate) fn usage(&self) -> Usage {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        let of = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse().unwrap()
        };
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap();
        // Behind the name, which may hold blanks: user and system time are the 12th and 13th word.
        let words: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: f64 = [11, 12].iter().map(|at: &usize| words[*at].parse::<f64>().unwrap()).sum();
        Usage { processor: ticks / 100.0, peak: of("VmHWM:"), resident: of("VmRSS:") }
    }

    /// Begins a new measurement of the peak.
    pub(crate) fn forget_peak(&self) {
        let _ = std::fs::write(format!("/proc/{}/clear_refs", self.pid), "5");
    }
}
