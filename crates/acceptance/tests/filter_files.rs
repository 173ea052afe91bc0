//! Files that filters are made of are watched: what changes in them holds without a reload.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::os::unix::fs::symlink;
use std::path::Path;

use sluice_acceptance::filters::{ask, ask_both};
use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{PlaceOf, Scratch, Sluice, place_file};

const FAILURES: &str = "sluice_filter_file_failures_total";

fn replace(path: &Path, bytes: impl AsRef<[u8]>) {
    let new = path.with_extension("new");
    std::fs::write(&new, bytes).unwrap();
    std::fs::rename(new, path).unwrap();
}

/// Does something to a file, and waits until it holds for this filter.
fn renewed(gateway: &Sluice, filter: &str, change: impl FnOnce()) {
    let mark = gateway.words().mark();
    change();
    let line = format!("made anew of changed files: filter \"{filter}\"");
    assert!(gateway.words().wait_after(mark, &line).is_some(), "{:?}", gateway.stderr());
}

fn with_key(gateway: &Sluice, path: &str, key: &str) -> u16 {
    ask_both(gateway, path, &["-H", &format!("X-API-Key: {key}")], &[]).status
}

/// A route below `/keys` that wants a key of the file, and one that a filter answers from another file.
fn two_files(keys: &Path, text: &Path) -> String {
    config(&format!(
        "[filter.keys]\nkey_auth = {{ keys_file = \"{}\" }}\n\
         [filter.text]\nrespond = {{ file = \"{}\" }}\n\
         [filter.calm]\nrate_limit = {{ limits = \"2/h\", key = \"all\" }}\n\
         [[route]]\npath = \"/keys\"\nfilters = [\"keys\"]\nrespond = \"in\"\n\
         [[route]]\npath = \"/text\"\nfilters = [\"text\"]\nrespond = \"no\"\n\
         [[route]]\npath = \"/calm\"\nfilters = [\"calm\"]\nrespond = \"calm\"\n",
        keys.display(),
        text.display()
    ))
}

const OLD: &str = "old-key-0123456789";
const NEW: &str = "new-key-0123456789";

#[test]
fn a_file_may_be_edited_or_replaced_and_other_filters_go_on() {
    let scratch = Scratch::new();
    let (keys, text) = (scratch.path().join("keys"), scratch.path().join("text"));
    std::fs::write(&keys, format!("shop:{OLD}\n")).unwrap();
    std::fs::write(&text, "one").unwrap();
    let gateway = Sluice::start(&two_files(&keys, &text));
    assert_eq!((with_key(&gateway, "/keys", OLD), with_key(&gateway, "/keys", NEW)), (200, 401));
    assert_eq!(ask(&gateway, "/calm", &[]).status, 200);

    renewed(&gateway, "keys", || std::fs::write(&keys, format!("shop:{NEW}\n")).unwrap());
    assert_eq!((with_key(&gateway, "/keys", OLD), with_key(&gateway, "/keys", NEW)), (401, 200));
    renewed(&gateway, "text", || replace(&text, "two"));
    assert_eq!(ask_both(&gateway, "/text", &[], &[]).content, "two");

    // What another filter has counted, it goes on from; nothing was reloaded.
    assert_eq!(ask(&gateway, "/calm", &[]).status, 200);
    assert_eq!(ask(&gateway, "/calm", &[]).status, 429);
    assert_eq!(metric(&gateway.admin(), "sluice_reloads_total{result=\"ok\"}"), 0);
    assert_eq!(metric(&gateway.admin(), FAILURES), 0);
    gateway.stop();
}

#[test]
fn a_file_that_cannot_be_used_leaves_the_filter_as_it_was() {
    let scratch = Scratch::new();
    let (keys, text) = (scratch.path().join("keys"), scratch.path().join("text"));
    std::fs::write(&keys, format!("shop:{OLD}\n")).unwrap();
    std::fs::write(&text, "one").unwrap();
    let gateway = Sluice::start(&two_files(&keys, &text));
    let failures = || metric(&gateway.admin(), FAILURES);

    replace(&keys, "no colon in here\n");
    gateway.wait_for_line("cannot use the changed file: filter \"keys\", key_auth");
    // Twice, where it changed before the files were looked at once more, which is done when they begin to be watched.
    assert!(eventually(|| failures() >= 1));
    assert_eq!((with_key(&gateway, "/keys", OLD), with_key(&gateway, "/keys", NEW)), (200, 401));
    // Others do not wait until it is mended.
    renewed(&gateway, "text", || replace(&text, "two"));
    assert_eq!(ask_both(&gateway, "/text", &[], &[]).content, "two");
    assert_eq!(with_key(&gateway, "/keys", OLD), 200);

    let (mark, before) = (gateway.words().mark(), failures());
    std::fs::remove_file(&keys).unwrap();
    assert!(gateway.words().wait_after(mark, "no such file").is_some());
    assert_eq!(with_key(&gateway, "/keys", OLD), 200);
    assert!(eventually(|| failures() > before));

    renewed(&gateway, "keys", || std::fs::write(&keys, format!("shop:{NEW}\n")).unwrap());
    assert_eq!((with_key(&gateway, "/keys", OLD), with_key(&gateway, "/keys", NEW)), (401, 200));
    // The key that was wrong shows nowhere.
    assert!(!gateway.stderr().iter().any(|line| line.contains("no colon in here")));
    gateway.stop();
}

#[test]
fn an_emptied_file_lets_nobody_in() {
    let scratch = Scratch::new();
    let (keys, text) = (scratch.path().join("keys"), scratch.path().join("text"));
    std::fs::write(&keys, format!("shop:{OLD}\n")).unwrap();
    std::fs::write(&text, "one").unwrap();
    let gateway = Sluice::start(&two_files(&keys, &text));
    for emptied in ["", "# nobody is left\n"] {
        assert_eq!(with_key(&gateway, "/keys", OLD), 200);
        renewed(&gateway, "keys", || replace(&keys, emptied));
        assert_eq!(with_key(&gateway, "/keys", OLD), 401, "{emptied:?}");
        assert_eq!(with_key(&gateway, "/keys", ""), 401, "{emptied:?}");
        // What is gone is not emptied: nobody is let in or shut out by that.
        let mark = gateway.words().mark();
        std::fs::remove_file(&keys).unwrap();
        assert!(gateway.words().wait_after(mark, "no such file").is_some());
        renewed(&gateway, "keys", || std::fs::write(&keys, format!("shop:{OLD}\n")).unwrap());
    }
    gateway.stop();
}

#[test]
fn users_secrets_and_key_sets_are_emptied_too() {
    let scratch = Scratch::new();
    let file = |name: &str| scratch.path().join(name);
    let hash = "$2y$04$abcdefghijklmnopqrstuuxbOxBzZl0hXwqXQ9MTGXCkbCeAPRFvC";
    let set = format!(
        "{{\"keys\":[{{\"kty\":\"oct\",\"alg\":\"HS256\",\"k\":\"{}\"}}]}}",
        "A".repeat(43)
    );
    let rows = [
        ("users", format!("eva:{hash}\n"), "", "basic_auth = { users_file"),
        ("hmac", "reports:a-long-enough-key\n".to_owned(), "\n", "hmac_auth = { keys_file"),
        ("set", set, "{\"keys\":[]}", "jwt = { jwks_file"),
    ];
    let mut text = String::new();
    for (name, content, _, options) in &rows {
        std::fs::write(file(name), content).unwrap();
        let path = file(name);
        text += &format!("[filter.{name}]\n{options} = \"{}\" }}\n", path.display());
        text += &format!("[[route]]\npath = \"/{name}\"\nrespond = \"in\"\nfilters = \"{name}\"\n");
    }
    let gateway = Sluice::start(&config(&text));
    for (name, _, emptied, _) in rows {
        renewed(&gateway, name, || replace(&file(name), emptied));
        assert_eq!(ask_both(&gateway, &format!("/{name}"), &[], &[]).status, 401, "{name}");
    }
    assert_eq!(metric(&gateway.admin(), FAILURES), 0);
    gateway.stop();
}

#[test]
fn a_swapped_link_is_a_change() {
    // As Kubernetes mounts a Secret: keys -> ..data/keys, ..data -> ..version.
    let scratch = Scratch::new();
    let directory = scratch.path();
    for (version, key) in [("..1", OLD), ("..2", NEW)] {
        std::fs::create_dir(directory.join(version)).unwrap();
        std::fs::write(directory.join(version).join("keys"), format!("shop:{key}\n")).unwrap();
    }
    std::fs::write(directory.join("text"), "one").unwrap();
    symlink("..1", directory.join("..data")).unwrap();
    symlink("..data/keys", directory.join("keys")).unwrap();
    let gateway = Sluice::start(&two_files(&directory.join("keys"), &directory.join("text")));
    assert_eq!(with_key(&gateway, "/keys", OLD), 200);
    symlink("..2", directory.join("..data_tmp")).unwrap();
    renewed(&gateway, "keys", || {
        std::fs::rename(directory.join("..data_tmp"), directory.join("..data")).unwrap();
    });
    assert_eq!((with_key(&gateway, "/keys", OLD), with_key(&gateway, "/keys", NEW)), (401, 200));
    // The directory that the link leads to now is watched as well.
    renewed(&gateway, "keys", || {
        std::fs::write(directory.join("..2/keys"), format!("shop:{OLD}\n")).unwrap();
    });
    assert_eq!((with_key(&gateway, "/keys", OLD), with_key(&gateway, "/keys", NEW)), (200, 401));
    gateway.stop();
}

#[test]
fn databases_and_lists_are_watched_and_so_are_files_that_a_reload_brings() {
    let scratch = Scratch::new();
    let file = |name: &str| scratch.path().join(name);
    let place = |country: &'static str| {
        place_file(&[PlaceOf { network: "127.0.0.0/8", country, continent: "EU", asn: 0 }])
    };
    std::fs::write(file("places"), place("DE")).unwrap();
    std::fs::write(file("list"), "10.0.0.1\n").unwrap();
    let text = |list: &str| {
        config(&format!(
            "[filter.geo]\ngeo = {{ files = \"{}\", allow_countries = \"DE\" }}\n\
             [filter.ip]\nip = {{ deny_files = \"{}\" }}\n\
             [[route]]\npath = \"/geo\"\nfilters = [\"geo\"]\nrespond = \"in\"\n\
             [[route]]\npath = \"/ip\"\nfilters = [\"ip\"]\nrespond = \"in\"\n",
            file("places").display(),
            file(list).display()
        ))
    };
    let gateway = Sluice::start(&text("list"));
    let status = |path: &str| ask_both(&gateway, path, &[], &[]).status;
    assert_eq!((status("/geo"), status("/ip")), (200, 200));
    renewed(&gateway, "geo", || replace(&file("places"), place("FR")));
    renewed(&gateway, "ip", || replace(&file("list"), "127.0.0.1\n"));
    assert_eq!((status("/geo"), status("/ip")), (403, 403));

    std::fs::write(file("other"), "10.0.0.1\n").unwrap();
    gateway.reload(&text("other"));
    assert_eq!((status("/geo"), status("/ip")), (403, 200));
    renewed(&gateway, "ip", || replace(&file("other"), "127.0.0.1\n"));
    assert_eq!((status("/geo"), status("/ip")), (403, 403));
    gateway.stop();
}
