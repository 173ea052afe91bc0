//! `silly.net.udp` as documented.

use std::net::UdpSocket;

use super::modules::reports;
use super::scripted::Scripted;

#[test]
fn datagrams_go_both_ways_whole() {
    reports(
        "local udp = require 'silly.net.udp'
         local server = assert(udp.bind '127.0.0.1:0')
         task.fork(function()
            while true do
                local data, from = server:recvfrom()
                if not data then return report('server', from) end
                udp.sendto(server, {'[', data, ']'}, from)
            end
         end)
         local client = assert(udp.connect(server.addr))
         report(client:sendto('one'), client:sendto(''), udp.sendto(client, ('x'):rep(9000)))
         report(udp.recvfrom(client) == '[one]', (client:recvfrom()), #client:recvfrom(5000))
         report(select(2, client:recvfrom(1)) == errno.TIMEDOUT, client:isalive(), client:unsentbytes(), client:unreadbytes())
         client:sendto('who') report(select(2, client:recvfrom()) == server.addr)
         report(client:sendto(('x'):rep(70000)))
         report(client:close(), client:isalive(), select(2, client:close()) == errno.CLOSED, select(2, client:sendto('x')) == errno.CLOSED,
            select(2, client:recvfrom()) == errno.CLOSED)
         report(server:close())
         time.sleep(0)",
        &[
            "true true true",
            "true [] 9002",
            "true true 0 0",
            "true",
            "false Message too long (90)",
            "true false true true true",
            "true",
            "server Socket is closed (10004)",
        ],
    );
}

#[test]
fn one_task_reads_and_addresses_are_digits() {
    reports(
        "local udp = require 'silly.net.udp'
         local s = assert(udp.bind '127.0.0.1:0')
         task.fork(function() s:recvfrom(10000) end)
         time.sleep(0)
         report(select(2, pcall(s.recvfrom, s)):match('another task'))
         report(select(2, s:sendto('x', 'example.org:80')) == errno.INVAL, select(2, s:sendto('x')) == errno.DESTADDRREQ)
         report((pcall(s.sendto, s)), (pcall(udp.bind)), (pcall(udp.recvfrom, {})), (udp.bind 'nonsense'))
         report(select(2, udp.bind(s.addr)) == errno.ADDRINUSE, (udp.connect 'example.org:80'))
         local own = assert(udp.connect(s.addr, '127.0.0.7:0'))
         report(own.addr:match('^127.0.0.7:') ~= nil)
         s:close()",
        &["another task", "true true", "false false false nil", "true nil", "true"],
    );
}

#[test]
fn sockets_that_are_forgotten_are_closed() {
    let mut script = Scripted::start(
        "local udp = require 'silly.net.udp'
         local s = assert(udp.bind '127.0.0.1:0')
         report(s.addr)
         s = nil
         collectgarbage() collectgarbage()
         report('gone')",
    );
    let address = script.line();
    script.expect(&["gone"]);
    drop(UdpSocket::bind(address).unwrap());
}
