//! The answer of routes with `health = true`: the gateway about itself.

use std::sync::Arc;

use serde_json::json;
use sluice_engine::{Report, ReportAnswer};
use sluice_message::RequestHead;
use sluice_net::process::uptime;

use crate::status::{Phase, Status};

/// What one configuration answers about its health.
pub(crate) struct HealthReport {
    pub(crate) status: Arc<Status>,
    pub(crate) generation: u64,
    /// Names of the listeners.
    pub(crate) listeners: Vec<String>,
}

impl Report for HealthReport {
    fn report(&self, _: &RequestHead) -> ReportAnswer {
        let (status, word) = match self.status.phase() {
            Phase::Draining => (503, "draining"),
            // Whoever gets through to a route is served.
            Phase::Starting | Phase::Serving => (200, "ok"),
        };
        let document = json!({
            "status": word,
            "version": crate::VERSION,
            "uptime_seconds": uptime().as_secs(),
            "generation": self.generation,
            "listeners": self.listeners,
            "workers": self.status.workers(),
        });
        let body = format!("{document}\n").into_bytes();
        ReportAnswer { status, content_type: "application/json", body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draining_gateway_says_so() {
        let status = Status::new(3);
        let report = HealthReport {
            status: Arc::clone(&status),
            generation: 7,
            listeners: vec!["web".to_owned()],
        };
        for (phase, code, word) in [(Phase::Serving, 200, "ok"), (Phase::Draining, 503, "draining")]
        {
            status.set_phase(phase);
            let answer = report.report(&RequestHead::new());
            assert_eq!(answer.status, code);
            let json: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(json["status"], word);
            assert_eq!(json["generation"], 7);
            assert_eq!(json["listeners"], json!(["web"]));
            assert_eq!(json["workers"], 3);
        }
    }
}
