//! What holds for every PROXY header, whatever the bytes.

use sluice_wire::proxy::{Header, LONGEST, Owner, decode, encode};

/// Panics if a promise of the decoder or the encoder is broken.
pub(crate) fn run(data: &[u8]) {
    let outcome = decode(data);
    match outcome {
        Ok(Some(header)) => whole(data, header),
        // More than the longest is never asked for.
        Ok(None) => assert!(data.len() < LONGEST),
        Err(_) => {}
    }
    for length in 0..data.len().min(300) {
        match (decode(&data[..length]), outcome) {
            (Ok(None), _) => {}
            // What is decided is decided, whatever follows.
            (Ok(Some(part)), whole) => assert_eq!(Ok(Some(part)), whole),
            (Err(_), whole) => assert!(whole.is_err()),
        }
    }
}

fn whole(data: &[u8], header: Header) {
    assert!(header.length <= data.len() && header.length <= LONGEST);
    assert_eq!(decode(&data[..header.length]), Ok(Some(header)));
    let mut again = Vec::new();
    encode(&mut again, header.version, header.owner);
    let decoded = decode(&again).map(|header| header.map(|header| header.owner));
    match header.owner {
        // Two ends of different families cannot come from a header.
        Owner::Client(_) | Owner::Unknown => assert_eq!(decoded, Ok(Some(header.owner))),
        Owner::Sender => assert!(matches!(decoded, Ok(Some(Owner::Sender | Owner::Unknown)))),
    }
}
