//! Every decoder of `wire` has a fuzz target.

use super::Finding;
use super::source::{Kind, Source, is_word, places};

/// Compares what `wire` decodes with what the fuzz targets name.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let targets: String = sources
        .iter()
        .filter(|source| source.path.iter().any(|part| part == "fuzz_targets"))
        .map(|source| source.code.as_str())
        .collect();
    let mut findings = Vec::new();
    let product = sources.iter().filter(|source| {
        source.path.starts_with("crates/wire/src") && source.kind == Kind::Product
    });
    for source in product {
        for (at, name) in decoders(&source.code) {
            if places(&targets, &name).next().is_none() {
                let path = source.path.display().to_string();
                let what = format!("no fuzz target names the decoder `{name}`");
                findings.push(Finding::new("fuzz", &path, source.line_at(at), what));
            }
        }
    }
    findings
}

/// Public types called `...Decoder` and public free functions called `decode...` or `parse...`.
fn decoders(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (keyword, wanted) in [("struct", "Decoder"), ("fn", "decode"), ("fn", "parse")] {
        for at in places(code, keyword) {
            let line = code[..at].rsplit('\n').next().unwrap_or_default();
            let rest = code[at + keyword.len()..].trim_start();
            let length = rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len());
            let name = &rest[..length];
            let fits = if keyword == "struct" {
                name.ends_with(wanted)
            } else {
                // A method is reached through its type.
                name.starts_with(wanted) && line.starts_with("pub ")
            };
            if fits && places(line, "pub").next().is_some() && !line.contains("pub(") {
                found.push((at, name.to_owned()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::source::Source;
    use std::path::Path;

    #[test]
    fn names_decoders_without_a_target() {
        let wire = "pub struct RequestDecoder;\npub struct BodyDecoder<'a>;\nstruct InnerDecoder;\n\
            pub fn decode_size() {}\nimpl X {\n    pub fn parse(&self) {}\n}\npub(crate) fn parse_it() {}\n";
        let target = "fuzz_target!(|data: &[u8]| { RequestDecoder::new(); decode_size(); });";
        let sources = [
            Source::new(Path::new("crates/wire/src/h1/decode.rs"), wire),
            Source::new(Path::new("fuzz/fuzz_targets/request.rs"), target),
        ];
        let found = check(&sources);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].rule, found[0].line), ("fuzz", 2));
    }
}
