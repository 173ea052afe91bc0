//! What holds for every response head, whatever the bytes.

use sluice_message::{FieldId, Method, ResponseHead};
use sluice_wire::h1::{
    Decoded, Limits, ResponseFraming, Upgrade, decode_response, encode_response,
};

const LIMITS: Limits = Limits { head: 1024, fields: 20, target: 0 };

/// Room for what encoding adds.
const AGAIN: Limits = Limits { head: 4096, fields: 40, target: 0 };

/// Panics if a promise of the decoder or the encoder is broken.
pub(crate) fn run(data: &[u8]) {
    for request in [Method::Get, Method::Head, Method::Connect] {
        answer_to(request, data);
    }
}

fn answer_to(request: Method, data: &[u8]) {
    let mut head = ResponseHead::new();
    let whole = decode_response(data, &LIMITS, request, &mut head);
    let complete = match whole {
        Ok(Decoded::Complete { consumed }) => Some(consumed),
        _ => None,
    };
    for length in 0..data.len().min(300) {
        match decode_response(&data[..length], &LIMITS, request, &mut ResponseHead::new()) {
            Ok(Decoded::Partial) => assert!(complete.is_none_or(|consumed| length < consumed)),
            Ok(Decoded::Complete { consumed }) => assert_eq!(complete, Some(consumed)),
            Err(_) => assert!(whole.is_err(), "refused after {length} bytes"),
        }
    }
    let Some(consumed) = complete else {
        assert_eq!(head, ResponseHead::new(), "nothing is left of a head that was not filled");
        return;
    };
    assert!(consumed <= data.len());
    assert!((100..=999).contains(&head.status));
    for line in head.fields.lines() {
        assert!(line.name.start < line.name.end && line.name.end < line.value.start.max(1));
        assert!(line.value.start <= line.value.end && line.value.end + 2 <= line.line_end);
        assert!(line.line().range().end <= head.fields.bytes().len());
        assert_eq!(line.id, FieldId::of(head.fields.slice(line.name)));
    }
    let mut lines = [httparse::EMPTY_HEADER; 64];
    let second = httparse::Response::new(&mut lines).parse(&data[..consumed]);
    assert!(second.is_ok_and(|status| status.is_complete()), "httparse disagrees");
    goes_round(&head, request);
}

/// What is sent downstream says what the origin said, and nothing else.
fn goes_round(head: &ResponseHead, request: Method) {
    let framing = ResponseFraming {
        body: head.body,
        persistence: head.persistence,
        request,
        upgrade: if head.status == 101 { Upgrade::Yes } else { Upgrade::No },
        ..ResponseFraming::default()
    };
    let mut sent = Vec::new();
    encode_response(&mut sent, head, &framing);
    let mut again = ResponseHead::new();
    let got = decode_response(&sent, &AGAIN, request, &mut again);
    assert_eq!(got, Ok(Decoded::Complete { consumed: sent.len() }), "{}", sent.escape_ascii());
    assert_eq!((again.status, again.body), (head.status, head.body));
    if !head.is_interim() {
        assert_eq!(again.persistence, head.persistence);
    }
    if !head.reason.is_empty() {
        assert_eq!(again.fields.slice(again.reason), head.fields.slice(head.reason));
    }
    let mut left = head.fields.iter();
    for line in again.fields.lines() {
        let made = [FieldId::ContentLength, FieldId::TransferEncoding, FieldId::Connection];
        if made.contains(&line.id) {
            continue;
        }
        let pair = (again.fields.slice(line.name), again.fields.slice(line.value));
        assert!(left.any(|have| have == pair), "{} was never sent", pair.0.escape_ascii());
    }
    let mut second = Vec::new();
    encode_response(&mut second, &again, &framing);
    assert_eq!(second.escape_ascii().to_string(), sent.escape_ascii().to_string());
}
