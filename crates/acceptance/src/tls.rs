//! Certificates made for a test, and foreign clients that look at them: curl and openssl.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

/// A certificate that vouches for itself, and its key, as PEM texts.
#[derive(Clone, Debug)]
pub struct Made {
    /// The certificate.
    pub cert: String,
    /// Its private key.
    pub key: String,
}

/// A certificate for these names.
///
/// # Panics
/// When a certificate cannot hold one of the names.
#[must_use]
pub fn made(names: &[&str]) -> Made {
    let key = KeyPair::generate().expect("keys can be made");
    let params = params(names, &key);
    let cert = params.self_signed(&key).expect("it can be signed").pem();
    Made { cert, key: key.serialize_pem() }
}

/// The same, valid until a day of this year, month and day begins.
///
/// # Panics
/// When a certificate cannot hold one of the names, or there is no such day.
#[must_use]
pub fn made_until(names: &[&str], (year, month, day): (i32, u8, u8)) -> Made {
    let key = KeyPair::generate().expect("keys can be made");
    let mut params = params(names, &key);
    params.not_after = date_time_ymd(year, month, day);
    let cert = params.self_signed(&key).expect("it can be signed").pem();
    Made { cert, key: key.serialize_pem() }
}

fn params(names: &[&str], key: &KeyPair) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("these are names");
    // A name of its own: issuers are found by it.
    let digits: String = key.public_key_pem().chars().filter(char::is_ascii_alphanumeric).collect();
    let digits = digits.get(40..90).unwrap_or_default().to_owned();
    params.distinguished_name.push(DnType::CommonName, digits);
    params
}

impl Made {
    /// Writes `NAME.pem` and `NAME.key` into a directory.
    ///
    /// # Panics
    /// When the directory cannot be written to.
    pub fn write(&self, directory: &Path, name: &str) {
        let write = |ending: &str, text: &str| {
            std::fs::write(directory.join(format!("{name}.{ending}")), text)
                .expect("the directory can be written to");
        };
        // The key first: a certificate whose key is missing is of no use.
        write("key", &self.key);
        write("pem", &self.cert);
    }
}

/// Somebody who gives certificates to clients.
#[derive(Debug)]
pub struct Authority {
    /// Its certificate as a PEM text.
    pub cert: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one.
    ///
    /// # Panics
    /// Never, with names of the program itself.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("keys can be made");
        let mut params = params(&[], &key);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::OrganizationName, name);
        let cert = params.self_signed(&key).expect("it can be signed").pem();
        Self { cert, issuer: Issuer::new(params, key) }
    }

    /// A certificate for these names, given by it.
    ///
    /// # Panics
    /// When a certificate cannot hold one of the names.
    #[must_use]
    pub fn give(&self, names: &[&str]) -> Made {
        let key = KeyPair::generate().expect("keys can be made");
        let cert = params(names, &key).signed_by(&key, &self.issuer).expect("it can be signed");
        Made { cert: cert.pem(), key: key.serialize_pem() }
    }
}

/// What curl says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Its exit status; 0 if it got an answer.
    pub code: Option<i32>,
    /// Heads and content.
    pub text: String,
}

/// Runs curl with these arguments, heads included in what it prints.
///
/// # Panics
/// When curl is not there.
#[must_use]
pub fn curl(arguments: &[&str]) -> Fetched {
    let done = Command::new("curl")
        .args(["-s", "-i", "--max-time", "60", "--noproxy", "*"])
        .args(arguments)
        .output()
        .expect("curl is installed");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    Fetched { code: done.status.code(), text }
}

/// Fetches `https://NAME:PORT/path` of a listener, believing these certificates alone.
#[must_use]
pub fn fetch(name: &str, address: &str, ca: &Path, path: &str) -> Fetched {
    let port = address.rsplit(':').next().unwrap_or_default();
    let resolve = format!("{name}:{port}:127.0.0.1");
    let url = format!("https://{name}:{port}{path}");
    curl(&["--resolve", &resolve, "--cacert", &ca.display().to_string(), &url])
}

/// One run of `openssl s_client` that ends at once: all it says.
///
/// # Panics
/// When openssl is not there.
#[must_use]
pub fn openssl(address: &str, arguments: &[&str]) -> String {
    let done = Command::new("openssl")
        .args(["s_client", "-connect", address])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("openssl is installed");
    String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
}

/// A connection of openssl that stays open.
#[derive(Debug)]
pub struct Held {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Held {
    /// Opens one.
    ///
    /// # Panics
    /// When openssl is not there.
    #[must_use]
    pub fn open(address: &str) -> Self {
        let mut child = Command::new("openssl")
            .args(["s_client", "-quiet", "-connect", address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is installed");
        let input = child.stdin.take().expect("its input is a pipe");
        let output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        Self { child, input, output }
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// When the connection has ended.
    pub fn send(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).expect("the connection is open");
        self.input.flush().expect("the connection is open");
    }

    /// Reads until this text has come.
    ///
    /// # Panics
    /// When the connection ends first.
    pub fn read_until(&mut self, text: &str) {
        let mut read = Vec::new();
        while !read.ends_with(text.as_bytes()) {
            let mut byte = [0];
            self.output.read_exact(&mut byte).expect("the connection is open");
            read.extend_from_slice(&byte);
        }
    }

    /// Sends a request and reads an answer with a length; its content.
    ///
    /// # Panics
    /// When the connection ends before the answer does.
    pub fn ask(&mut self, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.input.write_all(request.as_bytes()).expect("the connection is open");
        self.input.flush().expect("the connection is open");
        let mut length = 0;
        loop {
            let mut line = String::new();
            let count = self.output.read_line(&mut line).expect("lines of text");
            assert!(count > 0, "the connection ended");
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(text) = line.strip_prefix("content-length: ") {
                length = text.parse().expect("a length is a number");
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body).expect("the content comes in full");
        String::from_utf8_lossy(&body).into_owned()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a file of this name and text in a directory.
///
/// # Panics
/// When the directory cannot be written to.
pub fn file(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, text).expect("the directory can be written to");
    path
}
