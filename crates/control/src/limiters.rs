//! Limits of concurrency: made of the model, kept by name over reloads.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_engine::{AdaptiveSettings, Admission, Limit, LimitKind, LimitSettings, Limiter};
use sluice_meter::ConcurrencySource;
use sluice_model::{Action, Concurrency, ConcurrencyLimit, Model, Route};

/// The name that stands for the limit of all routes together.
const ALL: &str = "(all)";

/// The limits in force, by route.
#[derive(Debug, Default)]
pub(crate) struct Limiters(BTreeMap<String, Limit>);

impl Limiters {
    /// The limits of `model`, in force from now on. Those there were before keep their state: what is
    /// under way counts.
    pub(crate) fn follow(&mut self, model: &Model) {
        let routes = model.routes.iter();
        let of_routes =
            routes.filter_map(|route| Some((&*route.name, route.concurrency.as_ref()?)));
        let of_all = model.overload.concurrency.as_ref().map(|all| (ALL, all));
        let limit = |(name, concurrency): (&str, &Concurrency)| {
            let known = self.0.get(name).map(|before| Arc::clone(&before.limiter));
            let limiter = known.unwrap_or_default();
            let settings = settings(concurrency);
            limiter.follow(&settings);
            (name.to_owned(), Limit { limiter, settings })
        };
        self.0 = of_routes.chain(of_all).map(limit).collect();
    }

    /// The limits in the way of a route, if there are any.
    pub(crate) fn admission(&self, route: &Route) -> Option<Admission> {
        let own = self.0.get(&route.name).cloned();
        // Whoever asks whether the gateway is well would take a full one for a dead one.
        let all = match route.action {
            Action::Health => None,
            _ => self.0.get(ALL).cloned(),
        };
        (own.is_some() || all.is_some()).then_some(Admission { route: own, all })
    }

    /// What the metrics page reads.
    pub(crate) fn sources(&self) -> BTreeMap<String, Arc<dyn ConcurrencySource>> {
        let source = |(name, limit): (&String, &Limit)| {
            let limiter: Arc<dyn ConcurrencySource> = Arc::<Limiter>::clone(&limit.limiter);
            (name.clone(), limiter)
        };
        self.0.iter().map(source).collect()
    }
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
        let state = |limiters: &Limiters| limiters.0.get("/a").map(|it| Arc::clone(&it.limiter));
        let before = state(&limiters).unwrap();
        assert_eq!(before.reading().limit, 3);
        limiters.follow(&model(&ROUTES.replace("limit = 3", "limit = 7")));
        assert!(Arc::ptr_eq(&before, &state(&limiters).unwrap()));
        assert_eq!(before.reading().limit, 7);
        limiters.follow(&model("route = [{ path = '/a', respond = 'a' }]"));
        assert!(state(&limiters).is_none());
    }
}
