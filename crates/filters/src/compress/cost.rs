//! How long compressing takes, roughly: what is to be kept off the threads that serve.

use sluice_coding::Coding;

/// Nanoseconds for each byte, by level. Machines differ by a factor, levels by hundreds.
const GZIP: [u64; 10] = [3, 4, 5, 7, 10, 15, 22, 28, 45, 60];
const BROTLI: [u64; 12] = [4, 5, 12, 15, 20, 30, 40, 55, 75, 100, 600, 1500];
const ZSTD: [u64; 23] = [
    5, 3, 4, 6, 8, 12, 16, 20, 25, 30, 40, 50, 60, 90, 110, 130, 160, 200, 300, 400, 500, 600, 700,
];

/// A request may hold others up for so long, in nanoseconds.
const SHORT: u64 = 2_000_000;

/// Bytes that pass at a time.
const SHARE: u64 = 16 * 1024;

fn per_byte(coding: Coding, level: u32) -> u64 {
    let table: &[u64] = match coding {
        Coding::Gzip | Coding::Deflate => &GZIP,
        Coding::Brotli => &BROTLI,
        Coding::Zstd => &ZSTD,
    };
    let last = table.last().copied().unwrap_or(0);
    usize::try_from(level).ok().and_then(|level| table.get(level).copied()).unwrap_or(last)
}

/// Whether so much content is compressed at once without others noticing.
pub(super) fn is_short(coding: Coding, level: u32, bytes: u64) -> bool {
    per_byte(coding, level).saturating_mul(bytes) <= SHORT
}

/// The level that content is compressed with while it passes: no piece of it may take long.
pub(super) fn passing(coding: Coding, level: u32) -> u32 {
    (0..=level).rev().find(|level| is_short(coding, *level, SHARE)).unwrap_or(level)
}

/// The level for content that others compress well meanwhile.
pub(super) const FAST: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_slowest_levels_are_not_for_what_passes() {
        let rows = [
            (Coding::Gzip, 9, 9),
            (Coding::Brotli, 5, 5),
            (Coding::Brotli, 9, 9),
            (Coding::Brotli, 11, 9),
            (Coding::Zstd, 9, 9),
            (Coding::Zstd, 22, 14),
        ];
        for (coding, level, used) in rows {
            assert_eq!(passing(coding, level), used, "{coding:?} {level}");
        }
        assert!(is_short(Coding::Gzip, 9, 24 * 1024) && !is_short(Coding::Brotli, 9, 24 * 1024));
        assert!(!is_short(Coding::Gzip, 1, 10 << 20));
    }
}
