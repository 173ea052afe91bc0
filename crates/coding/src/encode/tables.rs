//! Hash tables of the brotli compressor: sized to the body, reused by the thread.
//!
//! The library sizes the table by the level alone. For windows of 64 KiB and less, levels 5 to 9 fall back to the
//! table for gigabytes, 32 MiB, because the table that the reference implementation has for them does not exist
//! there: 24 KB then cost more than 3 000 page faults, twenty times the compression itself.

use std::cell::RefCell;

use brotli::enc::StandardAlloc;
use brotli::enc::backward_references::{
    AdvHasher, AnyHasher, BrotliEncoderParams, BrotliHasherParams, H5Sub, H9Opts, Struct1,
    UnionHasher,
};

use super::Extent;

/// A table of positions, as the library takes it.
type Table = UnionHasher<StandardAlloc>;

/// Bodies of more bytes get the table that the library chooses for large ones.
const LARGE: u64 = 1 << 20;

/// Binary logarithm of the positions in the largest table of ours: 4 MiB.
const MOST_BITS: u32 = 20;

/// Positions in the tables that a thread keeps for later, in all: 4 MiB.
const MOST_KEPT: usize = 1 << MOST_BITS;

thread_local! {
    /// Tables that no compressor of this thread has at the moment, the one used last at the end.
    static TABLES: RefCell<Vec<(TableSize, Table)>> = const { RefCell::new(Vec::new()) };
}

/// How large a table is. Equal sizes are interchangeable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableSize {
    /// Binary logarithm of the number of buckets.
    bucket_bits: u32,
    /// Binary logarithm of the positions in each bucket.
    block_bits: u32,
    /// How many of the last distances are tried first.
    last_distances: i32,
}

impl TableSize {
    /// For this level and body. `None` for levels whose tables are of another kind (below 5, where they have a bound
    /// that suits pages, and above 9), and for large bodies.
    pub(super) fn of(level: u32, extent: Extent) -> Option<Self> {
        let least = if extent == Extent::Endless { 2 } else { 5 };
        if !(least..=9).contains(&level) {
            return None;
        }
        // As the library does for large bodies: the higher the level, the more positions are compared.
        let of_level = level - 1;
        let (content_bits, block_bits) = match extent {
            Extent::Known(bytes) if bytes > LARGE => return None,
            Extent::Known(bytes) => (u64::BITS - bytes.leading_zeros(), of_level),
            // Most turn out to be pages.
            Extent::Unknown => (16, of_level),
            // Thousands of them have to fit into memory.
            Extent::Endless => (13, of_level.min(4)),
        };
        let most = if level < 7 { 14 } else { 15 }.min(MOST_BITS - block_bits);
        let last_distances = match level {
            ..=6 => 4,
            7 | 8 => 10,
            _ => 16,
        };
        // More room than this makes nothing smaller, as measured.
        let useful =
            content_bits.saturating_sub(3).min((content_bits + 4).saturating_sub(block_bits));
        let bucket_bits = useful.clamp(8, most);
        Some(Self { bucket_bits, block_bits, last_distances })
    }

    const fn positions(self) -> usize {
        1 << (self.bucket_bits + self.block_bits)
    }

    fn params(self) -> BrotliHasherParams {
        BrotliHasherParams {
            type_: 5,
            bucket_bits: i32::try_from(self.bucket_bits).unwrap_or(0),
            block_bits: i32::try_from(self.block_bits).unwrap_or(0),
            hash_len: 4,
            num_last_distances_to_check: self.last_distances,
            ..BrotliEncoderParams::default().hasher
        }
    }

    fn new_table(self) -> Table {
        let params = self.params();
        UnionHasher::H5(AdvHasher {
            GetHasherCommon: Struct1 {
                params,
                is_prepared_: 1,
                dict_num_lookups: 0,
                dict_num_matches: 0,
            },
            specialization: H5Sub {
                hash_shift_: 32 - params.bucket_bits,
                bucket_size_: 1 << self.bucket_bits,
                block_mask_: (1 << self.block_bits) - 1,
                block_bits_: params.block_bits,
            },
            num: vec![0; 1 << self.bucket_bits].into(),
            buckets: vec![0; self.positions()].into(),
            h9_opts: H9Opts::new(&params),
        })
    }
}

/// A table of this size with its parameters: a used one of this thread, or a new one.
pub(super) fn take(size: TableSize) -> (Table, BrotliHasherParams) {
    let used = TABLES.with_borrow_mut(|tables| {
        let place = tables.iter().rposition(|(kept, _)| *kept == size)?;
        Some(tables.remove(place).1)
    });
    let table = used.map(|mut table| {
        // The library clears the counts of such a table before its first use. Positions beyond a count are not read,
        // so they need not be cleared; they are no content either.
        table.GetHasherCommon().is_prepared_ = 0;
        table
    });
    (table.unwrap_or_else(|| size.new_table()), size.params())
}

/// Keeps a table for the next compressor of this thread. Those used longest ago make room.
pub(super) fn put(size: TableSize, table: &mut Table) {
    let table = std::mem::replace(table, UnionHasher::Uninit);
    // A thread that ends keeps nothing.
    let _ = TABLES.try_with(|tables| {
        let mut tables = tables.borrow_mut();
        let mut kept: usize = tables.iter().map(|(size, _)| size.positions()).sum();
        while kept + size.positions() > MOST_KEPT && !tables.is_empty() {
            kept -= tables.remove(0).0.positions();
        }
        tables.push((size, table));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fit_the_body_and_have_a_bound() {
        let bytes = |level, extent| TableSize::of(level, extent).map(|size| size.positions() * 4);
        let rows = [
            (4, Extent::Known(24_576), None),
            (10, Extent::Known(24_576), None),
            (5, Extent::Known(0), Some(16 << 10)),
            (5, Extent::Known(24_576), Some(256 << 10)),
            (9, Extent::Known(24_576), Some(2 << 20)),
            (9, Extent::Known(LARGE), Some(4 << 20)),
            (5, Extent::Known(LARGE), Some(1 << 20)),
            (5, Extent::Known(LARGE + 1), None),
            (5, Extent::Unknown, Some(512 << 10)),
            (5, Extent::Endless, Some(64 << 10)),
            (9, Extent::Endless, Some(64 << 10)),
            (4, Extent::Endless, Some(32 << 10)),
            (1, Extent::Endless, None),
        ];
        for (level, extent, wanted) in rows {
            assert_eq!(bytes(level, extent), wanted, "{level} {extent:?}");
        }
    }

    #[test]
    fn a_thread_keeps_few_tables_and_finds_them_again() {
        let sizes: Vec<TableSize> =
            (5..=9).filter_map(|level| TableSize::of(level, Extent::Known(LARGE))).collect();
        for size in &sizes {
            put(*size, &mut size.new_table());
            let kept: usize =
                TABLES.with_borrow(|tables| tables.iter().map(|(it, _)| it.positions()).sum());
            assert!((size.positions()..=MOST_KEPT).contains(&kept), "{kept}");
        }
        let last = sizes.last().copied().unwrap();
        let (_, params) = take(last);
        assert_eq!(params.bucket_bits, i32::try_from(last.bucket_bits).unwrap());
        assert!(TABLES.with_borrow(|tables| tables.iter().all(|(size, _)| *size != last)));
    }
}
