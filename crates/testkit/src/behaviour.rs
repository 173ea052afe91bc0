//! Ready-made behaviours of an origin: the good ones, and every way of being bad.

use std::io::{self, Read, Write};
use std::time::Duration;

use crate::exchange::{After, Exchange};
use crate::origin::Gate;
use crate::response::Fields;

/// The same answer to everything.
pub fn fixed(status: u16, body: &str) -> impl Fn(&mut Exchange) -> io::Result<()> + use<> {
    let body = body.to_owned();
    move |exchange| {
        exchange.sink_body()?;
        exchange.answer(status, &["Content-Type: text/plain"], &body)
    }
}

/// Bytes sent as they are once the request's body has come; then the connection does what `after` says.
pub fn raw(answer: &[u8], after: After) -> impl Fn(&mut Exchange) -> io::Result<()> + use<> {
    let answer = answer.to_owned();
    move |exchange| {
        exchange.then(after);
        exchange.sink_body()?;
        exchange.write(&answer)
    }
}

/// Answers with the head as it was received, an empty line and the body.
pub fn echo(exchange: &mut Exchange) -> io::Result<()> {
    let body = exchange.read_body()?;
    let mut answer = exchange.head().lines.join("\n").into_bytes();
    answer.extend_from_slice(b"\n\n");
    answer.extend_from_slice(&body.bytes);
    for (name, value) in &body.trailers.0 {
        answer.extend_from_slice(format!("\n{name}: {value}").as_bytes());
    }
    exchange.answer(200, &["Content-Type: text/plain"], answer)
}

/// Answers with the body alone.
pub fn mirror(exchange: &mut Exchange) -> io::Result<()> {
    let body = exchange.read_body()?;
    exchange.answer(200, &[], body.bytes)
}

/// A chunked answer with trailer fields; `trailers` are lines without CRLF.
pub fn chunked(
    parts: &[&str],
    trailers: &[&str],
) -> impl Fn(&mut Exchange) -> io::Result<()> + use<> {
    let mut answer = String::from("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for part in parts {
        answer.push_str(&format!("{:x}\r\n{part}\r\n", part.len()));
    }
    answer.push_str("0\r\n");
    for trailer in trailers {
        answer.push_str(&format!("{trailer}\r\n"));
    }
    answer.push_str("\r\n");
    raw(answer.as_bytes(), After::Next)
}

/// Another behaviour, this much later.
pub fn delayed(
    wait: Duration,
    inner: impl Fn(&mut Exchange) -> io::Result<()>,
) -> impl Fn(&mut Exchange) -> io::Result<()> {
    move |exchange| {
        exchange.pause(wait);
        inner(exchange)
    }
}

/// Another behaviour, once the test opens the gate.
pub fn gated(
    gate: Gate,
    inner: impl Fn(&mut Exchange) -> io::Result<()>,
) -> impl Fn(&mut Exchange) -> io::Result<()> {
    move |exchange| {
        gate.pass();
        inner(exchange)
    }
}

/// Takes the request and closes without a word.
pub fn close_unanswered(exchange: &mut Exchange) -> io::Result<()> {
    exchange.sink_body()?;
    exchange.then(After::Close);
    Ok(())
}

/// Takes the request and resets the connection.
pub fn reset(exchange: &mut Exchange) -> io::Result<()> {
    exchange.sink_body()?;
    exchange.then(After::Reset);
    Ok(())
}

/// Answers `good` requests of each connection and closes on the next, unanswered: the race of every kept-alive pool.
pub fn close_after(good: usize) -> impl Fn(&mut Exchange) -> io::Result<()> {
    move |exchange| {
        if exchange.head().number > good {
            return close_unanswered(exchange);
        }
        exchange.sink_body()?;
        exchange.answer(200, &[], "good")
    }
}

/// Promises `promised` bytes, sends `body` and then closes or resets.
pub fn cut_short(
    promised: usize,
    body: &str,
    after: After,
) -> impl Fn(&mut Exchange) -> io::Result<()> + use<> {
    raw(format!("HTTP/1.1 200 OK\r\nContent-Length: {promised}\r\n\r\n{body}").as_bytes(), after)
}

/// Interim answers before the final one; `fields` are lines without CRLF, for each interim answer.
pub fn interim(
    statuses: &[u16],
    fields: &[&str],
) -> impl Fn(&mut Exchange) -> io::Result<()> + use<> {
    let statuses = statuses.to_owned();
    let fields: Vec<String> = fields.iter().map(ToString::to_string).collect();
    move |exchange| {
        let lines: Vec<&str> = fields.iter().map(String::as_str).collect();
        for status in &statuses {
            exchange.answer(*status, &lines, "")?;
        }
        exchange.sink_body()?;
        exchange.answer(200, &[], "final")
    }
}

/// Answers before it has read the body, and closes or goes on as `after` says.
pub fn early(status: u16, after: After) -> impl Fn(&mut Exchange) -> io::Result<()> {
    move |exchange| {
        exchange.then(after);
        let fields: &[&str] = if after == After::Next { &[] } else { &["Connection: close"] };
        exchange.answer(status, fields, "early")
    }
}

/// Agrees to any upgrade and returns every byte that follows.
pub fn upgrade_echo(exchange: &mut Exchange) -> io::Result<()> {
    let protocol = exchange.head().fields.first("upgrade").unwrap_or("websocket").to_owned();
    exchange.answer(101, &["Connection: Upgrade", &format!("Upgrade: {protocol}")], "")?;
    exchange.then(After::Close);
    let (stream, early) = exchange.raw();
    stream.write_all(&std::mem::take(early))?;
    let mut piece = [0; 16_384];
    loop {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&piece[..count])?;
    }
}

/// Reads the request's body in small pieces with a pause between them.
pub fn slow_reader(pause: Duration) -> impl Fn(&mut Exchange) -> io::Result<()> {
    move |exchange| {
        while exchange.read_some(&mut Fields::default())?.is_some() {
            exchange.pause(pause);
        }
        exchange.answer(200, &[], "slow")
    }
}

/// Sends the answer's body a byte at a time with a pause between the bytes.
pub fn slow_writer(
    body: &str,
    pause: Duration,
) -> impl Fn(&mut Exchange) -> io::Result<()> + use<> {
    let body = body.to_owned();
    move |exchange| {
        exchange.sink_body()?;
        exchange.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()))?;
        for byte in body.bytes() {
            exchange.pause(pause);
            exchange.write([byte])?;
        }
        Ok(())
    }
}

/// A body of `length` bytes in constant memory.
pub fn stream(length: u64) -> impl Fn(&mut Exchange) -> io::Result<()> {
    move |exchange| {
        exchange.sink_body()?;
        exchange.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"))?;
        let piece = vec![b's'; 65_536];
        let mut left = length;
        while left > 0 {
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
            exchange.write(&piece[..count])?;
            left -= count as u64;
        }
        Ok(())
    }
}

/// Reads the body away in constant memory and answers with its length in bytes.
pub fn sink(exchange: &mut Exchange) -> io::Result<()> {
    let count = exchange.sink_body()?;
    exchange.answer(200, &[], count.to_string())
}
