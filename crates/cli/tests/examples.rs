//! Every example can be used as it stands.

use std::path::{Path, PathBuf};

use sluice_control::{ConfigSource, check};
use sluice_model::Model;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

#[expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]
fn load(path: PathBuf) -> Model {
    // Where `make run` starts it: paths are seen from there.
    std::env::set_current_dir(folder().join("..")).unwrap();
    let document = ConfigSource::File(path).read();
    let model = document.and_then(|document| check(&document));
    model.unwrap_or_else(|error| panic!("{}", error.render(sluice_model::Style::Plain)))
}

#[test]
fn every_example_loads_without_a_warning() {
    let mut count = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
        if matches!(extension, "toml" | "yaml") {
            assert_eq!(load(path.clone()).warnings, [], "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 6, "{count} examples");
}

#[test]
fn the_quick_start_is_the_same_in_both_notations() {
    assert_eq!(load(folder().join("quickstart.toml")), load(folder().join("quickstart.yaml")));
}
