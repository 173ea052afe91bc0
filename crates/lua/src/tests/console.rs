//! `silly.console` as documented.

use super::scripted::{Peer, Scripted};

const WELCOME: &str = "\nWelcome to console.\n\nType 'help' for help.\n\nconsole> ";

fn start(more: &str) -> Scripted {
    Scripted::start_with(
        &format!(
            "local l = assert(require 'silly.console' {{addr = '127.0.0.1:0', cmd = {{
                Status = function(fd, ...) return 'fine ' .. table.concat({{...}}, '+') end,
                list = function() return {{'a', 'b'}} end,
                kick = function() return nil end,
                fails = function() error('on purpose') end,
             }}}})
             report(l.addr)
             {more}"
        ),
        |settings| settings.access.clear(),
    )
}

#[test]
fn commands_are_answered() {
    let mut script = start("task.fork(function() time.sleep(1e7) end)");
    let mut peer = script.connect();
    peer.expect(WELCOME);
    for (line, answer) in [
        ("ping\r\n", "PONG\n\nconsole> "),
        ("PING hello world\n", "hello world\n\nconsole> "),
        ("\n", "console> "),
        ("status a b\n", "fine a+b\n\nconsole> "),
        ("LIST\n", "a\nb\n\nconsole> "),
        ("nonsense\n", "ERR unknown 'nonsense', try help\n\nconsole> "),
        ("inject /etc/passwd\n", "ERR the script may not read files (--allow files)\n\nconsole> "),
        ("help\n", "HELP: List command description. [HELP]\n"),
    ] {
        peer.send(line);
        peer.expect(answer);
    }
    peer.send("gc\ninfo\ntask\nfails\nquit\n");
    let rest = peer.rest();
    for part in [
        "STATUS\n",
        "Lua Mem Used:",
        "#Build\nversion:",
        "process_id:",
        "silly_memory_bytes ",
        "#Task (",
        " - SLEEP :\n",
        "on purpose",
        "Bye, Bye\n",
    ] {
        assert!(rest.contains(part), "{part}: {rest}");
    }
    assert!(script.log().contains("info: console come in: 127.0.0.1:"), "{}", script.log());
}

#[test]
fn only_this_machine_and_no_browser_comes_in() {
    let mut script = start(
        "for _, addr in ipairs{'0.0.0.0:0', ':0', '192.0.2.1:0', '[::]:0', 'example.org:0'} do
            report(select(2, pcall(require 'silly.console', {addr = addr})):match('this machine'))
         end",
    );
    let address = script.line();
    script.expect(&["this machine"; 5]);
    for text in ["POST / HTTP/1.1\r\nping evil\r\n", "Host: a\r\nping evil\r\n"] {
        let mut peer = Peer::new(&address);
        peer.expect(WELCOME);
        peer.send(text);
        let mut got = Vec::new();
        // What it had sent after that may make the end a reset.
        let _ = std::io::Read::read_to_end(&mut peer.0, &mut got);
        assert_eq!(String::from_utf8_lossy(&got), "");
    }
    let mut peer = Peer::new(&address);
    peer.expect(WELCOME);
    peer.send("kick\n");
    assert_eq!(peer.rest(), "Bye, Bye\n");
}
