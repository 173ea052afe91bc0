//! Header fields are added, changed and removed, whatever requests come by.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluice_acceptance::config;
use sluice_acceptance::filters::{ask, ask_both, page_example};
use sluice_testkit::{Origin, Sluice, behaviour};

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let gateway = Sluice::start(&page_example("headers.md", &[], ""));
    let fields = ["x-served-by", "cache-control", "x-frame-options"];
    let reply = ask_both(&gateway, "/", &[], &fields);
    assert_eq!((reply.status, reply.content.as_str()), (200, "welcome\n"));
    assert_eq!(reply.value("x-served-by"), "/* on web");
    assert_eq!(reply.values("cache-control"), ["no-store"]);
    assert_eq!(reply.values("x-frame-options"), ["DENY"]);
    gateway.stop();
}

/// An origin that shows what it was sent, behind these filters.
fn echoing(filter: &str) -> (Origin, Sluice) {
    let origin = Origin::start(behaviour::fixed(200, "ok"));
    let gateway = Sluice::start(&config(&format!(
        "[[route]]\nproxy = \"http://{}\"\nfilters = [{{ headers = {filter} }}]\n",
        origin.address()
    )));
    (origin, gateway)
}

#[test]
fn origins_see_what_is_left() {
    let (origin, gateway) = echoing(
        "{ request = { remove = [\"x-internal-*\", \"~ ^x-[0-9]+$\"], rename = { x-old = \"x-new\" }, \
         set = { x-user = \"{auth.user}\", x-q = [\"{request.parameter.q}\", \"second\"] } } }",
    );
    let options = [
        "-H",
        "X-Internal-Role: admin",
        "-H",
        "X-7: x",
        "-H",
        "X-Old: moved",
        "-H",
        "x-new: forged",
        "-H",
        "X-User: root",
    ];
    let options = [&options[..], &["-H", "x-keep: kept"]].concat();
    assert_eq!(ask_both(&gateway, "/?q=a%0d%0aevil:%20yes", &options, &[]).status, 200);
    for request in origin.requests() {
        assert!(
            request.fields.first("x-internal-role").is_none()
                && request.fields.first("x-7").is_none()
        );
        assert_eq!(request.fields.all("x-new").collect::<Vec<_>>(), ["moved"]);
        // Nobody has proved to be anybody.
        assert!(
            request.fields.first("x-user").is_none() && request.fields.first("x-old").is_none()
        );
        assert_eq!(request.fields.all("x-q").collect::<Vec<_>>(), ["a  evil: yes", "second"]);
        assert!(request.fields.first("evil").is_none());
        assert_eq!(request.fields.all("x-keep").collect::<Vec<_>>(), ["kept"]);
    }
    assert_eq!(origin.requests().len(), 2);
    gateway.stop();
}

#[test]
fn answers_of_faults_are_changed_if_that_is_wanted() {
    let gateway = Sluice::start(&config(
        "[[route]]\npath = \"/always\"\nproxy = \"http://127.0.0.1:1\"\n\
         filters = [{ headers = { always = true, response = { set = { x-a = \"{response.status}\" } } } }]\n\
         [[route]]\nproxy = \"http://127.0.0.1:1\"\n\
         filters = [{ headers = { response = { set = { x-a = \"b\" } } } }]\n",
    ));
    let always = ask_both(&gateway, "/always", &[], &["x-a"]);
    assert_eq!((always.status, always.value("x-a")), (502, "502"));
    let given = ask_both(&gateway, "/", &[], &["x-a"]);
    assert_eq!((given.status, given.value("x-a")), (502, ""));
    gateway.stop();
}

#[test]
fn fields_come_behind_the_content() {
    let origin = Origin::start(behaviour::fixed(200, "ok"));
    let gateway = Sluice::start(&config(&format!(
        "[[route]]\nproxy = \"http://{}\"\n\
         filters = [{{ headers = {{ trailers = {{ set = {{ x-sum = \"{{response.status}}\" }} }} }} }}]\n",
        origin.address()
    )));
    // curl shows the chunks as they came.
    let reply = ask(&gateway, "/", &["--raw", "-H", "TE: trailers", "-H", "Connection: TE"]);
    assert_eq!(reply.status, 200);
    assert!(reply.content.ends_with("0\r\nx-sum: 200\r\n\r\n"), "{}", reply.content);
    gateway.stop();
}

#[test]
fn what_would_break_a_message_is_refused() {
    let scratch = sluice_testkit::Scratch::new();
    let rows = [
        ("request = { set = { content-length = \"5\" } }", "is written by the gateway itself"),
        ("request = { set = { host = \"a\" } }", "rewrite"),
        ("request = { set = { x = \"{request.hdr.x}\" } }", "there is no fact"),
        ("request = { set = { x = \"{response.status}\" } }", "there is no response yet"),
        ("response = { remove = [\"*\"] }", "this removes all fields"),
        ("response = { remove = [\"~ (\"] }", "regular expression"),
        ("trailers = { set = { content-type = \"a\" } }", "cannot stand behind the content"),
        ("response = { set = { \"a b\" = \"c\" } }", "is not the name of a header"),
    ];
    for (options, message) in rows {
        let text = config(&format!(
            "[[route]]\nrespond = \"ok\"\nfilters = [{{ headers = {{ {options} }} }}]\n"
        ));
        let file = scratch.write("sluice.toml", &text);
        let checked = sluice_testkit::run(&["check", "--config", &file.display().to_string()], "");
        let said = format!("{}{}", checked.stdout, checked.stderr);
        assert!(checked.code != Some(0) && said.contains(message), "{options}: {said}");
    }
}
