//! Targets of requests without some of their parameters.

use sluice_message::pair::query_pairs;
use sluice_message::{RequestHead, SpaceExhausted, TargetForm};

/// Takes parameters out of the query, whose names (as they are encoded) `unwanted` knows. Others stay as
/// they were written.
pub(crate) fn without_parameters(
    request: &mut RequestHead,
    unwanted: impl Fn(&[u8]) -> bool,
) -> Result<(), SpaceExhausted> {
    let query = request.query();
    let asked = matches!(request.form, TargetForm::Origin | TargetForm::Absolute);
    if !asked || !query_pairs(query).any(|(name, _)| unwanted(name)) {
        return Ok(());
    }
    let kept: Vec<&[u8]> = query
        .split(|byte| *byte == b'&')
        .filter(|pair| !unwanted(pair.split(|byte| *byte == b'=').next().unwrap_or_default()))
        .collect();
    let query = kept.join(&b'&');
    let joined = |target: &[u8]| {
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        let mark: &[u8] = if query.is_empty() { b"" } else { b"?" };
        [path, mark, &query].concat()
    };
    let (target, raw) = (joined(request.target()), joined(request.raw_target()));
    request.target = request.fields.append(&target)?;
    // What is taken out is often a secret: it is nowhere any more.
    if !request.raw_target.is_empty() {
        request.raw_target = request.fields.append(&raw)?;
    }
    request.query = request.fields.append(&query)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use sluice_message::RequestHead;

    use super::without_parameters;

    #[test]
    fn takes_parameters_out_and_leaves_the_others() {
        let table = [
            ("/a?key=1", "/a"),
            ("/a?x=%20&key=1&y=+", "/a?x=%20&y=+"),
            ("/a?key&x", "/a?x"),
            ("/a?keys=1", "/a?keys=1"),
            ("/a?x=key", "/a?x=key"),
            ("/a", "/a"),
            ("/a?", "/a?"),
            ("/a?x&&key=1&key=2", "/a?x&"),
        ];
        for (target, wanted) in table {
            let mut head = RequestHead::new();
            head.target = head.fields.append(target.as_bytes()).unwrap();
            let query = target.split_once('?').map_or("", |(_, query)| query);
            head.query = head.fields.append(query.as_bytes()).unwrap();
            without_parameters(&mut head, |name| name == b"key").unwrap();
            assert_eq!(String::from_utf8_lossy(head.target()), wanted, "{target}");
            let query = wanted.split_once('?').map_or("", |(_, query)| query);
            assert_eq!(head.query(), query.as_bytes(), "{target}");
        }
    }
}
