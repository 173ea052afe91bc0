//! Redis mode against servers of the test's own, and against redis-server where there is one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;

use crate::arguments::BenchArguments;
use crate::console::Refusal;
use crate::outcome::Outcome;
use crate::run::Stopper;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: BenchArguments,
}

/// A name in the directory for such things that nobody else uses.
fn scratch(end: &str) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("sluice-redis-{}-{number}{end}", std::process::id()))
}

/// Exit code and outcomes.
fn run(line: &str) -> Result<(u8, Vec<Outcome>), Refusal> {
    let json = scratch(".json");
    let words = format!("bench {line} --json {}", json.display());
    let arguments = Line::try_parse_from(words.split_whitespace()).unwrap().arguments;
    let target = arguments.target.clone().unwrap();
    let code = super::bench(&arguments, &target, &Stopper::default())?;
    let text = std::fs::read_to_string(&json).unwrap();
    std::fs::remove_file(&json).unwrap();
    let outcomes = serde_json::from_str(&text)
        .or_else(|_| serde_json::from_str::<Outcome>(&text).map(|outcome| vec![outcome]));
    Ok((code, outcomes.unwrap()))
}

/// Answers each line that holds a command with what `reply` says; `None` closes the connection.
fn server(reply: fn(&str, u64) -> Option<&'static str>) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let pings = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&pings);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counter = Arc::clone(&counter);
            std::thread::spawn(move || serve(stream, reply, &counter));
        }
    });
    (format!("redis://{address}"), pings)
}

fn serve(stream: TcpStream, reply: fn(&str, u64) -> Option<&'static str>, pings: &AtomicU64) {
    stream.set_nodelay(true).unwrap();
    let mut out = stream.try_clone().unwrap();
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let answer = match line.as_str() {
            "save" => Some("*2\r\n$4\r\nsave\r\n$23\r\n3600 1 300 100 60 10000\r\n"),
            "appendonly" => Some("*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"),
            "PING" => reply(&line, pings.fetch_add(1, Ordering::Relaxed)),
            _ => continue,
        };
        match answer {
            Some(answer) if out.write_all(answer.as_bytes()).is_ok() => {}
            _ => return,
        }
    }
}

#[test]
fn every_request_is_sent_once_and_counted_once() {
    for (options, count) in [
        ("-c 1 -n 1", 1),
        ("-c 10 -t 2 -n 1003", 1003),
        ("-c 3 -t 2 -n 1000 -P 16", 1000),
        ("-c 8 -t 1 -n 5 -P 4", 5),
    ] {
        let (url, pings) = server(|_, _| Some("+PONG\r\n"));
        let (code, outcomes) =
            run(&format!("{url} --test ping_inline,ping_mbulk {options}")).unwrap();
        assert_eq!(code, 0);
        assert_eq!(pings.load(Ordering::Relaxed), 2 * count, "{options}");
        assert_eq!(outcomes.len(), 2);
        for (outcome, sent) in outcomes.iter().zip([6, 14]) {
            assert_eq!((outcome.requests, outcome.responses), (count, count), "{options}");
            assert_eq!(outcome.latency.count, count);
            assert_eq!(outcome.bytes_sent, sent * count);
            assert_eq!(outcome.bytes_received, 7 * count);
            assert_eq!(outcome.errors.total(), 0);
        }
        assert!(outcomes[1].target.ends_with(" PING_MBULK"), "{}", outcomes[1].target);
    }
}

#[test]
fn error_replies_are_counted() {
    let (url, _) =
        server(|_, number| Some(if number % 2 == 0 { "-LOADING wait\r\n" } else { "+PONG\r\n" }));
    let (code, outcomes) = run(&format!("{url} --test ping_mbulk -c 2 -n 100")).unwrap();
    assert_eq!(code, 1);
    assert_eq!(outcomes[0].responses, 100);
    assert_eq!(outcomes[0].errors.unexpected_status, 50);
}

#[test]
fn a_server_that_closes_early_ends_the_test_with_what_was_done() {
    let (url, _) = server(|_, number| (number < 500).then_some("+PONG\r\n"));
    let (code, outcomes) = run(&format!("{url} --test ping -c 1 -t 1 -n 1000")).unwrap();
    assert_eq!(code, 1);
    assert_eq!(outcomes.len(), 1);
    assert_eq!(outcomes[0].responses, 500);
    assert_eq!(outcomes[0].errors.read, 1);
}

#[test]
fn rubbish_is_not_redis() {
    let (url, _) = server(|_, _| Some("HTTP/1.1 400 Bad Request\r\n\r\n"));
    let (code, outcomes) = run(&format!("{url} --test ping_mbulk -c 1 -n 10")).unwrap();
    assert_eq!(code, 1);
    assert_eq!((outcomes[0].responses, outcomes[0].errors.protocol), (0, 1));
}

#[test]
fn silence_is_a_timeout() {
    let (url, _) = server(|_, number| Some(if number < 5 { "+PONG\r\n" } else { "" }));
    let line = format!("{url} --test ping_mbulk -c 1 -n 10 --timeout 100ms");
    let (code, outcomes) = run(&line).unwrap();
    assert_eq!(code, 1);
    assert_eq!((outcomes[0].responses, outcomes[0].errors.timeout), (5, 1));
}

#[test]
fn what_cannot_be_run_is_refused() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let rows = [
        (format!("redis://{free}"), 3, "cannot connect to"),
        ("redis+unix:///no/such/socket".to_owned(), 3, "cannot connect to"),
        (format!("redis://{free} --test pong"), 2, "no test is called"),
        (format!("redis://{free} --rate 5"), 2, "--rate does not go with Redis"),
        ("redis://h:x".to_owned(), 2, "is no Redis server"),
        ("rediss://h".to_owned(), 2, "TLS"),
    ];
    for (line, code, words) in rows {
        let refusal = run(&line).map(|_| ()).unwrap_err();
        assert_eq!(refusal.code, code, "{line}: {refusal:?}");
        assert!(refusal.message.contains(words), "{line}: {refusal:?}");
    }
}

/// redis-server with a socket of its own; ends with the test.
struct Redis {
    child: Child,
    socket: PathBuf,
}

impl Redis {
    /// Nothing if this machine has no redis-server.
    fn start() -> Option<Self> {
        let socket = scratch(".sock");
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(&socket)
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.ok()?;
        let mut lines = BufReader::new(child.stdout.take()?).lines();
        lines.by_ref().map_while(Result::ok).find(|line| line.contains("ready to accept"))?;
        // Its log must be read, or it would stop once the pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self { child, socket })
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = std::os::unix::net::UnixStream::connect(&self.socket).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

#[test]
fn a_real_server_does_what_the_tests_say() {
    let Some(redis) = Redis::start() else {
        println!("no redis-server here");
        return;
    };
    let url = format!("redis+unix://{}", redis.socket.display());
    let tests = "ping,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,mset";
    let line = format!("{url} --test {tests} -c 7 -t 2 -n 500 -P 3 --data-size 20 --keyspace 50");
    let (code, outcomes) = run(&line).unwrap();
    assert_eq!(code, 0);
    assert_eq!(outcomes.len(), 13);
    for outcome in &outcomes {
        assert_eq!(outcome.responses, 500, "{}", outcome.target);
        assert_eq!(outcome.errors.total(), 0, "{}", outcome.target);
    }
    // 500 pushed on each side, 500 taken from each.
    assert_eq!(redis.ask("EXISTS mylist\r\n"), ":0\r\n");
    assert_eq!(redis.ask("STRLEN key:000000000007\r\n"), ":20\r\n");
    let line = format!("{url}  --test lpush,incr -c 2 -n 60");
    assert_eq!(run(&line).unwrap().0, 0);
    assert_eq!(redis.ask("LLEN mylist\r\n"), ":60\r\n");
    assert_eq!(redis.ask("GET counter:__rand_int__\r\n"), "$2\r\n60\r\n");
    redis.ask("CONFIG SET requirepass secret\r\n");
    let refusal = run(&format!("{url} --test ping")).map(|_| ()).unwrap_err();
    assert!(refusal.message.contains("NOAUTH"), "{refusal:?}");
}
