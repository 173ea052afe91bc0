//! The filters compress and decompress, of their options.

use sluice_coding::{Bounds, Coding};
use sluice_filters::{
    Breach, Compress, CompressOptions, Decompress, DecompressOptions, Levels, Requests, Responses,
};
use sluice_model::{ContentEncoding, PlainResponses};

use super::Tools;
use super::body_replace::media_range;

pub(super) fn compress(options: &sluice_model::Compress, tools: &mut Tools<'_>) -> Compress {
    let coding = |encoding: &ContentEncoding| match encoding {
        ContentEncoding::Gzip => Coding::Gzip,
        ContentEncoding::Brotli => Coding::Brotli,
        ContentEncoding::Zstd => Coding::Zstd,
    };
    let levels = options.levels;
    let made = CompressOptions {
        codings: options.encodings.iter().map(coding).collect(),
        levels: Levels { gzip: levels.gzip, brotli: levels.brotli, zstd: levels.zstd },
        types: options.types.iter().map(|text| media_range(text)).collect(),
        minimum: options.minimum,
        memory: usize::try_from(options.memory).unwrap_or(usize::MAX),
        breach: if options.cross_site { Breach::Ignored } else { Breach::Prevented },
    };
    Compress::new(made, tools.meter(Compress::OUTCOMES))
}

pub(super) fn decompress(options: &sluice_model::Decompress, tools: &mut Tools<'_>) -> Decompress {
    let expansion = options.expansion;
    let made = DecompressOptions {
        requests: if options.requests { Requests::Decoded } else { Requests::Left },
        responses: match options.responses {
            PlainResponses::All => Responses::Decoded,
            PlainResponses::Unaccepted => Responses::DecodedIfRefused,
            PlainResponses::None => Responses::Left,
        },
        request_bounds: Bounds { most: options.request_limit, expansion },
        response_bounds: Bounds { most: options.response_limit.unwrap_or(u64::MAX), expansion },
    };
    Decompress::new(made, tools.meter(Decompress::OUTCOMES))
}
