//! What holds for all filters: order, conditions, names, problems, reloads.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use sluice_acceptance::filters::ask_both;
use sluice_acceptance::{config, metric};
use sluice_testkit::{Scratch, Sluice, run};

#[test]
fn conditions_say_whom_a_filter_is_for() {
    let gateway = Sluice::start(&config(
        "[filter.post]\nwhen = \"request.header['x-strict'] == 'yes'\"\n\
         guard = { methods = [\"POST\"] }\n\
         [filter.late]\nwhen = \"response.status == 404\"\n\
         headers = { response = { set = { x-late = \"1\" } } }\n\
         [[route]]\nrespond = \"ok\"\nfilters = [\"post\", \"late\"]\n",
    ));
    assert_eq!(ask_both(&gateway, "/", &[], &[]).status, 200);
    assert_eq!(ask_both(&gateway, "/", &["-H", "X-Strict: no"], &[]).status, 200);
    let refused = ask_both(&gateway, "/", &["-H", "X-Strict: yes"], &["allow"]);
    assert_eq!((refused.status, refused.value("allow")), (405, "POST"));
    gateway.stop();
}

#[test]
fn filters_of_all_routes_come_first() {
    let text = "filters = [{ guard = { methods = [\"GET\"] } }]\n".to_owned()
        + &config(
            "[[route]]\nrespond = \"ok\"\nfilters = [{ guard = { methods = [\"POST\"] } }]\n",
        );
    let gateway = Sluice::start(&text);
    for (method, allow) in [("GET", "POST"), ("POST", "GET")] {
        let reply = ask_both(&gateway, "/", &["-X", method], &["allow"]);
        assert_eq!((reply.status, reply.value("allow")), (405, allow));
    }
    gateway.stop();
}

#[test]
fn problems_are_told_with_their_place() {
    let scratch = Scratch::new();
    let rows = [
        ("filters = [\"gaurd\"]", "there is no filter \"gaurd\""),
        ("filters = [{}]", "this filter does nothing"),
        ("filters = [{ guard = {}, when = \"request.pth == 'a'\" }]", "request.pth"),
        ("filters = [{ when = \"request.method == 'GET'\" }]", "this filter does nothing"),
        ("filters = [1]", "a filter is a name or a table"),
    ];
    for (filters, message) in rows {
        let text = format!("{}[[route]]\nrespond = \"ok\"\n{filters}\n", config(""));
        let file = scratch.write("sluice.toml", &text);
        let checked = run(&["check", "--config", &file.display().to_string()], "");
        let said = format!("{}{}", checked.stdout, checked.stderr);
        assert!(checked.code != Some(0) && said.contains(message), "{filters}: {said}");
        assert!(said.contains('^'), "{said}");
    }
}

#[test]
fn counts_go_on_over_reloads_and_a_bad_filter_changes_nothing() {
    let text = |limit: u32| {
        config(&format!(
            "[filter.g]\nguard = {{ target = {limit} }}\n[[route]]\nrespond = \"ok\"\nfilters = \"g\"\n"
        ))
    };
    let gateway = Sluice::start(&text(10));
    let passed = || {
        let sample = "sluice_filter_outcomes_total{filter=\"g\",outcome=\"passed\"}";
        metric(&gateway.admin(), sample)
    };
    assert_eq!(ask_both(&gateway, "/abc", &[], &[]).status, 200);
    assert_eq!(passed(), 2);
    gateway.reload(&text(3));
    assert_eq!(ask_both(&gateway, "/abc", &[], &[]).status, 414);
    assert_eq!(ask_both(&gateway, "/a", &[], &[]).status, 200);
    assert_eq!(passed(), 4);
    let bad = text(3).replace("target", "targte");
    let said = gateway.reload(&bad);
    assert!(said.contains("reload failed"), "{said}");
    assert_eq!(ask_both(&gateway, "/abc", &[], &[]).status, 414);
    gateway.stop();
}
