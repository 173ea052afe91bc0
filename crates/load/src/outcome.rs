//! What a finished run measured: the figures that every report, file and comparison is made from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::figures;

/// How requests are offered.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Each connection sends its next request when the answer to the last has come.
    Closed,
    /// Requests become due on a schedule, whether or not earlier ones were answered.
    Open {
        /// Requests per second over all connections.
        rate_per_second: f64,
    },
    /// Users who each send a number of requests and leave.
    Users {
        /// How many users start.
        users: u64,
        /// Requests of each user.
        requests_each: u64,
        /// Within how many seconds all have started.
        ramp_seconds: f64,
    },
}

impl Mode {
    /// Requests per second at which users bring theirs, where they come one after the other.
    #[must_use]
    pub fn ramp_rate(&self) -> Option<f64> {
        match self {
            Self::Users { users, requests_each, ramp_seconds } if *ramp_seconds > 0.0 => {
                Some(figures::float(*users) * figures::float(*requests_each) / ramp_seconds)
            }
            Self::Closed | Self::Open { .. } | Self::Users { .. } => None,
        }
    }
}

/// One finished run: one target, one setting.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The tool and its version, like `sluice 0.1.0`.
    pub tool: String,
    /// The URL as given.
    pub target: String,
    /// How requests were offered.
    pub mode: Mode,
    /// Connections kept open.
    pub connections: u32,
    /// Threads that drove them.
    pub threads: u32,
    /// Requests in flight on one connection.
    pub pipeline: u32,
    /// When measuring began, in milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// Measured time in seconds, warm-up left out.
    pub seconds: f64,
    /// Requests that ended: each has an answer or stands among the errors.
    pub requests: u64,
    /// Whole answers received.
    pub responses: u64,
    /// Bytes received, heads included.
    pub bytes_received: u64,
    /// Bytes sent, heads included.
    pub bytes_sent: u64,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// What failed, by kind.
    pub errors: Errors,
    /// Requests that had no response when the run was over and do not count as time-outs: the end
    /// cut them off.
    #[serde(default)]
    pub in_flight: u64,
    /// How long the oldest of them had waited, in microseconds.
    #[serde(default)]
    pub oldest_in_flight_micros: u64,
    /// Responses per second really served. What an open loop sent after its end is not in it.
    pub rate: f64,
    /// Open loop only: false if the offered rate was missed by more than 1 %.
    pub sustained: Option<bool>,
    /// Open loop only: why the rate was not sustained.
    #[serde(default)]
    pub bottleneck: Option<Bottleneck>,
    /// Latencies of expected responses; in an open loop from the moment a request was due, else from
    /// its sending. An open loop has time-outs in it as well, with the time they had waited.
    pub latency: Latency,
    /// Open loop only: latencies of expected responses from the moment of sending.
    pub uncorrected: Option<Latency>,
    /// Latencies of unexpected responses; absent if there were none.
    #[serde(default)]
    pub unexpected: Option<Latency>,
    /// The run second by second.
    pub series: Vec<Second>,
    /// CPU time the load generator itself spent, in seconds.
    pub client_cpu_seconds: f64,
    /// Whether a thread of the load generator was busier than 95 %: then it was the limit.
    pub client_saturated: bool,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
    /// Smallest and largest whole reply in bytes; over HTTP/2 with the frames around it.
    pub reply_bytes: Option<(u64, u64)>,
    /// What was spoken, like `HTTP/2`; absent in files of earlier versions.
    #[serde(default)]
    pub protocol: Option<String>,
    /// Requests that might be under way on one connection at once, as streams of HTTP/2.
    #[serde(default = "one")]
    pub streams: u32,
    /// Streams the server allowed on a connection, where it said so.
    #[serde(default)]
    pub streams_allowed: Option<u32>,
    /// How connections were encrypted; absent if they were not.
    #[serde(default)]
    pub tls: Option<TlsFigures>,
}

const fn one() -> u32 {
    1
}

/// What kept a rate from being sustained.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// The server: its responses came later and later, or not at all.
    Server,
    /// The connections: even if each response took no longer than the fastest one, they could not
    /// carry the rate.
    Connections,
    /// The load generator: one of its threads was busy all the time.
    LoadGenerator,
    /// Requests that failed.
    Failures,
    /// All connections were busy, and nothing shows whether the server could do more.
    Unclear,
}

/// What was agreed upon, and the handshakes of the connections that were opened while measuring.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct TlsFigures {
    /// The version of TLS, like `1.3`.
    pub version: String,
    /// The cipher suite as IANA writes it.
    pub suite: String,
    /// The group the key was agreed upon in, if it was.
    pub group: Option<String>,
    /// Handshakes with everything.
    pub full_handshakes: u64,
    /// Handshakes that an earlier one shortened.
    pub resumed_handshakes: u64,
    /// Full handshakes per second.
    pub full_rate: f64,
    /// Shortened handshakes per second.
    pub resumed_rate: f64,
}

/// Failed requests and connections by kind.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// A connection could not be opened.
    pub connect: u64,
    /// A connection broke or ended while an answer was awaited.
    pub read: u64,
    /// A request could not be sent.
    pub write: u64,
    /// No whole answer came in time.
    pub timeout: u64,
    /// The answer was not HTTP (or not the protocol asked for).
    pub protocol: u64,
    /// The status was another than expected.
    pub unexpected_status: u64,
    /// The body was another than expected.
    pub unexpected_body: u64,
}

impl Errors {
    /// Every kind with its name in reports and its count.
    pub fn kinds(&self) -> [(&'static str, u64); 7] {
        [
            ("connect", self.connect),
            ("read", self.read),
            ("write", self.write),
            ("timeout", self.timeout),
            ("protocol", self.protocol),
            ("unexpected status", self.unexpected_status),
            ("unexpected body", self.unexpected_body),
        ]
    }

    /// Requests that got no answer: all kinds but the unexpected, which are answers.
    #[must_use]
    pub const fn unanswered(&self) -> u64 {
        self.connect + self.read + self.write + self.timeout + self.protocol
    }

    /// Adds those of another part of the run.
    pub const fn add(&mut self, other: &Self) {
        self.connect += other.connect;
        self.read += other.read;
        self.write += other.write;
        self.timeout += other.timeout;
        self.protocol += other.protocol;
        self.unexpected_status += other.unexpected_status;
        self.unexpected_body += other.unexpected_body;
    }

    /// All kinds together.
    pub fn total(&self) -> u64 {
        self.kinds().iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }
}

/// The distribution of latencies.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct Latency {
    /// How many latencies were recorded.
    pub count: u64,
    /// Mean in microseconds.
    pub mean_micros: f64,
    /// Standard deviation in microseconds.
    pub deviation_micros: f64,
    /// Shortest in microseconds.
    pub min_micros: u64,
    /// Longest in microseconds.
    pub max_micros: u64,
    /// Percentile (0 to 100) and its value in microseconds, rising.
    pub percentiles: Vec<(f64, u64)>,
    /// The whole histogram: base64 of HdrHistogram's V2 deflate form, so that runs can be merged.
    pub histogram: String,
}

/// The percentiles of [`Latency::percentiles`], as far as they are backed by samples.
pub const PERCENTILES: [f64; 8] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0];

/// So many samples have to lie beyond a percentile: with fewer it says what a few requests met.
const BEYOND: f64 = 10.0;

/// Whether so many samples are enough for a percentile. Those below the 99th are not asked: nobody
/// takes them for a tail.
#[must_use]
pub fn is_backed(percentile: f64, samples: u64) -> bool {
    let beyond = (100.0 - percentile) / 100.0 * figures::float(samples);
    !(99.0..100.0).contains(&percentile) || beyond >= BEYOND - 1e-6
}

/// A rate that reaches this share of what the users of a ramp bring is the ramp's.
const RAMP: f64 = 0.8;

impl Outcome {
    /// What the users of a ramp bring per second, if that is what the rate shows. A server that cannot
    /// follow makes the run longer than the ramp: then the rate is its own.
    #[must_use]
    pub fn ramp(&self) -> Option<f64> {
        self.mode.ramp_rate().filter(|brought| self.rate >= brought * RAMP)
    }

    /// Expected responses per second.
    #[must_use]
    pub fn good_rate(&self) -> f64 {
        let unexpected = self.errors.unexpected_status.saturating_add(self.errors.unexpected_body);
        let good = self.responses.saturating_sub(unexpected);
        self.rate * figures::float(good) / figures::float(self.responses.max(1))
    }
}

impl Latency {
    /// A percentile in microseconds, if enough samples back it.
    #[must_use]
    pub fn backed(&self, percentile: f64) -> Option<u64> {
        is_backed(percentile, self.count).then(|| self.percentile(percentile))
    }

    /// One of [`PERCENTILES`] in microseconds; 0 if it is not there.
    #[must_use]
    pub fn percentile(&self, wanted: f64) -> u64 {
        let close = |(percentile, _): &&(f64, u64)| (percentile - wanted).abs() < 1e-9;
        self.percentiles.iter().find(close).map_or(0, |(_, micros)| *micros)
    }
}

/// One second of a run.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq)]
pub struct Second {
    /// Seconds since measuring began.
    pub offset: u32,
    /// Answers in this second.
    pub responses: u64,
    /// Errors in this second.
    pub errors: u64,
    /// Median latency in microseconds.
    pub p50_micros: u64,
    /// 99th percentile in microseconds.
    pub p99_micros: u64,
}

/// The runs of a search for the highest rate that is sustained.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Steps {
    /// One run per rate, rates rising.
    pub steps: Vec<Outcome>,
    /// The last rate before the first that was not sustained or had errors; absent if even the
    /// first was too high.
    pub knee: Option<f64>,
}
