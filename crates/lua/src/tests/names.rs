//! `silly.net.dns` as documented, with a name server of the test.

use sluice_testkit::{NameServer, Resolution, Service};

use super::modules::reports;
use super::scripted::Scripted;

fn with_server(server: &NameServer, script: &str) -> Scripted {
    let address = server.address().to_string();
    let script = format!(
        "local dns = require 'silly.net.dns'
         dns.conf{{nameservers = {{env.get 'server'}}, timeout = 20}}
         {script}"
    );
    Scripted::start_with(&script, |settings| {
        settings.variables.push(("server".to_owned(), address));
    })
}

#[test]
fn names_have_addresses() {
    let server = NameServer::start();
    let addresses = ["192.0.2.1", "192.0.2.2", "2001:db8::1"];
    let addresses = addresses.map(|it| it.parse().unwrap()).to_vec();
    server.set("both.test", Resolution::Addresses(addresses.clone(), 60));
    server.set("alias.test", Resolution::Alias("both.test".to_owned(), addresses, 60));
    server.set("four.test", Resolution::Addresses(vec!["192.0.2.4".parse().unwrap()], 60));
    let mut script = with_server(
        &server,
        "local all = dns.resolve('both.test', dns.A) table.sort(all)
         report(#all, all[1], all[2], dns.lookup('both.test', dns.AAAA))
         report((dns.lookup('alias.test', dns.A):gsub('%d$', '')), dns.lookup('four.test', dns.A), (dns.lookup('four.test', dns.AAAA)))
         report(dns.lookup('nobody.test', dns.A))
         report(dns.lookup('192.0.2.9', dns.A), dns.lookup('::1', dns.AAAA), #dns.resolve('192.0.2.9', dns.A), (dns.lookup('::1', dns.A)))
         report((pcall(dns.lookup, 'x.test', 99)), (pcall(dns.lookup)), (pcall(dns.conf, {nameservers = {'name'}})))",
    );
    script.expect(&[
        "2 192.0.2.1 192.0.2.2 2001:db8::1",
        "192.0.2. 192.0.2.4 nil",
        "nil there is no such name",
        "192.0.2.9 ::1 1 nil",
        "false false false",
    ]);
}

#[test]
fn services_have_servers() {
    let server = NameServer::start();
    let service = |port, target: &str| Service {
        priority: 1,
        weight: 2,
        port,
        target: target.to_owned(),
        along: None,
    };
    let list = vec![service(80, "a.test"), service(81, "b.test")];
    server.set("_http._tcp.test", Resolution::Service(list, 60));
    let mut script = with_server(
        &server,
        "local all = dns.resolve('_http._tcp.test', dns.SRV)
         table.sort(all, function(a, b) return a.port < b.port end)
         for _, it in ipairs(all) do report(it.priority, it.weight, it.port, it.target) end
         report(dns.lookup('_none._tcp.test', dns.SRV))",
    );
    script.expect(&["1 2 80 a.test", "1 2 81 b.test", "nil there is no such name"]);
}

#[test]
fn who_waits_hears_of_other_servers_and_of_the_end_of_time() {
    let server = NameServer::start();
    server.set("silent.test", Resolution::Silence);
    let mut script = with_server(
        &server,
        "report(select(2, dns.lookup('silent.test', dns.A, 5)):match('no answer'))
         task.fork(function() report(dns.lookup('silent.test', dns.A, 600000)) end)
         time.sleep(0)
         dns.conf{nameservers = {env.get 'server'}}
         time.sleep(0)",
    );
    script.expect(&["no answer", "nil Dns reconfigured"]);
}

#[test]
fn a_script_has_names_of_its_own() {
    let server = NameServer::start();
    server.set("short.inside.test", Resolution::Addresses(vec!["192.0.2.8".parse().unwrap()], 60));
    let mut script = with_server(
        &server,
        "dns.sethosts('# comment\\n192.0.2.5 db.local DB2.local # more\\n::5 db.local\\nnonsense\\n')
         report(dns.lookup('db.local', dns.A), dns.lookup('DB.LOCAL', dns.AAAA), dns.lookup('db2.local', dns.A))
         dns.conf{nameservers = {env.get 'server'}, search = {'outside.test', 'inside.test'}}
         report(dns.lookup('short', dns.A))",
    );
    script.expect(&["192.0.2.5 ::5 192.0.2.5", "192.0.2.8"]);
    reports(
        "local dns = require 'silly.net.dns'
         report(dns.isname('www.example.com'), dns.isname('127.0.0.1'), dns.isname('2001:db8::1'), dns.A, dns.AAAA, dns.SRV)
         report(dns.lookup('localhost', dns.A))",
        &["true false false 1 28 33", "127.0.0.1"],
    );
}
