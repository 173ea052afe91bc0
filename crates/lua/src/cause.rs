//! Why an operation failed, in the words of `silly.errno`.

use std::borrow::Cow;
use std::io;

/// Why nothing more comes from a connection, or goes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The peer sends nothing more.
    End,
    /// The script closed it.
    Closed,
    /// A name has no address.
    Unresolved,
    /// A handshake failed.
    Encryption,
    /// A number of errno(3).
    Number(i32),
}

impl Cause {
    /// It took longer than the script wanted to wait.
    pub(crate) const TIMED_OUT: Self = Self::Number(110);
    /// There is more than a bound allows.
    pub(crate) const NO_BUFFERS: Self = Self::Number(105);
    /// What was asked for makes no sense.
    pub(crate) const INVALID: Self = Self::Number(22);

    pub(crate) fn of(error: &io::Error) -> Self {
        // EIO for what has no number: it came from TLS or from ourselves.
        Self::Number(error.raw_os_error().unwrap_or(5))
    }

    /// The value a script compares with a field of `silly.errno`.
    pub(crate) fn text(self) -> Cow<'static, str> {
        match self {
            Self::End => END.into(),
            Self::Closed => CLOSED.into(),
            Self::Unresolved => RESOLVE.into(),
            Self::Encryption => TLS.into(),
            Self::Number(number) => words(number),
        }
    }
}

const RESOLVE: &str = "Cannot resolve the name (10001)";
const CLOSED: &str = "Socket is closed (10004)";
const TLS: &str = "Encryption failed (10006)";
const END: &str = "End of file (10005)";

/// Errors that are not the system's.
const OWN: [(&str, &str); 6] = [
    ("RESOLVE", RESOLVE),
    ("NOSOCKET", "No socket is left (10002)"),
    ("CLOSING", "Socket is closing (10003)"),
    ("CLOSED", CLOSED),
    ("EOF", END),
    ("TLS", TLS),
];

/// Names of errno(3), without their first letter, and their numbers on Linux.
const NAMES: [(&str, i32); 44] = [
    ("PERM", 1),
    ("NOENT", 2),
    ("INTR", 4),
    ("IO", 5),
    ("BADF", 9),
    ("AGAIN", 11),
    ("WOULDBLOCK", 11),
    ("NOMEM", 12),
    ("ACCES", 13),
    ("FAULT", 14),
    ("BUSY", 16),
    ("EXIST", 17),
    ("NODEV", 19),
    ("NOTDIR", 20),
    ("ISDIR", 21),
    ("INVAL", 22),
    ("NFILE", 23),
    ("MFILE", 24),
    ("NOSPC", 28),
    ("PIPE", 32),
    ("NAMETOOLONG", 36),
    ("LOOP", 40),
    ("PROTO", 71),
    ("NOTSOCK", 88),
    ("DESTADDRREQ", 89),
    ("MSGSIZE", 90),
    ("PROTOTYPE", 91),
    ("NOPROTOOPT", 92),
    ("PROTONOSUPPORT", 93),
    ("OPNOTSUPP", 95),
    ("AFNOSUPPORT", 97),
    ("ADDRINUSE", 98),
    ("ADDRNOTAVAIL", 99),
    ("NETDOWN", 100),
    ("NETUNREACH", 101),
    ("CONNABORTED", 103),
    ("CONNRESET", 104),
    ("NOBUFS", 105),
    ("ISCONN", 106),
    ("NOTCONN", 107),
    ("TIMEDOUT", 110),
    ("CONNREFUSED", 111),
    ("HOSTUNREACH", 113),
    ("INPROGRESS", 115),
];

/// All names with their values, as a script sees them.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, Cow<'static, str>)> {
    let own = OWN.iter().map(|&(name, text)| (name, text.into()));
    own.chain(NAMES.iter().map(|&(name, number)| (name, words(number))))
}

fn words(number: i32) -> Cow<'static, str> {
    match number {
        104 => "Connection reset by peer (104)".into(),
        105 => "No buffer space available (105)".into(),
        110 => "Operation timed out (110)".into(),
        number => {
            let said = io::Error::from_raw_os_error(number).to_string();
            let text = said.split(" (os error").next().unwrap_or_default();
            format!("{text} ({number})").into()
        }
    }
}
