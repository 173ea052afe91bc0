//! Limits of concurrency: made of the model, kept by name over reloads.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_engine::{AdaptiveSettings, Admission, Limit, LimitKind, LimitSettings, Limiter};
use sluice_meter::ConcurrencySource;
use sluice_model::{Action, Concurrency, ConcurrencyLimit, Model, Route};

/// What stands on the metrics page for the limit of all routes together.
const ALL: &str = "(all)";

/// The limits in force: those of routes by name, and that of all of them.
#[derive(Debug, Default)]
pub(crate) struct Limiters {
    routes: BTreeMap<String, Limit>,
    all: Option<Limit>,
}

impl Limiters {
    /// The limits of `model`, in force from now on. Those there were before keep their state: what is
    /// under way counts.
    pub(crate) fn follow(&mut self, model: &Model) {
        let limited = model.routes.iter().filter_map(|route| {
            let concurrency = route.concurrency.as_ref()?;
            Some((route.name.clone(), limit(concurrency, self.routes.get(&route.name))))
        });
        self.routes = limited.collect();
        let all = model.overload.concurrency.as_ref();
        self.all = all.map(|concurrency| limit(concurrency, self.all.as_ref()));
    }

    /// The limits in the way of a route, if there are any.
    pub(crate) fn admission(&self, route: &Route) -> Option<Admission> {
        let own = self.routes.get(&route.name).cloned();
        // Whoever asks whether the gateway is well would take a full one for a dead one.
        let all = match route.action {
            Action::Health => None,
            _ => self.all.clone(),
        };
        (own.is_some() || all.is_some()).then_some(Admission { route: own, all })
    }

    /// What the metrics page reads.
    pub(crate) fn sources(&self) -> BTreeMap<String, Arc<dyn ConcurrencySource>> {
        let routes = self.routes.iter().map(|(name, limit)| (name.as_str(), limit));
        let source = |(name, limit): (&str, &Limit)| {
            let limiter: Arc<dyn ConcurrencySource> = Arc::<Limiter>::clone(&limit.limiter);
            (name.to_owned(), limiter)
        };
        routes.chain(self.all.iter().map(|limit| (ALL, limit))).map(source).collect()
    }
}

/// A limit that goes on where the one before it was.
fn limit(concurrency: &Concurrency, before: Option<&Limit>) -> Limit {
    let limiter = before.map(|before| Arc::clone(&before.limiter)).unwrap_or_default();
    let settings = settings(concurrency);
    limiter.follow(&settings);
    Limit { limiter, settings }
}

fn settings(concurrency: &Concurrency) -> LimitSettings {
    let limit = match &concurrency.limit {
        ConcurrencyLimit::Fixed(limit) => LimitKind::Fixed(*limit),
        ConcurrencyLimit::Adaptive(adaptive) => LimitKind::Adaptive(AdaptiveSettings {
            min: adaptive.min,
            max: adaptive.max,
            tolerance: adaptive.tolerance,
            window: adaptive.window,
            probe: adaptive.probe,
        }),
    };
    // A part of a second is a second: nobody is to come back too early.
    let after = concurrency.retry_after;
    let retry_after = after.as_secs() + u64::from(after.subsec_nanos() > 0);
    LimitSettings { limit, queue: concurrency.queue, wait: concurrency.wait, retry_after }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_model::{Format, Source, parse};

    fn model(rest: &str) -> Model {
        let text = format!("{rest}\n[[listener]]\naddress = \":80\"\n");
        let source = Source { name: "x", text: &text, format: Format::Toml };
        parse(&source, &|_| None).unwrap()
    }

    const ROUTES: &str = "
        route = [
            { path = '/a', respond = 'a', concurrency = { limit = 3, retry_after = '1s500ms' } },
            { path = '/b', respond = 'b' },
            { path = '/c', health = true },
        ]";

    #[test]
    fn limits_stand_in_the_way_of_those_they_are_for() {
        let model = model(&format!("overload.concurrency = {{ limit = 9 }}\n{ROUTES}"));
        let mut limiters = Limiters::default();
        limiters.follow(&model);
        let admission = |at: usize| limiters.admission(&model.routes[at]);
        let first = admission(0).unwrap();
        assert_eq!(first.route.unwrap().settings.retry_after, 2);
        assert_eq!(first.all.unwrap().settings.limit, LimitKind::Fixed(9));
        let second = admission(1).unwrap();
        assert!(second.route.is_none() && second.all.is_some());
        assert!(admission(2).is_none());
        let names: Vec<String> = limiters.sources().into_keys().collect();
        assert_eq!(names, ["(all)", "/a"]);
    }

    #[test]
    fn a_limit_keeps_its_state_as_long_as_it_has_its_name() {
        let mut limiters = Limiters::default();
        limiters.follow(&model(ROUTES));
        let state =
            |limiters: &Limiters| limiters.routes.get("/a").map(|it| Arc::clone(&it.limiter));
        let before = state(&limiters).unwrap();
        assert_eq!(before.reading().limit, 3);
        limiters.follow(&model(&ROUTES.replace("limit = 3", "limit = 7")));
        assert!(Arc::ptr_eq(&before, &state(&limiters).unwrap()));
        assert_eq!(before.reading().limit, 7);
        limiters.follow(&model("route = [{ path = '/a', respond = 'a' }]"));
        assert!(state(&limiters).is_none());
    }
}
