//! Holds connections to a bandwidth.

use std::sync::Arc;

use sluice_filter::{
    Bandwidth, Filter, Owner, Phases, RequestContext, ResponseCondition, ResponseContext,
    ResponseVerdict, Throttle, Verdict, Way,
};
use sluice_meter::FilterMeter;

/// See the module.
#[derive(Debug)]
pub struct BandwidthLimit(Arc<Limit>);

/// What a connection is held to. It knows whose bandwidth it is, not how much of it a connection has used.
#[derive(Debug)]
struct Limit {
    owner: Owner,
    download: Option<Bandwidth>,
    upload: Option<Bandwidth>,
    meter: Arc<FilterMeter>,
}

/// Places among [`BandwidthLimit::OUTCOMES`].
const LIMITED: usize = 0;
const DOWNLOAD_WAITS: usize = 1;
const UPLOAD_WAITS: usize = 2;

impl BandwidthLimit {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = &["limited", "download_waits", "upload_waits"];

    /// With these bandwidths.
    #[must_use]
    pub fn new(
        download: Option<Bandwidth>,
        upload: Option<Bandwidth>,
        meter: Arc<FilterMeter>,
    ) -> Self {
        Self(Arc::new(Limit { owner: Owner::new(), download, upload, meter }))
    }

    fn throttle(&self) -> Arc<dyn Throttle> {
        let limit: Arc<Limit> = Arc::clone(&self.0);
        limit
    }

    fn count(&self, worker: usize) {
        self.0.meter.count(worker, LIMITED);
    }
}

impl Throttle for Limit {
    fn owner(&self) -> Owner {
        self.owner
    }

    fn bandwidth(&self, way: Way) -> Option<Bandwidth> {
        match way {
            Way::Download => self.download,
            Way::Upload => self.upload,
        }
    }

    fn on_wait(&self, worker: usize, way: Way, nanos: u64) {
        let outcome = match way {
            Way::Download => DOWNLOAD_WAITS,
            Way::Upload => UPLOAD_WAITS,
        };
        self.meter.count(worker, outcome);
        self.meter.observe_wait(worker, nanos);
    }
}

impl Filter for BandwidthLimit {
    fn phases(&self) -> Phases {
        // Whoever limits by what an answer is like is asked when that is there.
        Phases::REQUEST_HEAD | Phases::RESPONSE_HEAD
    }

    fn response_condition(&self) -> ResponseCondition {
        // An upload is over, as a rule, when the response is there.
        match self.0.download {
            Some(_) => ResponseCondition::ResponseAlone,
            None => ResponseCondition::Refused,
        }
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        if context.notes.throttle(self.throttle()) {
            self.count(context.gateway.worker());
        }
        Verdict::Continue
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        if context.notes.throttle(self.throttle()) {
            self.count(context.gateway.worker());
        }
        ResponseVerdict::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Scene;

    fn bandwidth(bytes: u64) -> Option<Bandwidth> {
        Some(Bandwidth { bytes, burst: 0 })
    }

    #[test]
    fn a_request_is_limited_once_and_every_wait_is_counted() {
        let meter = Arc::new(FilterMeter::new(1, BandwidthLimit::OUTCOMES));
        let filter = BandwidthLimit::new(bandwidth(5), None, Arc::clone(&meter));
        let mut scene = Scene::new("GET", "/", &[]);
        for _ in 0..2 {
            assert!(scene.ask(&filter).is_none());
        }
        scene.answer(&filter);
        let throttles = scene.notes.heed_throttles();
        assert_eq!(throttles.len(), 1);
        assert_eq!(throttles[0].bandwidth(Way::Download), bandwidth(5));
        assert_eq!(throttles[0].bandwidth(Way::Upload), None);
        throttles[0].on_wait(0, Way::Upload, 1_000_000);
        throttles[0].on_wait(0, Way::Upload, 1_000_000);
        throttles[0].on_wait(0, Way::Download, 1_000_000);
        let counted = meter.outcomes().map(|(_, count)| count).collect::<Vec<_>>();
        assert_eq!(counted, [1, 1, 2]);
    }

    #[test]
    fn each_filter_has_a_bandwidth_of_its_own() {
        let meter = Arc::new(FilterMeter::new(1, BandwidthLimit::OUTCOMES));
        let filter = || BandwidthLimit::new(None, bandwidth(5), Arc::clone(&meter));
        let mut scene = Scene::new("GET", "/", &[]);
        let (one, two) = (filter(), filter());
        let _ = (scene.ask(&one), scene.ask(&two));
        assert_eq!(scene.notes.heed_throttles().len(), 2);
    }
}
