//! Files that requests are answered from.

use std::sync::Arc;

use sluice_files::{Attempt, Cache, Encoding, Files, Glob, Listing, Names, Settings};
use sluice_filter::Filter;
use sluice_model::{Files as Wanted, Precompressed};

use super::paths::compared_prefix;
use crate::flaw::plain;

/// What answers from the files of a folder; the error says in plain words why that cannot be.
pub(super) fn files(wanted: &Wanted, workers: usize) -> Result<Arc<dyn Filter>, String> {
    let settings = Settings {
        root: wanted.root.clone(),
        strip_prefix: compared_prefix(&wanted.strip_prefix),
        index: wanted.index.iter().map(|name| name.clone().into_bytes()).collect(),
        attempts: wanted.attempts.iter().map(|text| attempt(text)).collect(),
        listing: if wanted.listing { Listing::On } else { Listing::Off },
        hidden: if wanted.hidden { Names::All } else { Names::Visible },
        types: wanted
            .types
            .iter()
            .map(|(extension, media)| (extension.clone().into_bytes(), media.clone()))
            .collect(),
        default_type: wanted.default_type.clone(),
        charset: wanted.charset.clone(),
        cache_control: wanted
            .cache_control
            .iter()
            .map(|(pattern, value)| (Glob::new(pattern), value.clone()))
            .collect(),
        download: wanted.download.iter().map(|pattern| Glob::new(pattern)).collect(),
        precompressed: wanted
            .precompressed
            .iter()
            .map(|encoding| match encoding {
                Precompressed::Brotli => Encoding::Brotli,
                Precompressed::Zstandard => Encoding::Zstandard,
                Precompressed::Gzip => Encoding::Gzip,
            })
            .collect(),
        cache: Cache {
            entries: usize::try_from(wanted.cache.entries).unwrap_or(usize::MAX),
            memory: wanted.cache.memory,
            file: wanted.cache.file,
            check: wanted.cache.check,
        },
        workers,
    };
    let root = wanted.root.display();
    match Files::new(settings) {
        Ok(files) => Ok(Arc::new(files)),
        Err(error) => Err(format!("files: cannot open the folder {root}: {}", plain(&error))),
    }
}

fn attempt(text: &str) -> Attempt {
    let status = text.strip_prefix('=').and_then(|status| status.parse().ok());
    status.map_or_else(
        || Attempt::Path(text.split("{path}").map(|part| part.as_bytes().to_vec()).collect()),
        Attempt::Status,
    )
}
