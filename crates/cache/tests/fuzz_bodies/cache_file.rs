//! What holds of whatever bytes stand where a cache keeps the head of an answer.

use sluice_cache::rewrite_head;
use twox_hash::XxHash64;

/// Where the head proper begins.
const FRONT: usize = 48;

/// Checks these bytes as they are, and as if their checksum was right.
pub(crate) fn run(data: &[u8]) {
    check(data);
    check(&sealed(data));
}

/// What is read is what was written, and nothing that is cut off or longer is read.
fn check(bytes: &[u8]) {
    let Some(again) = rewrite_head(bytes) else { return };
    let mark = 8;
    // Whatever is not the mark of what may be given means that the origin is asked.
    assert!(again[mark] == bytes[mark] || again[mark] == b'S');
    // The seven bytes behind it are room.
    assert!(
        again[..mark] == bytes[..mark] && again[16..] == bytes[16..],
        "it is written as it was"
    );
    assert_eq!(again.len(), bytes.len());
    for cut in [bytes.len() - 1, bytes.len() / 2, FRONT, FRONT - 1, 0] {
        assert!(bytes.len() == cut || rewrite_head(&bytes[..cut]).is_none(), "it is cut off");
    }
    assert!(rewrite_head(&[bytes, b"x"].concat()).is_none(), "it is longer");
}

/// The same with everything right that says where the head ends and that it is whole.
fn sealed(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    bytes.resize(bytes.len().max(FRONT), 0);
    bytes[..8].copy_from_slice(b"SLUICEC1");
    let length = u32::try_from(bytes.len() - FRONT).unwrap_or(u32::MAX);
    bytes[24..28].copy_from_slice(&length.to_le_bytes());
    let room = u32::try_from(bytes.len().next_multiple_of(512)).unwrap_or(u32::MAX);
    bytes[28..32].copy_from_slice(&room.to_le_bytes());
    let sum = XxHash64::oneshot(0, &bytes[24..]);
    bytes[16..24].copy_from_slice(&sum.to_le_bytes());
    bytes
}
