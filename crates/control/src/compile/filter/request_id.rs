//! The request_id filter, of its options.

use sluice_filters::{Accepted, RequestId, Told};
use sluice_model::AcceptedIds;

use super::Tools;

pub(super) fn request_id(options: &sluice_model::RequestId, tools: &mut Tools<'_>) -> RequestId {
    let accepted = match options.accept {
        AcceptedIds::Never => Accepted::Nobody,
        AcceptedIds::Trusted => Accepted::Trusted,
        AcceptedIds::Always => Accepted::Everybody,
    };
    let told = if options.respond { Told::Client } else { Told::OriginAlone };
    RequestId::new(&options.header, accepted, told, tools.meter(RequestId::OUTCOMES))
}
