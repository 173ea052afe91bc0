//! The metrics page.

use sluice_control::Status;
use sluice_engine::ReportAnswer;
use sluice_meter::ProcessFacts;
use sluice_net::process::Usage;

pub(crate) fn metrics(status: &Status) -> ReportAnswer {
    let usage = Usage::now();
    let facts = ProcessFacts {
        version: sluice_control::VERSION,
        start: usage.start,
        cpu: usage.cpu,
        resident_bytes: usage.resident_bytes,
        open_fds: usage.open_descriptors,
        max_fds: usage.max_descriptors,
    };
    let mut page = String::new();
    status.meters().render(&facts, &mut page);
    ReportAnswer {
        status: 200,
        content_type: "text/plain; version=0.0.4; charset=utf-8",
        body: page.into_bytes(),
    }
}
