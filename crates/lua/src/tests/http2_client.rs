//! Requests of scripts over HTTP/2: they share a connection, and servers that break rules or leave are told of.

use super::scripted::Scripted;
use super::tls::certificate;

const BEGIN: &str = "local http, tls = require 'silly.net.http', require 'silly.net.tls'
    local waitgroup = require 'silly.sync.waitgroup'
    local certs = {{cert = env.get 'cert', key = env.get 'key'}}
    local asks = {ca = env.get 'cert', hostname = 'localhost', timeout = 30000}
    local client = http.newclient(asks)
    -- A server whose connections are served by hand: so many bytes are read, then these are sent.
    local function frame(kind, flags, id, payload)
        return string.char(0, 0, #payload, kind, flags, 0, 0, 0, id) .. payload
    end
    local HELLO = frame(4, 0, 0, '')
    local function by_hand(accept)
        local l = assert(tls.listen{addr = '127.0.0.1:0', certs = certs, alpnprotos = {'h2'}, accept = accept})
        return 'https://' .. l.addr .. '/'
    end
    -- Reads frames until one of this kind; gives its stream.
    local function await(c, kind)
        while true do
            local head = c:read(9)
            if not head then return nil end
            local a, b, d, found, _, _, _, _, id = head:byte(1, 9)
            c:read(a * 65536 + b * 256 + d)
            if found == kind then return id end
        end
    end
    local function begin(c) c:write(HELLO) return c:read(24) end
    local function listen(handler, more)
        local t = {addr = '127.0.0.1:0', tls = true, certs = certs, alpnprotos = {'h2', 'http/1.1'}, handler = handler}
        for k, v in pairs(more or {}) do t[k] = v end
        return 'https://' .. assert(http.listen(t)).addr .. '/'
    end\n";

fn start(script: &str) -> Scripted {
    Scripted::start_with(&format!("{BEGIN}{script}"), |settings| {
        let (certificate, key) = certificate();
        settings.variables.push(("cert".to_owned(), certificate));
        settings.variables.push(("key".to_owned(), key));
    })
}

#[test]
fn requests_share_a_connection() {
    let mut script = start(
        "local peers, count = {}, 0
         local url = listen(function(s)
            if not peers[s.remoteaddr] then peers[s.remoteaddr] = true count = count + 1 end
            local body = s:readall()
            s:respond(200, {['x-method'] = s.method, ['x-host'] = s.header.host})
            s:closewrite(body .. s.path, {['x-trailer'] = 'behind'})
         end)
         local group, good = waitgroup.new(), 0
         for i = 1, 250 do
            group:fork(function()
                local answer = assert(client:get(url .. i))
                if answer.body == '/' .. i and answer.version == 'HTTP/2' then good = good + 1 end
            end)
         end
         group:wait()
         report(good, count)
         local large = ('x'):rep(300000)
         local answer = client:post(url .. 'p', {}, large)
         report(answer.status, answer.body == large .. '/p', answer.header['x-method'])
         local s = client:request('PUT', url .. 'q', {host = 'other.example'})
         report(s.version, s:write('a'), s:write{'b', 'c'}, s:closewrite('d', {['x-t'] = '1'}))
         report(s:readheader()) report(s.header['x-host'], s:read(2), s:read(), s:readall(), s.trailer['x-trailer'], s:close())
         local s = client:request('HEAD', url, {}, true)
         report(s:readheader()) report(s:readall() == '', s:close())
         -- One that is given up does not take the others with it.
         local s = client:request('POST', url) s:write('a') s:close()
         report(client:get(url).status, count)
         report(http.newclient{ca = env.get 'cert', hostname = 'localhost', alpnprotos = {'http/1.1'}}:get(url).version, count)
         client:close() report(client:get(url).status, count)",
    );
    script.expect(&["250 1", "200 true POST", "HTTP/2 true true true"]);
    assert!(script.line().starts_with("200 table"));
    script.expect(&["other.example ab cd/q  behind true"]);
    assert!(script.line().starts_with("200 table"));
    script.expect(&["true true", "200 1", "HTTP/1.1 2", "200 3"]);
}

#[test]
fn servers_without_it_are_asked_as_before() {
    let mut script = start(
        "local url = listen(function(s) s:respond(200, {}) s:closewrite(s.version) end, {alpnprotos = {'http/1.1'}})
         local group, good = waitgroup.new(), 0
         for i = 1, 20 do
            group:fork(function() if client:get(url).body == 'HTTP/1.1' then good = good + 1 end end)
         end
         group:wait()
         report(good, client:get(url).version)
         report(http.newclient{ca = env.get 'cert', hostname = 'other', timeout = 30000}:get(url))",
    );
    script.expect(&["20 HTTP/1.1"]);
    assert!(script.line().starts_with("nil Encryption failed (10006)"));
}

#[test]
fn content_waits_for_its_reader() {
    let mut script = start(
        "local url = listen(function(s)
            s:respond(200, {})
            report(s.path, s:closewrite(('x'):rep(s.path == '/large' and 1000000 or 10)))
         end)
         local s = client:request('GET', url .. 'large', {}, true)
         report((s:readheader()))
         report(#client:get(url .. 'small').body)
         report(#s:readall())",
    );
    let mut lines: Vec<String> = (0..5).map(|_| script.line()).collect();
    // The large answer has not come to its end before it was read.
    let small = lines.iter().position(|line| line == "10").unwrap();
    assert!(!lines[..small].contains(&"/large true".to_owned()), "{lines:?}");
    lines.sort();
    assert_eq!(lines, ["/large true", "/small true", "10", "1000000", "200"]);
}

#[test]
fn what_was_not_looked_at_is_asked_again() {
    let mut script = start(
        "local asked, connections = 0, 0
         -- The first request of a connection is answered, then the server leaves: with what follows it has nothing to do.
         local url = by_hand(function(c)
            begin(c)
            connections = connections + 1
            local id = await(c, 1)
            c:write(frame(1, 5, id, '\\x88'))
            local id = await(c, 1)
            if id then c:write(frame(7, 0, 0, '\\0\\0\\0\\1\\0\\0\\0\\0')) end
            await(c, 99)
         end)
         report(client:get(url).status, connections)
         report(client:get(url).status, connections)
         -- Content that was sent is not sent twice.
         report(client:post(url, {}, 'content'))
         -- Refused once.
         local refused = 0
         local url = by_hand(function(c)
            begin(c)
            while true do
                local id = await(c, 1)
                if not id then return end
                refused = refused + 1
                c:write(refused == 1 and frame(3, 0, id, '\\0\\0\\0\\7') or frame(1, 5, id, '\\x88'))
            end
         end)
         report(client:get(url).status, refused)
         -- Broken off once.
         local broken = 0
         local url = by_hand(function(c)
            begin(c)
            while true do
                local id = await(c, 1)
                if not id then return end
                broken = broken + 1
                if broken == 2 then c:close() return end
                c:write(frame(1, 5, id, '\\x88'))
            end
         end)
         report(client:get(url).status, client:get(url).status, broken)",
    );
    script.expect(&["200 1", "200 2", "nil Connection reset by peer (104)", "200 2", "200 200 3"]);
}

#[test]
fn servers_that_break_rules_are_errors() {
    let mut script = start(
        "local function ask(answer, last)
            local url = by_hand(function(c)
                begin(c)
                while true do
                    local id = await(c, 1)
                    if not id then return end
                    c:write(answer(id))
                    if last then c:close() return end
                end
            end)
            local made = assert(client:request('POST', url))
            made:closewrite('x')
            local status, head = made:readheader()
            local text, problem
            if status then text, problem = made:readall() end
            made:close()
            return status, not status and head or text or problem
         end
         report('reset', ask(function(id) return frame(3, 0, id, '\\0\\0\\0\\2') end))
         report('cut', ask(function(id) return frame(1, 4, id, '\\x88') .. frame(0, 0, id, 'half') end, true))
         report('late reset', ask(function(id) return frame(1, 4, id, '\\x88') .. frame(3, 0, id, '\\0\\0\\0\\2') end))
         report('not pending', ask(function(id) return frame(1, 5, id, '\\x88') .. frame(3, 0, id, '\\0\\0\\0\\0') end))
         report('garbage', ask(function() return ('garbage'):rep(100) end))
         report('block', ask(function(id) return frame(1, 5, id, ('\\255'):rep(50)) end))
         report('head', ask(function(id) return frame(1, 5, id, '\\x82') end))
         report('push', ask(function(id) return frame(5, 4, id, '\\0\\0\\0\\2\\x82') end))
         report('other', ask(function(id) return frame(1, 5, id + 2, '\\x88') end))
         report('pings', ask(function(id) return frame(6, 0, 0, '12345678'):rep(2000) end))
         report('closed', ask(function(id) return '' end, true))
         report('interim', ask(function(id) return frame(1, 4, id, '\\8\\003103') .. frame(1, 5, id, '\\x88') end))
         -- Nothing comes at all: the next request takes another connection.
         local made, silent = 0, http.newclient{ca = env.get 'cert', hostname = 'localhost', timeout = 100, connecttimeout = 30000}
         local url = by_hand(function(c) begin(c) made = made + 1 await(c, 99) end)
         report('silent', silent:get(url)) report('silent', silent:get(url)) report(made)",
    );
    script.expect(&[
        "reset nil Connection reset by peer (104)",
        "cut 200 Connection reset by peer (104)",
        "late reset 200 Connection reset by peer (104)",
        "not pending 200",
    ]);
    for name in ["garbage", "block", "head", "push", "other", "pings"] {
        assert_eq!(script.line(), format!("{name} nil Protocol error (71)"));
    }
    script.expect(&[
        "closed nil Connection reset by peer (104)",
        "interim 200",
        "silent nil Operation timed out (110)",
        "silent nil Operation timed out (110)",
        "2",
    ]);
}
