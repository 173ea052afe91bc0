//! Copies of requests, in the words of those who send them.

use sluice_engine::Mirror;

pub(crate) fn mirror(mirror: &sluice_model::Mirror) -> Mirror {
    Mirror {
        cluster: mirror.upstream,
        share: mirror.share.0,
        body_limit: mirror.body_limit,
        at_once: usize::try_from(mirror.at_once).unwrap_or(usize::MAX),
    }
}
