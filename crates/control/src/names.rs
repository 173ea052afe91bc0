//! The names of origins, and what is known of each.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use sluice_model::Resolver as ModelResolver;
use sluice_net::resolve::{Found, Question, Resolution, Resolver, ResolverSettings};

/// Places that are told by name in one line.
const TOLD: usize = 16;

/// Names in use and what they stand for.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: BTreeMap<Question, Name>,
    /// Hosts of services that could not be resolved when they were last asked for.
    failing_targets: BTreeSet<Question>,
    following: Option<(ResolverSettings, Resolver)>,
}

#[derive(Debug, Default)]
struct Name {
    /// The last good answer; empty if there never was one.
    found: Vec<Found>,
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// Servers are others now.
    pub(crate) servers_changed: bool,
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
        questions: BTreeSet<Question>,
        deliver: impl Fn(Resolution) + Send + 'static,
    ) -> io::Result<()> {
        let settings = ResolverSettings {
            servers: settings.servers.clone(),
            timeout: settings.timeout,
            min_ttl: settings.min_ttl,
            max_ttl: settings.max_ttl,
        };
        let same_names = self.known.keys().eq(questions.iter());
        let same_way = self.following.as_ref().is_some_and(|(known, _)| *known == settings);
        if same_names && (same_way || questions.is_empty()) {
            return Ok(());
        }
        self.known.retain(|name, _| questions.contains(name));
        self.failing_targets.retain(|target| match target {
            Question::Target { service, .. } => {
                questions.contains(&Question::Service(service.clone()))
            }
            Question::Host(_) | Question::Service(_) => false,
        });
        for question in &questions {
            self.known.entry(question.clone()).or_default();
        }
        self.following = match questions.is_empty() {
            true => None,
            false => Some((settings.clone(), Resolver::follow(settings, questions, deliver)?)),
        };
        Ok(())
    }

    /// Whether a name has not been answered at all.
    pub(crate) fn is_waiting(&self) -> bool {
        self.known.values().any(|name| name.state == State::Asked)
    }

    /// What a name stands for; nothing if that is not known.
    pub(crate) fn found(&self, question: &Question) -> &[Found] {
        self.known.get(question).map(|name| name.found.as_slice()).unwrap_or_default()
    }

    /// Takes an answer in. A failure keeps the last good one.
    pub(crate) fn on_resolution(&mut self, resolution: Resolution) -> News {
        let Resolution { question, answer } = resolution;
        if let Question::Target { service, .. } = &question {
            return match self.known.contains_key(&Question::Service(service.clone())) {
                true => self.on_target(question, answer),
                false => News::default(),
            };
        }
        // An answer may come for a name that a reload has just removed.
        let Some(name) = self.known.get_mut(&question) else { return News::default() };
        match answer {
            Ok(found) => {
                let before = std::mem::replace(&mut name.state, State::Resolved);
                let changed = name.found != found;
                let known_before = !name.found.is_empty();
                let message = (changed && known_before || before == State::Failing)
                    .then(|| Message::Said(format!("{question} resolves to {}", list(&found))));
                name.found = found;
                News { servers_changed: changed, failed: false, message }
            }
            Err(why) => {
                let before = std::mem::replace(&mut name.state, State::Failing);
                let kept = match question {
                    Question::Host(_) => "addresses",
                    Question::Service(_) | Question::Target { .. } => "servers",
                };
                let rest = match name.found.is_empty() {
                    true => "its requests are answered with 503".to_owned(),
                    false => format!("the last known {kept} stay in use"),
                };
                let message = (before != State::Failing)
                    .then(|| Message::Warned(format!("cannot resolve {question}: {why}; {rest}")));
                News { servers_changed: false, failed: true, message }
            }
        }
    }

    /// A host of a service fails, or no longer does; what it means for the servers is told apart.
    fn on_target(&mut self, target: Question, answer: Result<Vec<Found>, String>) -> News {
        let (failed, message) = match answer {
            Ok(_) => {
                let known = self.failing_targets.remove(&target);
                (false, known.then(|| Message::Said(format!("{target} can be resolved again"))))
            }
            Err(why) => {
                let text = format!(
                    "cannot resolve {target}: {why}; its last known addresses stay in use, if any"
                );
                (true, self.failing_targets.insert(target).then_some(Message::Warned(text)))
            }
        };
        News { servers_changed: false, failed, message }
    }
}

/// The first places, and how many more there are.
fn list(found: &[Found]) -> String {
    let told: Vec<String> = found.iter().take(TOLD).map(Found::to_string).collect();
    match found.len().saturating_sub(TOLD) {
        0 => told.join(", "),
        more => format!("{} and {more} more", told.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Question {
        Question::Host("a.test".to_owned())
    }

    fn names_of(question: Question) -> Names {
        let known = BTreeMap::from([(question, Name::default())]);
        Names { known, ..Names::default() }
    }

    fn names() -> Names {
        names_of(host())
    }

    fn answer(addresses: Result<&[&str], &str>) -> Resolution {
        let found = |text: &&str| {
            let address = text.parse().unwrap();
            Found { priority: 0, address, port: None, weight: 0 }
        };
        let answer = addresses.map(|list| list.iter().map(found).collect());
        Resolution { question: host(), answer: answer.map_err(str::to_owned) }
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
            assert_eq!(news.servers_changed, changed, "{resolution:?}");
            assert_eq!(news.failed, resolution.is_err());
            assert_eq!(names.found(&host()).len(), count, "{resolution:?}");
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
        assert_eq!(news, News { servers_changed: true, failed: false, message: None });
    }

    #[test]
    fn a_failing_host_of_a_service_is_told_once_and_changes_nothing_by_itself() {
        let service = "_http._tcp.api.test".to_owned();
        let mut names = names_of(Question::Service(service.clone()));
        let target = |service: &str| Question::Target {
            service: service.to_owned(),
            host: "b.test".to_owned(),
        };
        let rows = [
            (Err("no"), true, Some("cannot resolve b.test (a server of srv:_http._tcp.api.test)")),
            (Err("no"), true, None),
            (Ok(()), false, Some("b.test (a server of srv:_http._tcp.api.test) can be resolved")),
        ];
        for (answer, failed, said) in rows {
            let answer = answer.map(|()| Vec::new()).map_err(str::to_owned);
            let news = names.on_resolution(Resolution { question: target(&service), answer });
            assert_eq!((news.servers_changed, news.failed), (false, failed));
            let text = news.message.map(|message| match message {
                Message::Said(text) | Message::Warned(text) => text,
            });
            assert_eq!(text.is_some(), said.is_some(), "{text:?}");
            assert!(text.unwrap_or_default().contains(said.unwrap_or_default()));
        }
        let answer = Err("no".to_owned());
        let news = names.on_resolution(Resolution { question: target("other"), answer });
        assert_eq!(news, News::default(), "of a service that is not followed");
    }

    #[test]
    fn places_of_a_service_are_told_with_all_their_numbers() {
        let found = |port| Found {
            priority: 10,
            address: [10, 0, 0, 1].into(),
            port: Some(port),
            weight: 5,
        };
        assert_eq!(list(&[found(80)]), "10.0.0.1:80 (priority 10, weight 5)");
        let many: Vec<Found> = (1..=20).map(found).collect();
        assert!(list(&many).ends_with("10.0.0.1:16 (priority 10, weight 5) and 4 more"));
    }
}
