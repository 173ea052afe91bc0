//! Whole numbers as a compressed bitmap (the portable form of Roaring), as a search engine's terms
//! filter takes it.

use super::text::push_base64;

/// The first four bytes of a bitmap without runs.
const COOKIE: u32 = 12_346;
/// A container of up to this many numbers lists them; a fuller one is a bit set of 8 KiB.
const LISTED: usize = 4096;

/// Appends the bitmap of `numbers` in base64. Sorts them and drops duplicates.
pub(crate) fn write(numbers: &mut Vec<u32>, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    numbers.sort_unstable();
    numbers.dedup();
    scratch.clear();
    let containers = || numbers.chunk_by(|a, b| a >> 16 == b >> 16);
    let count = containers().count();
    scratch.extend_from_slice(&COOKIE.to_le_bytes());
    scratch.extend_from_slice(&length(count).to_le_bytes());
    for container in containers() {
        let key = container.first().map_or(0, |number| number >> 16);
        scratch.extend_from_slice(&half(key));
        scratch.extend_from_slice(&half(length(container.len().saturating_sub(1))));
    }
    let mut offset = 8 + count.saturating_mul(8);
    for container in containers() {
        scratch.extend_from_slice(&length(offset).to_le_bytes());
        offset = offset.saturating_add(match container.len() {
            listed @ ..=LISTED => listed * 2,
            _ => 8192,
        });
    }
    for container in containers() {
        write_container(container, scratch);
    }
    push_base64(out, scratch);
}

fn write_container(container: &[u32], out: &mut Vec<u8>) {
    if container.len() <= LISTED {
        for number in container {
            out.extend_from_slice(&half(*number));
        }
        return;
    }
    let start = out.len();
    out.resize(start + 8192, 0);
    for number in container {
        let low = usize::try_from(number & 0xffff).unwrap_or(0);
        if let Some(byte) = out.get_mut(start + low / 8) {
            *byte |= 1 << (low % 8);
        }
    }
}

/// The lower 16 bits, little end first.
const fn half(number: u32) -> [u8; 2] {
    let [first, second, ..] = number.to_le_bytes();
    [first, second]
}

fn length(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(mut numbers: Vec<u32>) -> Vec<u8> {
        let (mut scratch, mut out) = (Vec::new(), Vec::new());
        write(&mut numbers, &mut scratch, &mut out);
        assert!(!out.is_empty());
        scratch
    }

    #[test]
    fn small_containers_list_their_numbers() {
        let expected: Vec<u8> = [
            vec![0x3a, 0x30, 0, 0, 2, 0, 0, 0],
            vec![0, 0, 1, 0, 1, 0, 0, 0],
            vec![24, 0, 0, 0, 28, 0, 0, 0],
            vec![1, 0, 5, 0],
            vec![2, 0],
        ]
        .concat();
        assert_eq!(bytes(vec![5, 1, 65_538, 5]), expected);
    }

    #[test]
    fn full_containers_are_bit_sets() {
        let all = bytes((0..5000).collect());
        assert_eq!(all.len(), 16 + 8192);
        assert_eq!(all.get(16 + 624..16 + 626), Some([0xff, 0].as_slice()));
        assert_eq!(bytes((0..4096).collect()).len(), 16 + 8192);
    }
}
