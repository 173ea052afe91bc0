//! What gRPC adds to HTTP: who speaks it, how calls end, and how long they may take.

use std::time::Duration;

use crate::{FieldId, Method, RequestHead};

/// How a call is laid into a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// As gRPC says: the status is in the trailers.
    Plain,
    /// For browsers, which see no trailers: they are the last part of the content.
    Web,
    /// The same, with all content in Base64.
    WebText,
}

impl Dialect {
    /// The dialect of a call; `None` if the request is none. Calls are POST requests, so all others cost
    /// one comparison.
    #[must_use]
    #[inline]
    pub fn of_request(head: &RequestHead) -> Option<Self> {
        if head.method != Method::Post {
            return None;
        }
        Self::of(head.fields.value(FieldId::ContentType)?)
    }

    /// The dialect of content of this type: `application/grpc`, also with `+proto` or parameters.
    #[must_use]
    pub fn of(content_type: &[u8]) -> Option<Self> {
        const GRPC: &[u8] = b"application/grpc";
        let (start, rest) = content_type.split_at_checked(GRPC.len())?;
        if !start.eq_ignore_ascii_case(GRPC) {
            return None;
        }
        let end = rest.iter().position(|byte| matches!(byte, b'+' | b';' | b' ' | b'\t'));
        let (dialect, _) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
        match dialect {
            b"" => Some(Self::Plain),
            it if it.eq_ignore_ascii_case(b"-web") => Some(Self::Web),
            it if it.eq_ignore_ascii_case(b"-web-text") => Some(Self::WebText),
            _ => None,
        }
    }

    /// The content type of an answer without messages.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Plain => "application/grpc",
            Self::Web => "application/grpc-web",
            Self::WebText => "application/grpc-web-text",
        }
    }
}

/// Names of the statuses by their number.
const NAMES: [&str; 17] = [
    "ok",
    "cancelled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
];

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrpcStatus(u8);

impl GrpcStatus {
    /// Nothing went wrong.
    pub const OK: Self = Self(0);
    /// The caller gave up.
    pub const CANCELLED: Self = Self(1);
    /// Nobody knows.
    pub const UNKNOWN: Self = Self(2);
    /// Time ran out.
    pub const DEADLINE_EXCEEDED: Self = Self(4);
    /// The caller may not.
    pub const PERMISSION_DENIED: Self = Self(7);
    /// There is too much of something.
    pub const RESOURCE_EXHAUSTED: Self = Self(8);
    /// There is no such method.
    pub const UNIMPLEMENTED: Self = Self(12);
    /// Something broke that must not.
    pub const INTERNAL: Self = Self(13);
    /// Not now.
    pub const UNAVAILABLE: Self = Self(14);
    /// Nobody knows who the caller is.
    pub const UNAUTHENTICATED: Self = Self(16);

    /// How many there are.
    pub const COUNT: usize = NAMES.len();

    /// Every status, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        (0_u8..).take(Self::COUNT).map(Self)
    }

    /// The number, as it stands in `grpc-status`.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The name in lower case, as configuration, log and metrics have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.get(usize::from(self.0)).copied().unwrap_or("unknown")
    }

    /// The status of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::all().find(|status| status.name() == name)
    }

    /// The status that `grpc-status` says. What is no status is [`Self::UNKNOWN`].
    #[must_use]
    pub fn of_value(value: &[u8]) -> Self {
        let number = match value {
            [one @ b'0'..=b'9'] => one - b'0',
            [b'1', one @ b'0'..=b'6'] => 10 + one - b'0',
            _ => return Self::UNKNOWN,
        };
        Self(number)
    }

    /// What an answer without a status of its own means (gRPC, "HTTP to gRPC Status Code Mapping").
    #[must_use]
    pub const fn of_http(status: u16) -> Self {
        match status {
            400 => Self::INTERNAL,
            401 => Self::UNAUTHENTICATED,
            403 => Self::PERMISSION_DENIED,
            404 => Self::UNIMPLEMENTED,
            429 | 502..=504 => Self::UNAVAILABLE,
            _ => Self::UNKNOWN,
        }
    }
}

/// A set of statuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrpcStatuses(u32);

impl GrpcStatuses {
    /// This one as well.
    #[must_use]
    pub const fn with(self, status: GrpcStatus) -> Self {
        Self(self.0 | 1 << status.0)
    }

    /// Whether it is one of them.
    #[must_use]
    pub const fn has(self, status: GrpcStatus) -> bool {
        self.0 & 1 << status.0 != 0
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// How long a call may take, by the value of `grpc-timeout`: up to eight digits and a unit. `None` for
/// what is no such value.
#[must_use]
pub fn parse_grpc_timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    match unit {
        b'H' => Some(Duration::from_secs(number * 3600)),
        b'M' => Some(Duration::from_secs(number * 60)),
        b'S' => Some(Duration::from_secs(number)),
        b'm' => Some(Duration::from_millis(number)),
        b'u' => Some(Duration::from_micros(number)),
        b'n' => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

/// The value of `grpc-timeout` for this time, as exact as eight digits allow, and never more than it.
#[must_use]
pub fn write_grpc_timeout(time: Duration) -> String {
    const MOST: u128 = 99_999_999;
    let seconds = u128::from(time.as_secs());
    let units = [
        (time.as_nanos(), 'n'),
        (time.as_micros(), 'u'),
        (time.as_millis(), 'm'),
        (seconds, 'S'),
        (seconds / 60, 'M'),
    ];
    let (number, unit) =
        units.into_iter().find(|(number, _)| *number <= MOST).unwrap_or((seconds / 3600, 'H'));
    format!("{}{unit}", number.min(MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_known_by_their_content_type() {
        use Dialect::{Plain, Web, WebText};
        let rows = [
            ("application/grpc", Some(Plain)),
            ("Application/gRPC", Some(Plain)),
            ("application/grpc+proto", Some(Plain)),
            ("application/grpc; charset=utf-8", Some(Plain)),
            ("application/grpc-web", Some(Web)),
            ("application/grpc-web+json", Some(Web)),
            ("application/grpc-web-text", Some(WebText)),
            ("application/grpc-web-text+proto", Some(WebText)),
            ("application/grpc-web-texts", None),
            ("application/grpcweb", None),
            ("application/grp", None),
            ("application/json", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(Dialect::of(text.as_bytes()), expected, "{text}");
        }
        for dialect in [Plain, Web, WebText] {
            assert_eq!(Dialect::of(dialect.content_type().as_bytes()), Some(dialect));
        }
    }

    #[test]
    fn only_posts_are_calls() {
        let mut head = RequestHead::new();
        head.fields.push(b"content-type", b"application/grpc").unwrap();
        assert_eq!(Dialect::of_request(&head), None);
        head.method = Method::Post;
        assert_eq!(Dialect::of_request(&head), Some(Dialect::Plain));
        head.fields.clear();
        assert_eq!(Dialect::of_request(&head), None);
    }

    #[test]
    fn statuses_have_numbers_and_names() {
        for status in GrpcStatus::all() {
            let number = status.number().to_string();
            assert_eq!(GrpcStatus::of_value(number.as_bytes()), status);
            assert_eq!(GrpcStatus::of_name(status.name()), Some(status));
        }
        assert_eq!(GrpcStatus::of_value(b"14").name(), "unavailable");
        assert_eq!(GrpcStatus::of_value(b"4"), GrpcStatus::DEADLINE_EXCEEDED);
        for nonsense in ["", "17", "-1", "00", "1x", "x"] {
            assert_eq!(GrpcStatus::of_value(nonsense.as_bytes()), GrpcStatus::UNKNOWN);
        }
        assert_eq!(GrpcStatus::of_name("UNAVAILABLE"), None);
    }

    #[test]
    fn sets_hold_what_was_put_in() {
        let set = GrpcStatuses::default().with(GrpcStatus::UNAVAILABLE).with(GrpcStatus(0));
        let held: Vec<&str> =
            GrpcStatus::all().filter(|it| set.has(*it)).map(GrpcStatus::name).collect();
        assert_eq!(held, ["ok", "unavailable"]);
        assert!(!set.is_empty() && GrpcStatuses::default().is_empty());
    }

    #[test]
    fn http_statuses_mean_what_grpc_says() {
        let rows = [
            (400, "internal"),
            (401, "unauthenticated"),
            (403, "permission_denied"),
            (404, "unimplemented"),
            (429, "unavailable"),
            (500, "unknown"),
            (502, "unavailable"),
            (503, "unavailable"),
            (504, "unavailable"),
            (200, "unknown"),
        ];
        for (status, name) in rows {
            assert_eq!(GrpcStatus::of_http(status).name(), name, "{status}");
        }
    }

    #[test]
    fn timeouts_are_eight_digits_and_a_unit() {
        let second = Duration::from_secs(1);
        let rows = [
            ("1S", Some(second)),
            ("2H", Some(7200 * second)),
            ("3M", Some(180 * second)),
            ("00000010m", Some(second / 100)),
            ("5u", Some(Duration::from_micros(5))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("0S", Some(Duration::ZERO)),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("100000000S", None),
            ("S", None),
            ("1", None),
            ("1s", None),
            ("-1S", None),
            (" 1S", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_grpc_timeout(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_left_is_written_without_growing() {
        let rows = [
            (Duration::ZERO, "0n"),
            (Duration::from_nanos(99_999_999), "99999999n"),
            (Duration::from_millis(100), "100000u"),
            (Duration::from_secs(99), "99000000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(99_999), "99999000m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::from_secs(99_999_999 * 60 + 59), "99999999M"),
            (Duration::from_secs(99_999_999 * 60 + 60), "1666666H"),
            (Duration::MAX, "99999999H"),
        ];
        for (time, expected) in rows {
            let text = write_grpc_timeout(time);
            assert_eq!(text, expected);
            assert!(parse_grpc_timeout(text.as_bytes()).unwrap() <= time);
        }
    }
}
