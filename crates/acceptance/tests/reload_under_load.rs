//! A hundred reloads while two load generators run: nothing is lost.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use sluice_acceptance::load::{Wrk, bench};
use sluice_acceptance::{PREAMBLE, config, eventually, metric};
use sluice_testkit::{Origin, Sluice, behaviour, get};

const RELOADS: u64 = 100;

/// The route and the listener under load are in each of them; everything else changes.
fn version(number: u64, origins: &[Origin; 2]) -> String {
    let server = origins[usize::from(number.is_multiple_of(2))].address();
    let paths: String = (0..number % 4)
        .map(|at| format!("[[route]]\npath = \"/{number}/{at}\"\nrespond = \"{at}\"\n\n"))
        .collect();
    let extra = match number % 3 {
        0 => "",
        1 => "[[listener]]\nname = \"extra\"\naddress = \"127.0.0.1:0\"\n\n",
        _ => "[[listener]]\nname = \"file\"\naddress = \"unix:extra.sock\"\n\n",
    };
    let head = ["16KiB", "32KiB"][usize::from(number.is_multiple_of(5))];
    let connections = 5000 + number;
    format!(
        "workers = 2\n{PREAMBLE}limits = {{ head = \"{head}\", connections = {connections} }}\n\n{extra}\
         {paths}[upstream.api]\nservers = [\"{server}\"]\ntimeout = {{ read = \"{}s\" }}\n\n\
         [[route]]\npath = \"/proxied\"\nproxy = \"api\"\n\n\
         [[route]]\npath = \"/direct\"\nrespond = \"version {number}\"\n",
        10 + number % 3
    )
}

#[test]
fn a_hundred_reloads_lose_nothing() {
    let origins = [(); 2].map(|()| Origin::start(behaviour::fixed(200, "origin")));
    let sluice = Sluice::start(&version(0, &origins));
    let (web, admin) = (sluice.address("web"), sluice.admin());
    let wrk = Wrk::start(&["-t1", "-c8", "-d8s"], &format!("http://{web}/direct"));
    let open = |path: &str| {
        let url = format!("http://{web}/{path}");
        std::thread::spawn(move || bench(&["-c", "8", "--rate", "300/s", "-n", "2400", &url]))
    };
    let loads = ["direct", "proxied"].map(open);
    for number in 1..=RELOADS {
        let said = sluice.reload(&version(number, &origins));
        assert!(said.starts_with("reloaded "), "{said}");
    }
    // Whoever asks now gets the last one.
    let last = format!("version {RELOADS}");
    assert!(eventually(|| get(&web, "/direct").text() == last));
    assert!(metric(&admin, "sluice_reloads_total{result=\"ok\"}") >= RELOADS);
    for load in loads {
        load.join().unwrap().assert_good(2400.0);
    }
    wrk.assert_good();
    assert_eq!(metric(&admin, "sluice_panics_total"), 0);
    sluice.stop();
}

#[test]
fn a_listener_that_goes_answers_its_busy_clients_to_the_end() {
    let route = "[[route]]\npath = \"/\"\nrespond = \"x\"\n";
    let extra = "[[listener]]\nname = \"extra\"\naddress = \"127.0.0.1:0\"\n\n";
    let sluice = Sluice::start(&config(&format!("{extra}{route}")));
    let mut clients: Vec<_> =
        (0..8).map(|_| sluice_testkit::ByteScript::connect(&sluice.address("extra"))).collect();
    sluice.reload(&config(route));
    for client in &mut clients {
        // The request was on its way when the listener went.
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = client.read_response(sluice_testkit::Asked::Get).unwrap();
        assert!(answer.fields.has_token("connection", "close"));
        assert_eq!(client.wait_for_end(), sluice_testkit::State::Closed);
    }
    sluice.stop();
}
