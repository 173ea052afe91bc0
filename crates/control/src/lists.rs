//! The files that list servers, and what each said last.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sluice_model::{Model, Server, ServerAddress, Style, Upstream, parse_servers};
use sluice_net::files;
use sluice_net::watch::{Watching, watch_files};

use crate::document::{ConfigError, Document, text_of};
use crate::flaw::{Flaw, plain};
use crate::names::{Message, News};

/// Bytes of one file; ten thousand servers with all their keys take less.
const LARGEST: usize = 4 << 20;

/// Files in use and the servers they list.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    known: BTreeMap<PathBuf, List>,
    watching: Option<Watching>,
}

#[derive(Debug, Default)]
struct List {
    /// Of the last good reading; nothing if there never was one.
    servers: Option<Vec<Server>>,
    /// What came of the last reading.
    last: Option<Result<String, ConfigError>>,
}

impl Lists {
    /// Watches these files and no others. What was known of one stays known.
    pub(crate) fn follow(
        &mut self,
        paths: BTreeSet<PathBuf>,
        deliver: impl Fn(PathBuf) + Send + 'static,
    ) -> std::io::Result<()> {
        let same = self.known.keys().eq(paths.iter());
        if same && (self.watching.is_some() || paths.is_empty()) {
            return Ok(());
        }
        self.known.retain(|path, _| paths.contains(path));
        for path in &paths {
            self.known.entry(path.clone()).or_default();
        }
        self.watching = None;
        if !paths.is_empty() {
            let deliver = move |path: &Path| deliver(path.to_path_buf());
            self.watching = Some(watch_files(paths, deliver)?);
        }
        Ok(())
    }

    /// The files that are watched.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.known.keys().cloned().collect()
    }

    /// Reads a file again. If that fails, its last good list stays.
    pub(crate) fn read(&mut self, path: &Path, style: Style) -> News {
        // A change may be told of a file that a reload has just removed.
        let Some(list) = self.known.get_mut(path) else { return News::default() };
        let (last, servers) = match read(path) {
            Ok((text, servers)) => (Ok(text), Some(servers)),
            Err(error) => (Err(error), None),
        };
        if list.last.as_ref() == Some(&last) {
            return News { failed: last.is_err(), ..News::default() };
        }
        let news = match (&last, servers) {
            (Err(error), _) => {
                let kept = match &list.servers {
                    None => "none of its servers is known",
                    Some(_) => "its last good servers stay in use",
                };
                let text = format!(
                    "cannot use the list of servers {}: {}; {kept}\n{}",
                    path.display(),
                    error.summary(),
                    error.render(style)
                );
                News { failed: true, message: Some(Message::Warned(text)), ..News::default() }
            }
            (Ok(_), servers) => {
                let servers = servers.unwrap_or_default();
                let changed = list.servers.as_ref() != Some(&servers);
                let first = list.last.is_none();
                let text = format!("{} lists {}", path.display(), count(servers.len()));
                list.servers = Some(servers);
                let message = (!first).then_some(Message::Said(text));
                News { servers_changed: changed, message, ..News::default() }
            }
        };
        list.last = Some(last);
        news
    }

    /// The upstream with the servers of its files in the place of the files.
    pub(crate) fn resolved<'u>(&self, upstream: &'u Upstream) -> Cow<'u, Upstream> {
        if !upstream.servers.iter().any(|it| matches!(it.address, ServerAddress::File(_))) {
            return Cow::Borrowed(upstream);
        }
        let listed = |server: &Server| -> Vec<Server> {
            let ServerAddress::File(path) = &server.address else { return vec![server.clone()] };
            let known = self.known.get(path).and_then(|list| list.servers.as_ref());
            known.into_iter().flatten().map(|it| it.of_list(server)).collect()
        };
        let servers = upstream.servers.iter().flat_map(listed).collect();
        Cow::Owned(Upstream { servers, ..upstream.clone() })
    }
}

fn count(servers: usize) -> String {
    match servers {
        0 => "no servers".to_owned(),
        1 => "one server".to_owned(),
        count => format!("{count} servers"),
    }
}

/// The files that the upstreams of a configuration name.
pub(crate) fn paths(model: &Model) -> BTreeSet<PathBuf> {
    let servers = model.upstreams.iter().flat_map(|upstream| &upstream.servers);
    servers
        .filter_map(|server| match &server.address {
            ServerAddress::File(path) => Some(path.clone()),
            _ => None,
        })
        .collect()
}

/// The text of a file and the servers it lists.
pub(crate) fn read(path: &Path) -> Result<(String, Vec<Server>), ConfigError> {
    let name = path.display().to_string();
    let unreadable = |why: String| ConfigError::Unusable(vec![Flaw::new(name.clone(), why)]);
    let bytes = files::read_small(path, LARGEST)
        .map_err(|error| unreadable(format!("cannot read it: {}", plain(&error))))?
        .ok_or_else(|| unreadable(format!("it is larger than {} MiB", LARGEST >> 20)))?;
    let document = Document::of_file(name.clone(), text_of(bytes).map_err(unreadable)?);
    let environment = |name: &str| std::env::var(name).ok();
    let servers = parse_servers(&document.source(), &environment).map_err(ConfigError::Invalid)?;
    Ok((document.text, servers))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(lists: &mut Lists, path: &Path) -> (bool, bool, Option<Message>) {
        let News { servers_changed, failed, message } = lists.read(path, Style::Plain);
        (servers_changed, failed, message)
    }

    #[test]
    fn a_broken_file_keeps_the_last_good_list_and_is_told_once() {
        let path = std::env::temp_dir().join(format!("sluice-list-{}.json", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mut lists = Lists::default();
        lists.known.insert(path.clone(), List::default());
        type Row<'a> = (Option<&'a str>, bool, bool, Option<&'a str>, usize);
        let rows: [Row<'_>; 9] = [
            (None, false, true, Some("no such file or directory; none of its"), 0),
            (None, false, true, None, 0),
            (Some("[\"10.0.0.1:80\"]"), true, false, Some("lists one server"), 1),
            (Some("[\"10.0.0.1:80\"]"), false, false, None, 1),
            (Some("[\"10.0.0.1:80\", 7]"), false, true, Some("^"), 1),
            (None, false, true, Some("its last good servers stay"), 1),
            (Some(" [\"10.0.0.1:80\"]"), false, false, Some("lists one server"), 1),
            (Some("[\"10.0.0.1:80\", \"10.0.0.2:80\"]"), true, false, Some("lists 2 servers"), 2),
            (Some("[]"), true, false, Some("lists no servers"), 0),
        ];
        let address = ServerAddress::File(path.clone());
        let text = format!("[[listener]]\naddress = \":1\"\n[[route]]\nproxy = \"{address}\"\n");
        let document = Document::of_file("a.toml".to_owned(), text);
        let model = document.parse().unwrap();
        assert_eq!(paths(&model), BTreeSet::from([path.clone()]));
        for (text, changed, failed, said, servers) in rows {
            match text {
                Some(text) => std::fs::write(&path, text).unwrap(),
                None => _ = std::fs::remove_file(&path),
            }
            let (got_changed, got_failed, message) = read_one(&mut lists, &path);
            assert_eq!((got_changed, got_failed), (changed, failed), "{text:?}");
            match (message, said) {
                (None, None) => {}
                (Some(Message::Said(told) | Message::Warned(told)), Some(part)) => {
                    assert!(told.contains(part), "{told}");
                }
                (message, said) => panic!("{message:?} for {said:?}"),
            }
            assert_eq!(lists.resolved(&model.upstreams[0]).servers.len(), servers, "{text:?}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn an_upstream_without_files_is_left_as_it_is() {
        let text = "[[listener]]\naddress = \":1\"\n[[route]]\nproxy = \"a.test:1\"\n";
        let model = Document::of_file("a.toml".to_owned(), text.to_owned()).parse().unwrap();
        assert!(matches!(Lists::default().resolved(&model.upstreams[0]), Cow::Borrowed(_)));
    }
}
