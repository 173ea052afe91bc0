//! The known name nearest to a mistyped one.

/// The candidate that needs the fewest edits to become `typed`, if it is near enough to be meant.
pub(crate) fn nearest<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // A name of another length class is no typing error, and the work stays bounded.
    let length = typed.chars().count();
    if length > 64 {
        return None;
    }
    let allowed = (length / 3).clamp(1, 3);
    known
        .into_iter()
        .filter(|name| name.chars().count().abs_diff(length) <= allowed)
        .map(|name| (edits(&fold(typed), &fold(name)), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// `did you mean "..."?`, or the fallback where nothing is near.
pub(crate) fn suggestion<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
    noun: &str,
) -> Option<String> {
    if let Some(name) = nearest(typed, known.clone()) {
        return Some(format!("did you mean \"{name}\"?"));
    }
    let all: Vec<&str> = known.into_iter().take(30).collect();
    (!all.is_empty()).then(|| format!("known {noun}: {}", all.join(", ")))
}

/// Case and the choice between `-` and `_` cost no edit.
fn fold(name: &str) -> Vec<char> {
    name.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// Insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
fn edits(left: &[char], right: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    let mut left_previous = None;
    for (row, a) in left.iter().enumerate() {
        let mut next = vec![row.saturating_add(1)];
        let mut right_previous: Option<&char> = None;
        for (column, b) in right.iter().enumerate() {
            let at = |list: &[usize], index: usize| list.get(index).copied().unwrap_or(usize::MAX);
            let kept = at(&last, column).saturating_add(usize::from(a != b));
            let removed = at(&last, column.saturating_add(1)).saturating_add(1);
            let added = at(&next, column).saturating_add(1);
            let mut best = kept.min(removed).min(added);
            if left_previous == Some(b) && right_previous == Some(a) {
                best = best.min(at(&before, column.saturating_sub(1)).saturating_add(1));
            }
            next.push(best);
            right_previous = Some(b);
        }
        before = std::mem::replace(&mut last, next);
        left_previous = Some(a);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_find_their_name() {
        let known = ["address", "name", "limits", "timeout", "body_limit", "max_ttl"];
        let rows = [
            ("adress", Some("address")),
            ("addres", Some("address")),
            ("Address", Some("address")),
            ("nmae", Some("name")),
            ("limit", Some("limits")),
            ("time_out", Some("timeout")),
            ("body-limit", Some("body_limit")),
            ("bodylimit", Some("body_limit")),
            ("colour", None),
            ("x", None),
            ("", None),
        ];
        for (typed, expected) in rows {
            assert_eq!(nearest(typed, known), expected, "{typed}");
        }
        assert_eq!(nearest(&"a".repeat(100_000), known), None);
    }
}
