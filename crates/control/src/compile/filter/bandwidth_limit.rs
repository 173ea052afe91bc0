//! The limit of bandwidth, of its options.

use sluice_filter::Bandwidth;
use sluice_filters::BandwidthLimit;

use super::Tools;

pub(super) fn bandwidth_limit(
    options: &sluice_model::BandwidthLimit,
    tools: &mut Tools<'_>,
) -> BandwidthLimit {
    let bandwidth = |bytes: u64| Bandwidth { bytes, burst: options.burst };
    let (download, upload) = (options.download.map(bandwidth), options.upload.map(bandwidth));
    BandwidthLimit::new(download, upload, tools.meter(BandwidthLimit::OUTCOMES))
}
