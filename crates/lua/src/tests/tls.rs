//! `silly.net.tls` as documented.

use std::io::Write;

use super::scripted::Scripted;

/// A certificate for localhost and 127.0.0.1, and its key.
pub(super) fn certificate() -> (String, String) {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

pub(super) fn start(script: &str) -> Scripted {
    let script = format!(
        "local tls = require 'silly.net.tls'
         local certs = {{{{cert = env.get 'cert', key = env.get 'key'}}}}
         local function listen(t) t.addr, t.certs = '127.0.0.1:0', certs return assert(tls.listen(t)) end
         {script}"
    );
    Scripted::start_with(&script, |settings| {
        let (certificate, key) = certificate();
        settings.variables.push(("cert".to_owned(), certificate));
        settings.variables.push(("key".to_owned(), key));
    })
}

#[test]
fn connections_are_encrypted_and_otherwise_the_same() {
    let mut script = start(
        "local l = listen{accept = function(c, addr)
            report('server', addr == c.remoteaddr, c:alpnproto())
            while true do
                local line = c:read('\\n')
                if not line then break end
                c:write{line:upper(), '!\\n'}
            end
            c:write('over') c:close()
         end}
         local c = assert(tls.connect(l.addr, {hostname = 'localhost', ca = env.get 'cert', timeout = 30000}))
         report(c.remoteaddr == l.addr, c:alpnproto(), c:isalive())
         c:write('hello\\n') report((c:read('\\n'):gsub('\\n', '')), c:read('\\n') == '!\\n')
         local big = ('x'):rep(300000)
         c:write(big .. '\\n') report(#tls.readline(c, '\\n'))
         report(c:read(2) == '!\\n' and select(2, c:read(1, 1)) == errno.TIMEDOUT)
         report(c:close(), select(2, c:close()) == errno.CLOSED, select(2, c:write('x')) == errno.CLOSED)",
    );
    let mut lines: Vec<String> = (0..2).map(|_| script.line()).collect();
    lines.sort();
    assert_eq!(lines, ["server true nil", "true nil true"]);
    script.expect(&["HELLO true", "300001", "true", "true true true"]);
}

#[test]
fn both_sides_agree_on_a_protocol() {
    let mut script = start(
        "local l = listen{alpnprotos = {'h2', 'http/1.1'}, accept = function(c) c:write(c:alpnproto() or 'none') c:close() end}
         for _, protos in ipairs{{'http/1.1'}, {'http/1.1', 'h2'}, {}} do
            local c = assert(tls.connect(l.addr, {ca = env.get 'cert', alpnprotos = protos}))
            report(c:alpnproto(), (c:read(4)))
         end
         report(tls.connect(l.addr, {ca = env.get 'cert', alpnprotos = {'other'}}))",
    );
    script.expect(&["http/1.1 http", "h2 nil", "nil none"]);
    let line = script.line();
    assert!(line.starts_with("nil Encryption failed (10006) "), "{line}");
}

#[test]
fn who_is_not_believed_gets_nothing() {
    let mut script = start(
        "local l = listen{accept = function(c) report(c:read('\\n')) end}
         local function try(options)
            local c, problem, why = tls.connect(l.addr, options)
            report(c, problem == errno.TLS, why)
         end
         try()
         try{hostname = 'example.org', ca = env.get 'cert'}
         try{ca = 'no certificate'}
         local c = assert(tls.connect(l.addr, {insecure = true}))
         c:write('trusted blindly\\n')",
    );
    for _ in 0..3 {
        let line = script.line();
        assert!(line.starts_with("nil true ") && !line.ends_with("nil"), "{line}");
    }
    script.expect(&["trusted blindly"]);
}

#[test]
fn certificates_are_replaced_while_it_runs() {
    let (certificate, key) = certificate();
    let mut script = Scripted::start_with(
        "local tls = require 'silly.net.tls'
         local old, new = {{cert = env.get 'cert', key = env.get 'key'}}, {{cert = env.get 'cert2', key = env.get 'key2'}}
         local l = assert(tls.listen{addr = '127.0.0.1:0', certs = old, accept = function(c) c:write('x') end})
         report((tls.connect(l.addr, {ca = env.get 'cert'})) ~= nil, (tls.connect(l.addr, {ca = env.get 'cert2'})) ~= nil)
         report(l:reload{certs = new})
         report((tls.connect(l.addr, {ca = env.get 'cert'})) ~= nil, (tls.connect(l.addr, {ca = env.get 'cert2'})) ~= nil)
         report((l:reload{certs = {{cert = env.get 'cert', key = env.get 'key2'}}}), (l:reload{certs = {}}), (l:reload()))
         report((tls.connect(l.addr, {ca = env.get 'cert2'})) ~= nil, l:close(), (l:close()))
         report((tls.listen{addr = '127.0.0.1:0', certs = {}, accept = print}), (pcall(tls.listen, {addr = '127.0.0.1:0', certs = {{}}, accept = print})),
            (tls.listen{addr = '127.0.0.1:0', certs = old, ciphers = 'ECDHE-NONSENSE', accept = print}))",
        |settings| {
            for (name, text) in [("cert", certificate), ("key", key)] {
                settings.variables.push((name.to_owned(), text));
            }
            let (certificate, key) = self::certificate();
            settings.variables.push(("cert2".to_owned(), certificate));
            settings.variables.push(("key2".to_owned(), key));
        },
    );
    script.expect(&[
        "true false",
        "true",
        "false true",
        "false false true",
        "true true false",
        "nil false nil",
    ]);
}

#[test]
fn who_speaks_no_tls_costs_only_himself() {
    let mut script = start(
        "local l = listen{ciphers = 'TLS_AES_128_GCM_SHA256:ECDHE-ECDSA-AES128-GCM-SHA256', accept = function(c) c:write('good') c:close() end}
         report(l.addr)
         serve(function(c) c:read(1) report((assert(tls.connect(l.addr, {ca = env.get 'cert'})):read(4))) end)",
    );
    let address = script.line();
    let mut silent = super::scripted::Peer::new(&address);
    let mut rude = super::scripted::Peer::new(&address);
    rude.0.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    rude.0.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    // However it is told, it is over.
    let _ = std::io::Read::read_to_end(&mut rude.0, &mut Vec::new());
    let mut judge = script.connect();
    judge.send("x");
    script.expect(&["good"]);
    silent.send("\u{16}\u{3}\u{1}");
    let log = script.log();
    assert!(log.contains("info: connection of 127.0.0.1:"), "{log}");
}
