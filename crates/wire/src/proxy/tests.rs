//! Headers as they are written, and all that is none.

use super::*;

fn ends(source: &str, destination: &str) -> Owner {
    let [source, destination] = [source, destination].map(|text| text.parse().unwrap());
    Owner::Client(Ends { source, destination })
}

/// A header of version 2 with this command, this family and this content.
fn binary(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length, content].concat()
}

const V4: [u8; 12] = [192, 0, 2, 7, 10, 0, 0, 1, 0xDC, 0x04, 0x01, 0xBB];

#[test]
fn lines_are_read() {
    let longest = format!("PROXY UNKNOWN {}\r\n", "f".repeat(107 - 16));
    let six = "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff \
               ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe 65535 65535\r\n";
    let cases = [
        ("PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n", ends("192.0.2.7:56324", "10.0.0.1:443")),
        (
            "PROXY TCP4 0.0.0.0 255.255.255.255 0 65535\r\n",
            ends("0.0.0.0:0", "255.255.255.255:65535"),
        ),
        ("PROXY TCP6 2001:db8::1 ::1 1 2\r\n", ends("[2001:db8::1]:1", "[::1]:2")),
        (
            six,
            ends(
                "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535",
                "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe]:65535",
            ),
        ),
        ("PROXY UNKNOWN\r\n", Owner::Unknown),
        ("PROXY UNKNOWN whatever 1 2 3\r\n", Owner::Unknown),
        (&longest, Owner::Unknown),
    ];
    for (line, owner) in cases {
        let wanted = Header { version: Version::V1, owner, length: line.len() };
        assert_eq!(decode(line.as_bytes()), Ok(Some(wanted)), "{line}");
        let more = format!("{line}GET / HTTP/1.1\r\n");
        assert_eq!(decode(more.as_bytes()), Ok(Some(wanted)), "{line}");
        for length in 0..line.len() {
            assert_eq!(decode(&line.as_bytes()[..length]), Ok(None), "{length} of {line}");
        }
    }
}

#[test]
fn lines_that_break_the_rules_are_refused() {
    use HeaderError as E;
    let long = format!("PROXY UNKNOWN {}\r\n", "f".repeat(108 - 16));
    let endless = "PROXY UNKNOWN ".to_owned() + &"f".repeat(200);
    let cases = [
        ("GET / HTTP/1.1\r\n", E::Missing),
        ("POST", E::Missing),
        ("PROXYTCP4", E::Missing),
        ("PROXY \r\n", E::Line),
        ("PROXY  TCP4 1.1.1.1 2.2.2.2 1 2\r\n", E::Line),
        ("PROXY tcp4 1.1.1.1 2.2.2.2 1 2\r\n", E::Line),
        ("PROXY TCP5 1.1.1.1 2.2.2.2 1 2\r\n", E::Line),
        ("PROXY UNKNOWNS\r\n", E::Line),
        ("PROXY UNKNOWN a\nb\r\n", E::Line),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 1\r\n", E::Line),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 1 2 \r\n", E::Line),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 1 2 3\r\n", E::Line),
        ("PROXY TCP4 1.1.1.1  2.2.2.2 1 2\r\n", E::Line),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 01 2\r\n", E::Line),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 +1 2\r\n", E::Line),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 1 65536\r\n", E::Line),
        ("PROXY TCP4 1.1.1.01 2.2.2.2 1 2\r\n", E::Line),
        ("PROXY TCP4 1.1.1 2.2.2.2 1 2\r\n", E::Line),
        ("PROXY TCP4 ::1 2.2.2.2 1 2\r\n", E::Line),
        ("PROXY TCP6 1.1.1.1 ::1 1 2\r\n", E::Line),
        ("PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", E::Line),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 1 2\n", E::Line),
        ("PROXY TCP4 1.1.1.1\r2.2.2.2 1 2\r\n", E::Line),
        (&long, E::TooLong),
        (&endless, E::TooLong),
    ];
    for (line, error) in cases {
        assert_eq!(decode(line.as_bytes()), Err(error), "{line}");
    }
}

#[test]
fn binary_headers_are_read() {
    let six: Vec<u8> = (0..36).collect();
    let unix = [b'/'; 216];
    let noop = [0x04, 0, 3, 1, 2, 3];
    let cases = [
        (binary(0x21, 0x11, &V4), ends("192.0.2.7:56324", "10.0.0.1:443")),
        (
            binary(0x21, 0x11, &[&V4[..], &noop, &[0x05, 0, 0]].concat()),
            ends("192.0.2.7:56324", "10.0.0.1:443"),
        ),
        (
            binary(0x21, 0x21, &six),
            ends(
                "[1:203:405:607:809:a0b:c0d:e0f]:8225",
                "[1011:1213:1415:1617:1819:1a1b:1c1d:1e1f]:8739",
            ),
        ),
        (binary(0x21, 0x12, &V4), Owner::Unknown),
        (binary(0x21, 0x31, &unix), Owner::Unknown),
        (binary(0x21, 0x00, b""), Owner::Unknown),
        (binary(0x21, 0x00, b"anything at all"), Owner::Unknown),
        (binary(0x20, 0x00, b""), Owner::Sender),
        (binary(0x20, 0x11, &V4), Owner::Sender),
        (binary(0x20, 0x77, b"to be discarded"), Owner::Sender),
        (binary(0x21, 0x00, &vec![0; LONGEST - 16]), Owner::Unknown),
    ];
    for (bytes, owner) in cases {
        let wanted = Header { version: Version::V2, owner, length: bytes.len() };
        assert_eq!(decode(&bytes), Ok(Some(wanted)), "{bytes:?}");
        let more = [&bytes[..], b"\x16\x03\x01"].concat();
        assert_eq!(decode(&more), Ok(Some(wanted)), "{bytes:?}");
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), Ok(None), "{length} of {bytes:?}");
        }
    }
}

#[test]
fn binary_headers_that_break_the_rules_are_refused() {
    use HeaderError as E;
    let with = |extension: &[u8]| binary(0x21, 0x11, &[&V4[..], extension].concat());
    let cases = [
        (b"\r\n\r\n\0\r\nQUIX".to_vec(), E::Missing),
        (b"\x16\x03\x01".to_vec(), E::Missing),
        (binary(0x11, 0x11, &V4), E::Command),
        (binary(0x22, 0x11, &V4), E::Command),
        (binary(0x2F, 0x11, &V4)[..13].to_vec(), E::Command),
        (binary(0x21, 0x41, &V4), E::Family),
        (binary(0x21, 0x13, &V4), E::Family),
        (binary(0x21, 0x03, &V4), E::Family),
        (binary(0x21, 0x11, &V4[..11]), E::Addresses),
        (binary(0x21, 0x21, &V4), E::Addresses),
        (binary(0x21, 0x31, &[0; 215]), E::Addresses),
        (with(&[0x04]), E::Extension),
        (with(&[0x04, 0]), E::Extension),
        (with(&[0x04, 0, 1]), E::Extension),
        (with(&[0x04, 0xFF, 0xFF, 1]), E::Extension),
        (with(&[0x03, 0, 3, 1, 2, 3]), E::Extension),
        (with(&[0x03, 0, 4, 1, 2, 3, 4]), E::Checksum),
        (binary(0x21, 0x00, &vec![0; LONGEST - 15]), E::TooLong),
        (binary(0x20, 0x00, &vec![0; LONGEST - 15])[..16].to_vec(), E::TooLong),
    ];
    for (bytes, error) in cases {
        assert_eq!(decode(&bytes), Err(error), "{bytes:?}");
    }
}

#[test]
fn a_checksum_has_to_be_that_of_the_header() {
    let mut bytes =
        binary(0x21, 0x11, &[&V4[..], &[0x03, 0, 4, 0, 0, 0, 0, 0x04, 0, 1, 9]].concat());
    let place = 16 + 12 + 3;
    let sum = checksum::crc32c(bytes.iter().copied());
    bytes[place..place + 4].copy_from_slice(&sum.to_be_bytes());
    assert!(matches!(decode(&bytes), Ok(Some(_))));
    // But for the byte that says that it is one.
    for at in (16..bytes.len()).filter(|at| *at != place - 3) {
        let mut wrong = bytes.clone();
        wrong[at] ^= 0x40;
        assert!(decode(&wrong).is_err(), "byte {at}");
    }
    let twice = [&V4[..], &[0x03, 0, 4, 0, 0, 0, 0], &[0x03, 0, 4, 0, 0, 0, 0]].concat();
    assert!(decode(&binary(0x21, 0x11, &twice)).is_err());
}

#[test]
fn what_is_written_is_read() {
    let cases = [
        ends("192.0.2.7:56324", "10.0.0.1:443"),
        ends("[2001:db8::1]:0", "[::1]:65535"),
        Owner::Unknown,
    ];
    for version in [Version::V1, Version::V2] {
        for owner in cases {
            let mut bytes = Vec::new();
            encode(&mut bytes, version, owner);
            assert_eq!(decode(&bytes), Ok(Some(Header { version, owner, length: bytes.len() })));
        }
    }
    let mut own = Vec::new();
    encode(&mut own, Version::V1, Owner::Sender);
    assert_eq!(own, b"PROXY UNKNOWN\r\n");
    own.clear();
    encode(&mut own, Version::V2, Owner::Sender);
    assert_eq!(own, binary(0x20, 0, b""));
}

#[test]
fn ends_of_two_families_are_told_in_one() {
    let mixed = ends("[2001:db8::1]:1", "10.0.0.1:443");
    let wild = ends("192.0.2.7:5", "[::]:0");
    for version in [Version::V1, Version::V2] {
        let mut bytes = Vec::new();
        encode(&mut bytes, version, mixed);
        let owner = ends("[2001:db8::1]:1", "[::ffff:10.0.0.1]:443");
        assert_eq!(decode(&bytes).unwrap().unwrap().owner, owner);
        bytes.clear();
        encode(&mut bytes, version, wild);
        assert_eq!(decode(&bytes).unwrap().unwrap().owner, ends("[::ffff:192.0.2.7]:5", "[::]:0"));
    }
}

/// Steps of a linear congruential generator: the same bytes every time.
fn noise(seed: &mut u64) -> u8 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    seed.to_be_bytes()[0]
}

#[test]
fn headers_that_were_tampered_with_never_surprise() {
    let samples = [
        binary(0x21, 0x11, &[&V4[..], &[0x04, 0, 3, 1, 2, 3]].concat()),
        b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n".to_vec(),
        b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n".to_vec(),
    ];
    let mut seed = 1;
    for turn in 0..20_000 {
        let mut bytes = samples[turn % samples.len()].clone();
        for _ in 0..=turn % 3 {
            let at = usize::from(noise(&mut seed)) % bytes.len();
            bytes[at] = noise(&mut seed);
        }
        let outcome = decode(&bytes);
        if let Ok(Some(header)) = outcome {
            assert!(header.length <= bytes.len());
            // What follows changes nothing.
            let more = [&bytes[..], b"more"].concat();
            assert_eq!(decode(&more), outcome);
        }
        // Less of it is never another header.
        for length in 0..bytes.len() {
            if let Ok(Some(header)) = decode(&bytes[..length]) {
                assert_eq!(Ok(Some(header)), outcome);
            }
        }
    }
}
