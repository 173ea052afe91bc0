//! What holds for every request head, whatever the bytes.

use sluice_message::{
    FieldId, Fields, PathAction, PathForm, PathRules, PathSpellings, RequestHead, TargetForm,
};
use sluice_wire::h1::{Decoded, Limits, RequestFraming, decode_request, encode_request};

const LIMITS: Limits = Limits { head: 1024, fields: 20, target: 200 };

/// Room for what encoding adds.
const AGAIN: Limits = Limits { head: 4096, fields: 40, target: 400 };

/// Panics if a promise of the decoder or the encoder is broken.
pub(crate) fn run(data: &[u8]) {
    let mut head = RequestHead::new();
    let whole = decode_request(data, &LIMITS, &mut head);
    let complete = match whole {
        Ok(Decoded::Complete { consumed }) => Some(consumed),
        _ => None,
    };
    // Early or late, in one read or in many: the verdict is the same.
    for length in 0..data.len().min(300) {
        match decode_request(&data[..length], &LIMITS, &mut RequestHead::new()) {
            Ok(Decoded::Partial) => assert!(complete.is_none_or(|consumed| length < consumed)),
            Ok(Decoded::Complete { consumed }) => assert_eq!(complete, Some(consumed)),
            Err(_) => assert!(whole.is_err(), "refused after {length} bytes"),
        }
    }
    let Some(consumed) = complete else {
        assert_eq!(head, RequestHead::new(), "nothing is left of a head that was not filled");
        return;
    };
    assert!(consumed <= data.len());
    let fields = &head.fields;
    inside(fields);
    for span in [head.method_text, head.target, head.path, head.query, head.authority] {
        assert!(span.start <= span.end && span.range().end <= fields.bytes().len());
    }
    if head.form == TargetForm::Origin {
        has_two_spellings(&head);
    }
    let mut lines = [httparse::EMPTY_HEADER; 64];
    let second = httparse::Request::new(&mut lines).parse(&data[..consumed]);
    assert!(second.is_ok_and(|status| status.is_complete()), "httparse disagrees");
    if !head.authority.is_empty() {
        goes_round(&head);
    }
}

/// What is sent is compared alike when it is read again, and holds nothing that upstreams could resolve.
fn has_two_spellings(head: &RequestHead) {
    let path = head.sent_path();
    assert_eq!(head.path(), path);
    let keep = PathAction::Keep;
    let lenient = PathRules { escaped_slashes: keep, backslashes: keep, ..PathRules::DEFAULT };
    for rules in [PathRules::DEFAULT, lenient] {
        let (mut first, mut second) = (PathSpellings::default(), PathSpellings::default());
        if rules.read(path, &mut first).is_err() {
            assert_eq!(head.path_form, PathForm::Unread);
            return;
        }
        if head.path_form == PathForm::Normal {
            assert_eq!((first.sent.as_slice(), first.compared.as_slice()), (path, path));
            assert_eq!(first.problem, None);
        }
        assert_eq!(rules.read(&first.sent, &mut second), Ok(()), "what is sent is a path");
        assert_eq!((&first.sent, &first.compared), (&second.sent, &second.compared));
        for path in [&first.sent, &first.compared] {
            assert_eq!(path.first(), Some(&b'/'));
            let mut segments = path.split(|&byte| byte == b'/').skip(1).peekable();
            while let Some(segment) = segments.next() {
                let name = segment.split(|&byte| byte == b';').next().unwrap_or_default();
                assert!(name != b"." && name != b"..", "{}", path.escape_ascii());
                assert!(!name.is_empty() || segments.peek().is_none(), "{}", path.escape_ascii());
            }
        }
    }
}

/// What is sent upstream says what the client said, and nothing else.
fn goes_round(head: &RequestHead) {
    let framing = RequestFraming { body: head.body, ..RequestFraming::default() };
    let mut sent = Vec::new();
    encode_request(&mut sent, head, framing);
    let mut again = RequestHead::new();
    let got = decode_request(&sent, &AGAIN, &mut again);
    assert_eq!(got, Ok(Decoded::Complete { consumed: sent.len() }), "{}", sent.escape_ascii());
    assert_eq!(again.body, head.body);
    assert_eq!(
        (again.method_text(), again.target(), again.path(), again.query(), again.authority()),
        (head.method_text(), head.target(), head.path(), head.query(), head.authority()),
    );
    let mut left = head.fields.iter();
    for line in again.fields.lines() {
        let made =
            [FieldId::ContentLength, FieldId::TransferEncoding, FieldId::Connection, FieldId::Te];
        if made.contains(&line.id) {
            continue;
        }
        let pair = (again.fields.slice(line.name), again.fields.slice(line.value));
        // A request of HTTP/1.0 may do without `Host`: the authority of its target is sent there (RFC 9112, 3.2).
        if line.id == FieldId::Host && head.fields.value(FieldId::Host).is_none() {
            assert_eq!(pair.1, head.authority());
            continue;
        }
        assert!(left.any(|have| have == pair), "{} was never sent", pair.0.escape_ascii());
    }
    let mut second = Vec::new();
    encode_request(&mut second, &again, framing);
    assert_eq!(second.escape_ascii().to_string(), sent.escape_ascii().to_string());
}

fn inside(fields: &Fields) {
    for line in fields.lines() {
        assert!(line.name.start < line.name.end && line.name.end < line.value.start.max(1));
        assert!(line.value.start <= line.value.end && line.value.end + 2 <= line.line_end);
        assert!(line.line().range().end <= fields.bytes().len());
        let name = fields.slice(line.name);
        assert_eq!(line.id, if line.id == FieldId::Removed { line.id } else { FieldId::of(name) });
    }
}
