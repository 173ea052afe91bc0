//! `silly.net.websocket` as documented, and as RFC 6455 wants it.

use super::modules::reports;
use super::scripted::Scripted;

#[test]
fn messages_go_both_ways() {
    reports(
        "local http, websocket = require 'silly.net.http', require 'silly.net.websocket'
         local l = assert(http.listen{addr = '127.0.0.1:0', handler = function(s)
            local sock, problem = websocket.upgrade(s)
            if not sock then s:respond(400, {}) return s:closewrite(problem) end
            while true do
                local data, kind = sock:read()
                if not data or kind == 'close' then report('server', #(data or ''), kind) break end
                if kind == 'ping' then sock:write(data, 'pong') else sock:write(data, kind) end
            end
            sock:close()
         end})
         local sock = assert(websocket.connect('ws://' .. l.addr .. '/chat', {['x-a'] = '1'}))
         sock:write('hello', 'text') report(sock:read())
         sock:write('bytes') report(sock:read())
         sock:write('are you there', 'ping') report(sock:read())
         for _, size in ipairs{0, 125, 126, 65535, 65536, 300000} do
            local text = ('x'):rep(size)
            assert(sock:write(text, 'text'))
            assert(sock:read() == text, size)
         end
         report(sock:write(('x'):rep(126), 'ping'))
         report((pcall(sock.write, sock, 'x', 'nonsense')), sock:isalive())
         sock:close()
         report(sock:isalive(), (sock:write('x')))
         time.sleep(1)
         report(http.get('http://' .. l.addr).status, (websocket.connect('http://x')))",
        &[
            "hello text",
            "bytes binary",
            "are you there pong",
            "false Message too long (90)",
            "false true",
            "false false",
            "server 2 close",
            "400 nil",
        ],
    );
}

/// A server that reports what it reads, and its handshake done.
fn shaken() -> (Scripted, super::scripted::Peer) {
    let mut script = Scripted::start(
        "local http, websocket = require 'silly.net.http', require 'silly.net.websocket'
         report(http.listen{addr = '127.0.0.1:0', handler = function(s)
            local sock = assert(websocket.upgrade(s))
            repeat local data, kind = sock:read() report(data, kind) until not data or kind == 'close'
         end}.addr)",
    );
    let mut peer = script.connect();
    // The example of RFC 6455, 1.3.
    peer.send(
        "GET / HTTP/1.1\r\nhost: a\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    peer.expect(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
         sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
    );
    (script, peer)
}

#[test]
fn parts_become_a_message_and_rules_hold() {
    // Keys of zeros, so that what is masked can be read.
    for (frames, said, status) in [
        // Text in two parts with a ping between them, then a close with status 1000.
        (
            &b"\x01\x82\0\0\0\0ab\x89\x81\0\0\0\0p\x80\x81\0\0\0\0c\x88\x82\0\0\0\0\x03\xe8"[..],
            &["p ping", "abc text", "\u{3}\u{fffd} close"][..],
            1000,
        ),
        (b"\x81\x02ab", &["nil a frame is masked that must not be, or is not"], 1002),
        (b"\xc1\x80\0\0\0\0", &["nil a frame of an unknown kind"], 1002),
        (b"\x83\x80\0\0\0\0", &["nil a frame of an unknown kind"], 1002),
        (b"\x09\x80\0\0\0\0", &["nil a control frame that is too long, or in parts"], 1002),
        (b"\x89\xfe\0\xff", &["nil a control frame that is too long, or in parts"], 1002),
        (b"\x80\x80\0\0\0\0", &["nil a part of a message that was not begun, or not ended"], 1002),
        (
            b"\x01\x80\0\0\0\0\x81\x80\0\0\0\0",
            &["nil a part of a message that was not begun, or not ended"],
            1002,
        ),
        (b"\x82\xff\0\0\0\x01\0\0\0\0", &["nil a message is too large"], 1009),
        (b"\x81\x81\0\0\0\0\xff", &["nil a text that is no UTF-8"], 1007),
        (b"\x88\x81\0\0\0\0x", &["nil a broken close frame"], 1002),
    ] {
        let (mut script, mut peer) = shaken();
        std::io::Write::write_all(&mut peer.0, frames).unwrap();
        for line in said {
            let mut bytes = Vec::new();
            bytes.extend_from_slice(script.raw_line().trim_ascii_end());
            assert_eq!(String::from_utf8_lossy(&bytes), *line);
        }
        let mut got = Vec::new();
        std::io::Read::read_to_end(&mut peer.0, &mut got).unwrap();
        let [high, low] = u16::to_be_bytes(status);
        assert_eq!(got, [0x88, 2, high, low], "{said:?}");
    }
}

#[test]
fn who_asks_for_something_else_is_told() {
    let mut script = Scripted::start(
        "local http, websocket = require 'silly.net.http', require 'silly.net.websocket'
         report(http.listen{addr = '127.0.0.1:0', handler = function(s)
            local sock, problem = websocket.upgrade(s)
            report(sock, problem)
            if not s.out then s:respond(200, {}, true) end
         end}.addr)",
    );
    let address = script.line();
    for (fields, said, status) in [
        ("", "nil the request asks for no WebSocket", 200),
        (
            "Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 8\r\n",
            "nil the client speaks another version",
            426,
        ),
        (
            "Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n",
            "nil the key of the client is none",
            400,
        ),
    ] {
        let mut peer = super::scripted::Peer::new(&address);
        peer.send(&format!("GET / HTTP/1.1\r\nhost: a\r\n{fields}\r\n"));
        script.expect(&[said]);
        peer.expect(&format!("HTTP/1.1 {status} "));
    }
}
