//! CRC-32C (RFC 9260, appendix A), over headers of a few hundred bytes.

/// The polynomial, its bits reversed.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// The checksum of these bytes.
pub(super) fn crc32c(bytes: impl Iterator<Item = u8>) -> u32 {
    // Bit by bit: there is one header in the life of a connection.
    let step = |crc: u32, byte: u8| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (POLYNOMIAL * (crc & 1)))
    };
    !bytes.fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sums() {
        // RFC 3720, B.4.
        let cases: [(&[u8], u32); 5] = [
            (b"", 0),
            (b"123456789", 0xE306_9283),
            (&[0; 32], 0x8A91_36AA),
            (&[0xFF; 32], 0x62A8_AB43),
            (b"a", 0xC1D0_4330),
        ];
        for (bytes, sum) in cases {
            assert_eq!(crc32c(bytes.iter().copied()), sum, "{bytes:?}");
        }
    }
}
