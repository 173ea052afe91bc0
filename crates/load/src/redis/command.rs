//! The tests: what each sends, in redis-benchmark's words.

/// Stands for a random key number, in as many digits.
const PLACE: &[u8; 12] = b"__rand_int__";

/// One kind of load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    /// Its name in reports.
    pub(crate) title: String,
    /// The request.
    pub(crate) request: Vec<u8>,
    /// Where in the request random numbers go, 12 digits each.
    pub(crate) places: Vec<usize>,
}

/// What a test's request is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// Bytes of a value.
    pub(crate) data: usize,
    /// How many different keys; without it the same one each time.
    pub(crate) keyspace: Option<u64>,
}

/// The names that may be given.
const NAMES: &str = "ping, ping_inline, ping_mbulk, set, get, incr, lpush, rpush, lpop, rpop, sadd, \
    hset, spop, mset";

impl Test {
    /// The tests of a list of names, separated by commas.
    ///
    /// # Errors
    /// A name that means nothing.
    pub(crate) fn list(names: &str, size: Size) -> Result<Vec<Self>, String> {
        let mut tests = Vec::new();
        for name in names.split(',').map(|name| name.trim().to_ascii_lowercase()) {
            if name == "ping" {
                tests.extend([Self::named("ping_inline", size), Self::named("ping_mbulk", size)]);
            } else {
                tests.push(Self::named(&name, size));
            }
            if tests.last().is_none_or(Option::is_none) {
                return Err(format!("no test is called \"{name}\"; there are {NAMES}"));
            }
        }
        Ok(tests.into_iter().flatten().collect())
    }

    fn named(name: &str, size: Size) -> Option<Self> {
        let data = vec![b'x'; size.data];
        let data = data.as_slice();
        let key: &[u8] = b"key:__rand_int__";
        let element: &[u8] = b"element:__rand_int__";
        let (title, words): (&str, Vec<&[u8]>) = match name {
            "ping_inline" => return Some(Self::inline()),
            "ping_mbulk" => ("PING_MBULK", vec![b"PING"]),
            "set" => ("SET", vec![b"SET", key, data]),
            "get" => ("GET", vec![b"GET", key]),
            "incr" => ("INCR", vec![b"INCR", b"counter:__rand_int__"]),
            "lpush" => ("LPUSH", vec![b"LPUSH", b"mylist", data]),
            "rpush" => ("RPUSH", vec![b"RPUSH", b"mylist", data]),
            "lpop" => ("LPOP", vec![b"LPOP", b"mylist"]),
            "rpop" => ("RPOP", vec![b"RPOP", b"mylist"]),
            "sadd" => ("SADD", vec![b"SADD", b"myset", element]),
            "hset" => ("HSET", vec![b"HSET", b"myhash", element, data]),
            "spop" => ("SPOP", vec![b"SPOP", b"myset"]),
            "mset" => {
                let pairs = std::iter::repeat_n([key, data], 10).flatten();
                ("MSET (10 keys)", std::iter::once(&b"MSET"[..]).chain(pairs).collect())
            }
            _ => return None,
        };
        let mut request = Vec::new();
        array(&mut request, &words);
        Some(Self::new(title, request, size))
    }

    fn inline() -> Self {
        Self { title: "PING_INLINE".to_owned(), request: b"PING\r\n".to_vec(), places: Vec::new() }
    }

    fn new(title: &str, mut request: Vec<u8>, size: Size) -> Self {
        let mut places = Vec::new();
        let mut from = 0;
        while let Some(at) = request
            .get(from..)
            .and_then(|rest| rest.windows(PLACE.len()).position(|window| window == PLACE))
        {
            places.push(from + at);
            from += at + PLACE.len();
        }
        match size.keyspace {
            Some(_) => {
                for at in &places {
                    write_digits(&mut request, *at, 0);
                }
            }
            // The name itself is the key, as it is in redis-benchmark.
            None => places.clear(),
        }
        Self { title: title.to_owned(), request, places }
    }
}

/// Puts a number's 12 digits at a place of a request.
pub(crate) fn write_digits(request: &mut [u8], at: usize, number: u64) {
    let mut rest = number;
    for byte in request.iter_mut().skip(at).take(PLACE.len()).rev() {
        *byte = b'0'.saturating_add(u8::try_from(rest % 10).unwrap_or(0));
        rest /= 10;
    }
}

/// Appends a request as an array of bulk strings.
pub(crate) fn array(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_those_of_redis_benchmark() {
        let rows = [
            ("ping_inline", "PING_INLINE", "PING\r\n"),
            ("PING_MBULK", "PING_MBULK", "*1\r\n$4\r\nPING\r\n"),
            ("set", "SET", "*3\r\n$3\r\nSET\r\n$16\r\nkey:__rand_int__\r\n$3\r\nxxx\r\n"),
            ("lpop", "LPOP", "*2\r\n$4\r\nLPOP\r\n$6\r\nmylist\r\n"),
        ];
        let size = Size { data: 3, keyspace: None };
        for (name, title, request) in rows {
            let tests = Test::list(name, size).unwrap();
            assert_eq!(tests[0].title, title);
            assert_eq!(tests[0].request, request.as_bytes());
            assert!(tests[0].places.is_empty());
        }
        let titles: Vec<String> =
            Test::list("ping, mset", size).unwrap().into_iter().map(|test| test.title).collect();
        assert_eq!(titles, ["PING_INLINE", "PING_MBULK", "MSET (10 keys)"]);
        for name in ["", "pong", "ping,,get", "get,x"] {
            assert!(Test::list(name, size).unwrap_err().contains("no test is called"), "{name}");
        }
    }

    #[test]
    fn random_keys_have_their_places() {
        let size = Size { data: 0, keyspace: Some(10) };
        let mut test = Test::list("mset", size).unwrap().remove(0);
        assert_eq!(test.places.len(), 10);
        write_digits(&mut test.request, test.places[1], 123_456_789_012);
        let text = String::from_utf8_lossy(&test.request);
        assert!(text.contains("key:000000000000\r\n") && text.contains("key:123456789012\r\n"));
    }
}
