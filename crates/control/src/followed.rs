//! Files that are watched because something is made of them.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_net::watch::{Watching, watch_files};

/// The files that are watched for one purpose.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    paths: BTreeSet<PathBuf>,
    watching: Option<Watching>,
}

impl Followed {
    /// Watches these files and no others. `deliver` is told which of them is another one; none, when others are
    /// watched from now on: they may have changed between the moment they were read and this one.
    pub(crate) fn follow(
        &mut self,
        paths: BTreeSet<PathBuf>,
        deliver: impl Fn(Option<&Path>) + Send + Sync + 'static,
    ) -> io::Result<()> {
        if paths == self.paths && (self.watching.is_some() || paths.is_empty()) {
            return Ok(());
        }
        self.watching = None;
        self.paths.clone_from(&paths);
        if !paths.is_empty() {
            let deliver = Arc::new(deliver);
            let again = Arc::clone(&deliver);
            self.watching = Some(watch_files(paths, move |path: &Path| again(Some(path)))?);
            deliver(None);
        }
        Ok(())
    }
}
