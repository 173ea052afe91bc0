//! Which encodings a client takes (RFC 9110, 12.5.3).

use sluice_message::Fields;

use crate::Encoding;

/// The places of the encodings a client takes, the one it likes best first; of those it likes as well as others
/// the order of the configuration counts. None that it likes less than plain content.
pub(crate) fn accepted(fields: &Fields, encodings: &[Encoding]) -> Vec<u8> {
    if encodings.is_empty() {
        return Vec::new();
    }
    let plain = weight(fields, b"identity").unwrap_or(1);
    let mut liked: Vec<(u16, u8)> = Vec::new();
    for (place, encoding) in (0_u8..).zip(encodings) {
        match weight(fields, encoding.coding()).or_else(|| weight(fields, b"*")) {
            Some(weight) if weight > 0 && weight >= plain => liked.push((weight, place)),
            _ => {}
        }
    }
    liked.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    liked.into_iter().map(|(_, place)| place).collect()
}

/// How much a client likes a coding, in thousandths; `None` if it does not speak of it.
fn weight(fields: &Fields, coding: &[u8]) -> Option<u16> {
    let members =
        fields.values_of(b"accept-encoding").flat_map(|value| value.split(|b| *b == b','));
    for member in members {
        let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        // What gzip was called before (RFC 9110, 8.4.1.3).
        let old = coding == b"gzip" && name.eq_ignore_ascii_case(b"x-gzip");
        if old || name.eq_ignore_ascii_case(coding) {
            return Some(parts.find_map(quality).unwrap_or(1000));
        }
    }
    None
}

/// `q=0.5` in thousandths; what is no weight is none at all.
fn quality(parameter: &[u8]) -> Option<u16> {
    let value = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))?;
    let text = std::str::from_utf8(value).ok()?.trim();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    let thousandths = format!("{part:0<3}").parse().ok().filter(|_| digits);
    Some(match (whole, thousandths) {
        ("0", Some(thousandths)) => thousandths,
        ("1", Some(0)) => 1000,
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_decide_and_then_the_order() {
        let all = [Encoding::Brotli, Encoding::Zstandard, Encoding::Gzip];
        let rows: [(&[&str], &[u8]); 15] = [
            (&[], &[]),
            (&[""], &[]),
            (&["gzip"], &[2]),
            (&["x-gzip"], &[2]),
            (&["gzip, br, zstd"], &[0, 1, 2]),
            (&["gzip", "BR"], &[0, 2]),
            (&["gzip;q=1, br;q=0.5"], &[2, 0]),
            (&["gzip; q=0.8 ,zstd;q=0.80,br;q=0"], &[1, 2]),
            (&["*"], &[0, 1, 2]),
            (&["*;q=0.5, gzip"], &[2, 0, 1]),
            (&["*;q=0, gzip"], &[2]),
            (&["gzip;q=0.5, identity"], &[]),
            (&["gzip;q=0.5, identity;q=0.1"], &[2]),
            (&["gzip;q=1.5, br;q=x"], &[]),
            (&["deflate"], &[]),
        ];
        for (lines, expected) in rows {
            let mut fields = Fields::new();
            for line in lines {
                fields.push(b"accept-encoding", line.as_bytes()).unwrap();
            }
            assert_eq!(accepted(&fields, &all), expected, "{lines:?}");
        }
    }
}
