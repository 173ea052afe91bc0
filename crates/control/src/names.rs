//! The host names of origins, and what is known of each.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use sluice_model::Resolver as ModelResolver;
use sluice_net::resolve::{Resolution, Resolver, ResolverSettings};

/// Names in use and their addresses.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: BTreeMap<String, Name>,
    following: Option<(ResolverSettings, Resolver)>,
}

#[derive(Debug, Default)]
struct Name {
    /// The last good answer; empty if there never was one.
    addresses: Vec<IpAddr>,
    state: State,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    /// Nobody has answered yet.
    #[default]
    Asked,
    Resolved,
    Failing,
}

/// What an answer changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct News {
    /// Servers are others now.
    pub(crate) addresses_changed: bool,
    /// The question failed.
    pub(crate) failed: bool,
    /// What is worth saying, if the state is another one.
    pub(crate) message: Option<Message>,
}

/// A line for standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Said(String),
    Warned(String),
}

impl Names {
    /// Follows these names and no others; nothing is asked again that is followed already in the same
    /// way. What was known of a name stays known.
    pub(crate) fn follow(
        &mut self,
        settings: &ModelResolver,
        hosts: BTreeSet<String>,
        deliver: impl Fn(Resolution) + Send + 'static,
    ) -> io::Result<()> {
        let settings = ResolverSettings {
            servers: settings.servers.clone(),
            timeout: settings.timeout,
            min_ttl: settings.min_ttl,
            max_ttl: settings.max_ttl,
        };
        let same_names = self.known.keys().eq(hosts.iter());
        let same_way = self.following.as_ref().is_some_and(|(known, _)| *known == settings);
        if same_names && (same_way || hosts.is_empty()) {
            return Ok(());
        }
        self.known.retain(|host, _| hosts.contains(host));
        for host in &hosts {
            self.known.entry(host.clone()).or_default();
        }
        self.following = match hosts.is_empty() {
            true => None,
            false => Some((settings.clone(), Resolver::follow(settings, hosts, deliver)?)),
        };
        Ok(())
    }

    /// Whether a name has not been answered at all.
    pub(crate) fn is_waiting(&self) -> bool {
        self.known.values().any(|name| name.state == State::Asked)
    }

    /// Addresses of a host.
    pub(crate) fn addresses(&self, host: &str) -> Vec<IpAddr> {
        self.known.get(host).map(|name| name.addresses.clone()).unwrap_or_default()
    }

    /// Takes an answer in. A failure keeps the last good one.
    pub(crate) fn on_resolution(&mut self, resolution: Resolution) -> News {
        let Resolution { host, addresses } = resolution;
        let failed = addresses.is_err();
        // An answer may come for a name that a reload has just removed.
        let Some(name) = self.known.get_mut(&host) else {
            return News { addresses_changed: false, failed: false, message: None };
        };
        match addresses {
            Ok(addresses) => {
                let before = std::mem::replace(&mut name.state, State::Resolved);
                let changed = name.addresses != addresses;
                let list = addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
                let known_before = !name.addresses.is_empty();
                name.addresses = addresses;
                let message = (changed && known_before || before == State::Failing)
                    .then(|| Message::Said(format!("{host} resolves to {list}")));
                News { addresses_changed: changed, failed, message }
            }
            Err(why) => {
                let before = std::mem::replace(&mut name.state, State::Failing);
                let rest = match name.addresses.is_empty() {
                    true => "its requests are answered with 503",
                    false => "the last known addresses stay in use",
                };
                let message = (before != State::Failing)
                    .then(|| Message::Warned(format!("cannot resolve {host}: {why}; {rest}")));
                News { addresses_changed: false, failed, message }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let known = BTreeMap::from([("a.test".to_owned(), Name::default())]);
        Names { known, following: None }
    }

    fn answer(addresses: Result<&[&str], &str>) -> Resolution {
        let parse = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        Resolution {
            host: "a.test".to_owned(),
            addresses: addresses.map(parse).map_err(str::to_owned),
        }
    }

    #[test]
    fn a_failure_keeps_the_last_good_answer_and_is_said_once() {
        let mut names = names();
        assert!(names.is_waiting());
        type Row<'a> = (Result<&'a [&'a str], &'a str>, bool, Option<&'a str>, usize);
        let rows: [Row<'_>; 7] = [
            (Err("no"), false, Some("answered with 503"), 0),
            (Err("no"), false, None, 0),
            (Ok(&["10.0.0.1"]), true, Some("resolves to 10.0.0.1"), 1),
            (Ok(&["10.0.0.1"]), false, None, 1),
            (Err("no"), false, Some("last known addresses"), 1),
            (Err("timeout"), false, None, 1),
            (Ok(&["10.0.0.1", "::1"]), true, Some("10.0.0.1, ::1"), 2),
        ];
        for (resolution, changed, said, count) in rows {
            let news = names.on_resolution(answer(resolution));
            assert_eq!(news.addresses_changed, changed, "{resolution:?}");
            assert_eq!(news.failed, resolution.is_err());
            assert_eq!(names.addresses("a.test").len(), count, "{resolution:?}");
            match (news.message, said) {
                (None, None) => {}
                (Some(Message::Said(text) | Message::Warned(text)), Some(part)) => {
                    assert!(text.contains(part), "{text}");
                }
                (message, said) => panic!("{message:?} for {said:?}"),
            }
            assert!(!names.is_waiting());
        }
    }

    #[test]
    fn the_first_answer_needs_no_words() {
        let news = names().on_resolution(answer(Ok(&["10.0.0.1"])));
        assert_eq!(news, News { addresses_changed: true, failed: false, message: None });
    }
}
