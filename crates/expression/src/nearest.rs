//! The known name nearest to a mistyped one.

/// The known name that needs the fewest edits to become `typed`, if it is near enough to be meant.
pub(crate) fn nearest<'k>(typed: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    // A name of another length is no typing error, and the work stays bounded.
    if typed.len() > 64 {
        return None;
    }
    let allowed = (typed.len() / 3).clamp(1, 3);
    known
        .map(|name| (edits(typed.as_bytes(), name.as_bytes()), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Insertions, deletions and replacements; case, and the choice between `-` and `_`, cost nothing.
fn edits(typed: &[u8], name: &[u8]) -> usize {
    let fold = |byte: u8| if byte == b'-' { b'_' } else { byte.to_ascii_lowercase() };
    let mut last: Vec<usize> = (0..=name.len()).collect();
    for (row, a) in typed.iter().enumerate() {
        let mut diagonal = row;
        let mut left = row + 1;
        if let Some(first) = last.first_mut() {
            *first = left;
        }
        for (cell, b) in last.iter_mut().skip(1).zip(name) {
            let kept = diagonal + usize::from(fold(*a) != fold(*b));
            diagonal = *cell;
            left = kept.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn typing_errors_find_their_name() {
        let known = ["request.method", "request.path", "client.ip", "lower"];
        let rows = [
            ("request.methd", Some("request.method")),
            ("request.Path", Some("request.path")),
            ("requst.paht", Some("request.path")),
            ("clientip", Some("client.ip")),
            ("lowr", Some("lower")),
            ("colour", None),
            ("", None),
        ];
        for (typed, expected) in rows {
            assert_eq!(nearest(typed, known.into_iter()), expected, "{typed}");
        }
        assert_eq!(nearest(&"a".repeat(10_000), known.into_iter()), None);
    }
}
