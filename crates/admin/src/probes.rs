//! The two questions of an orchestrator: are you alive, and do you want requests?

use sluice_control::{Phase, Status};
use sluice_engine::ReportAnswer;

pub(crate) fn healthz(_: &Status) -> ReportAnswer {
    line(200, "ok\n")
}

pub(crate) fn readyz(status: &Status) -> ReportAnswer {
    match status.phase() {
        Phase::Serving => line(200, "ready\n"),
        Phase::Starting => line(503, "starting\n"),
        Phase::Draining => line(503, "draining\n"),
    }
}

fn line(status: u16, text: &str) -> ReportAnswer {
    ReportAnswer { status, content_type: "text/plain; charset=utf-8", body: text.into() }
}
