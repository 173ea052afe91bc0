//! `silly.net.http` as documented, and as strict as the gateway.

use super::modules::reports;
use super::scripted::{Peer, Scripted};

const SERVER: &str = "local http = require 'silly.net.http'
    local function listen(handler, more)
        local t = {addr = '127.0.0.1:0', handler = handler}
        for k, v in pairs(more or {}) do t[k] = v end
        return assert(http.listen(t))
    end\n";

/// A server whose handler knows these paths.
fn server() -> Scripted {
    Scripted::start(&format!(
        "{SERVER}
         local acts = {{}}
         acts['/hello'] = function(s) s:respond(200, {{['content-type'] = 'text/plain', date = 'now'}}) s:closewrite('hello') end
         acts['/echo'] = function(s) local b, e = s:readall() s:respond(200, {{date = 'now'}}) s:closewrite(b or e) end
         acts['/chunks'] = function(s) s:respond(200, {{date = 'now'}}) s:write('a') s:write{{'b', 'c'}} s:closewrite('d', {{['x-trailer'] = '1'}}) end
         acts['/length'] = function(s) s:respond(200, {{['content-length'] = 3, date = 'now'}}) report(s:write('ab'), s:write('cd')) s:closewrite('c') end
         acts['/short'] = function(s) s:respond(200, {{['content-length'] = 3, date = 'now'}}) s:closewrite('a') end
         acts['/nothing'] = function(s) s:respond(204, {{date = 'now'}}) report(s:write('x')) s:closewrite() end
         acts['/closed'] = function(s) s:respond(404, {{date = 'now'}}, true) report(s:write('x')) end
         acts['/silent'] = function(s) end
         acts['/fails'] = function(s) error('on purpose') end
         acts['/half'] = function(s) s:respond(200, {{date = 'now'}}) s:write('a') error('half way') end
         acts['/splits'] = function(s) report((pcall(s.respond, s, 200, {{x = 'a\\r\\nb: c'}})), (pcall(s.respond, s, 200, {{['x y'] = 'a'}})), (pcall(s.respond, s, 99, {{}}))) s:respond(200, {{date = 'now'}}, true) end
         acts['/facts'] = function(s)
            report(s.method, s.path, s.version, s.header['x-a'], s.query.b, s.query.c, s.remoteaddr ~= nil, s.scheme)
            s:respond(200, {{date = 'now'}}, true)
         end
         report(listen(function(s) (acts[s.path] or acts['/hello'])(s) end).addr)"
    ))
}

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ndate: now\r\n";

/// Sends a request on a connection of its own that ends with it, and reads everything. Lines of the head are sorted, since a
/// table has no order.
fn ask(address: &str, request: &str) -> String {
    let mut peer = Peer::new(address);
    peer.send(request);
    let all = peer.rest();
    let (head, content) = all.split_once("\r\n\r\n").unwrap_or((&all, ""));
    let mut lines: Vec<&str> = head.split("\r\n").collect();
    if lines.len() > 1 {
        lines[1..].sort_unstable();
    }
    format!("{}\r\n\r\n{content}", lines.join("\r\n"))
}

#[test]
fn answers_have_the_framing_that_fits() {
    let mut script = server();
    let address = script.line();
    let get = |path: &str| {
        ask(&address, &format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"))
    };
    assert_eq!(
        get("/hello"),
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\ncontent-type: text/plain\r\ndate: now\r\n\r\nhello"
    );
    assert_eq!(
        get("/chunks"),
        "HTTP/1.1 200 OK\r\nconnection: close\r\ndate: now\r\ntransfer-encoding: chunked\r\n\r\n\
         1\r\na\r\n2\r\nbc\r\n1\r\nd\r\n0\r\nx-trailer: 1\r\n\r\n"
    );
    assert_eq!(
        ask(&address, "GET /chunks HTTP/1.0\r\n\r\n"),
        "HTTP/1.1 200 OK\r\nconnection: close\r\ndate: now\r\n\r\nabcd"
    );
    assert_eq!(
        get("/length"),
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\ndate: now\r\n\r\nabc"
    );
    script.expect(&["true false Message too long (90)"]);
    assert_eq!(
        get("/nothing"),
        "HTTP/1.1 204 No Content\r\nconnection: close\r\ndate: now\r\n\r\n"
    );
    script.expect(&["true"]);
    assert_eq!(
        get("/closed"),
        "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\ndate: now\r\n\r\n"
    );
    script.expect(&["false Socket is closed (10004)"]);
    assert_eq!(
        ask(&address, "HEAD /hello HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"),
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\ncontent-type: text/plain\r\ndate: now\r\n\r\n"
    );
    get("/splits");
    script.expect(&["false false false"]);
}

#[test]
fn requests_are_told_as_they_are() {
    let mut script = server();
    let address = script.line();
    ask(
        &address,
        "PATCH /facts?b=1%202&c=x+y HTTP/1.1\r\nhost: a\r\nX-A: 1\r\nx-a: 2\r\nconnection: close\r\n\r\n",
    );
    script.expect(&["PATCH /facts HTTP/1.1 1, 2 1 2 x y true http"]);
    for (request, content) in [
        (
            "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\nconnection: close\r\n\r\nfour",
            "four",
        ),
        (
            "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n3;x=y\r\none\r\n003\r\ntwo\r\n0\r\na: b\r\n\r\n",
            "onetwo",
        ),
        ("GET /echo HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", ""),
        (
            "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999\r\nconnection: close\r\n\r\nx",
            "Message too long (90)",
        ),
        (
            "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\nnine\r\n",
            "Protocol error (71)",
        ),
        (
            "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n1\r\nxyz\r\n",
            "Protocol error (71)",
        ),
    ] {
        let answer = ask(&address, request);
        assert_eq!(answer.split_once("\r\n\r\n").unwrap().1, content, "{request}");
    }
}

#[test]
fn a_connection_carries_many_requests() {
    let mut script = server();
    let mut peer = script.connect();
    let hello = format!("{HELLO}content-length: 5\r\n\r\nhello");
    let sorted = |text: String| {
        let (head, content) = text.split_once("\r\n\r\n").unwrap();
        let mut lines: Vec<&str> = head.split("\r\n").collect();
        lines[1..].sort_unstable();
        format!("{}|{content}", lines.join("\n"))
    };
    let one = |peer: &mut Peer| {
        let mut got = vec![0; hello.len()];
        std::io::Read::read_exact(&mut peer.0, &mut got).unwrap();
        assert_eq!(sorted(String::from_utf8(got).unwrap()), sorted(hello.clone()));
    };
    // What nobody has read of a request is out of the way of the next one.
    peer.send("POST /hello HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n12345GET /hello HTTP/1.1\r\nhost: a\r\n\r\n");
    one(&mut peer);
    one(&mut peer);
    peer.send("GET /hello HTTP/1.1\r\nhost: a\r\n");
    peer.send("\r\n");
    one(&mut peer);
    peer.send("POST /echo HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\nconnection: close\r\n\r\n");
    peer.expect("HTTP/1.1 100 Continue\r\n\r\n");
    peer.send("ok");
    assert!(peer.rest().ends_with("\r\n\r\nok"));
}

#[test]
fn what_is_no_request_is_refused() {
    let mut script = server();
    let address = script.line();
    let long = format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "x".repeat(20_000));
    let huge = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "x".repeat(70_000));
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        (
            "GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            400,
        ),
        ("GET / HTTP/1.1\r\nhost: a\r\n bad: x\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 1, 2\r\n\r\n", 400),
        ("nonsense\r\n\r\n", 400),
        ("\r\n\r\n", 400),
        ("CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n", 501),
        ("GET / HTTP/1.1\r\nhost: a\r\nexpect: money\r\n\r\n", 417),
        (long.as_str(), 414),
        (huge.as_str(), 431),
    ] {
        let answer = ask(&address, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
    }
}

#[test]
fn half_an_answer_does_not_look_whole() {
    let mut script = server();
    let address = script.line();
    let answer = ask(&address, "GET /fails HTTP/1.1\r\nhost: a\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 500 ") && answer.ends_with("Error\n"), "{answer}");
    let answer = ask(&address, "GET /silent HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    for path in ["/half", "/short"] {
        let mut peer = Peer::new(&address);
        peer.send(&format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
        let ended = std::io::Read::read_to_end(&mut peer.0, &mut Vec::new());
        assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset, "{path}");
    }
    let log = script.log();
    assert!(log.contains("on purpose") && log.contains("half way"), "{log}");
    assert!(log.contains("the handler of GET /silent gave no answer"), "{log}");
}

#[test]
fn clients_ask_and_use_connections_again() {
    reports(
        &format!(
            "{SERVER}
         local seen, count = {{}}, 0
         local l = listen(function(s)
            if not seen[s.conn] then seen[s.conn] = true count = count + 1 end
            local body = s:readall()
            if s.path == '/stream' then
                s:respond(200, {{['set-cookie'] = {{'a=1', 'b=2'}}}})
                for i = 1, 3 do s:write('part' .. i .. ' ') end
                return s:closewrite()
            end
            s:respond(201, {{['x-method'] = s.method, ['x-path'] = s.path, ['x-agent'] = s.header['user-agent']}})
            s:closewrite('<' .. body .. '>')
         end)
         local url = 'http://' .. l.addr
         local r = assert(http.get(url .. '/a?b=c', {{['user-agent'] = 'me'}}))
         report(r.status, r.header['x-method'], r.header['x-path'], r.header['x-agent'], r.body)
         r = assert(http.post(url, {{}}, 'content'))
         report(r.status, r.header['x-path'], r.body, r.version)
         local s = assert(http.request('PUT', url .. '/p', {{['content-length'] = 4}}))
         report(s:write('ab'), s:closewrite('cd'))
         report((s:readheader()), s.status, s:read(2), s:readall(), select(2, s:read()) == errno.EOF, s:close())
         s = assert(http.request('POST', url .. '/stream', {{}}))
         s:write('chunk') s:write('ed')
         local status, header = s:waitresponse()
         report(status, header['set-cookie'][1], header['set-cookie'][2], s:read(6), s:readall())
         s:close()
         report(count)
         s = assert(http.request('GET', url .. '/x', nil, true)) report((s:readheader())) s:close()
         report(http.get('ftp://x'))
         report(http.get('http://a b/'))
         report((http.get('http://127.0.0.1:1/')), (pcall(http.request, 'BAD METHOD', url)))"
        ),
        &[
            "201 GET /a me <>",
            "201 / <content> HTTP/1.1",
            "true true",
            "201 201 <a bcd> true true",
            "200 a=1 b=2 part1  part2 part3",
            "1",
            "201",
            "nil the URL begins with neither http:// nor https://",
            "nil the URL has no host, or something that no URL holds",
            "nil false",
        ],
    );
}

#[test]
fn a_connection_that_went_away_meanwhile_is_replaced() {
    let mut script = Scripted::start(&format!(
        "{SERVER}
         local conns = {{}}
         local l = listen(function(s) conns[#conns + 1] = s.conn s:respond(200, {{}}) s:closewrite('x') end)
         local client = http.newclient()
         report(client:get('http://' .. l.addr).body)
         conns[1]:close()
         time.sleep(0)
         report(client:get('http://' .. l.addr).body, #conns)
         client:close()"
    ));
    script.expect(&["x", "x 2"]);
}

#[test]
fn answers_that_are_none_are_errors() {
    let mut script = Scripted::start(
        "local http = require 'silly.net.http'
         local answers = {
            'HTTP/1.1 100 Continue\\r\\n\\r\\nHTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok',
            'HTTP/1.0 200 OK\\r\\n\\r\\nuntil the end',
            'HTTP/1.1 200 OK\\r\\ncontent-length: 5\\r\\n\\r\\nabc',
            'HTTP/1.1 200 OK\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n3\\r\\nabc\\r\\n',
            'SMTP ready\\r\\n\\r\\n',
            'HTTP/1.1 200 OK\\r\\ncontent-length: 1\\r\\ncontent-length: 2\\r\\n\\r\\nab',
            '',
         }
         local at = 0
         local l = tcp.listen{addr = '127.0.0.1:0', accept = function(c)
            at = at + 1
            c:read('\\r\\n\\r\\n') c:write(answers[at]) c:close()
         end}
         local client = http.newclient{timeout = 20000}
         for i = 1, #answers do
            local r, problem = client:get('http://' .. l.addr .. '/')
            report(r and r.body, problem)
         end",
    );
    script.expect(&[
        "ok nil",
        "until the end nil",
        "nil Protocol error (71)",
        "nil Protocol error (71)",
        "nil the answer is no HTTP: malformed",
        "nil the answer is no HTTP: malformed",
        "nil End of file (10005)",
    ]);
}

#[test]
fn all_of_it_may_be_encrypted() {
    let mut script = super::tls::start(
        "local http = require 'silly.net.http'
         local l = assert(http.listen{addr = '127.0.0.1:0', tls = true, certs = certs, handler = function(s)
            s:respond(200, {}) s:closewrite(s.scheme .. ' ' .. s:readall())
         end})
         local port = l.addr:match('%d+$')
         local client = http.newclient{ca = env.get 'cert'}
         report(client:post('https://localhost:' .. port, {}, 'body').body)
         report((http.get('https://localhost:' .. port)))",
    );
    script.expect(&["https body", "nil"]);
}
