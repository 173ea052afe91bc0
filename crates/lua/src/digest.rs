//! `silly.encoding.base64`, and `hash`, `hmac` and `utils` of `silly.crypto`.

use std::cell::RefCell;
use std::rc::Rc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{self, Context};
use aws_lc_rs::{hmac, rand};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::frame::{Frame, Reply, native};

native!(native_base64_encode, base64_encode);
native!(native_base64_decode, base64_decode);
native!(native_url_encode, url_encode);
native!(native_url_decode, url_decode);
native!(native_hash, hash);
native!(native_new, new);
native!(native_update, update);
native!(native_final, finish);
native!(native_reset, reset);
native!(native_hmac, sign);
native!(native_same, same);
native!(native_random, random);
native!(native_xor, xor);

/// Most random bytes at once.
const MOST_RANDOM: usize = 1 << 20;

fn encode(frame: &Frame<'_>, engine: &impl Engine) -> Reply {
    let Some(bytes) = frame.bytes(1) else { return frame.raise("base64: a string is expected") };
    frame.push_bytes(engine.encode(bytes).as_bytes());
    Reply::Values(1)
}

fn decode(frame: &Frame<'_>, engine: &impl Engine, text: Option<Vec<u8>>) -> Reply {
    let Some(text) = text else { return frame.raise("base64: a string is expected") };
    match engine.decode(text) {
        Ok(bytes) => {
            frame.push_bytes(&bytes);
            Reply::Values(1)
        }
        Err(error) => frame.fail(error.to_string().as_bytes()),
    }
}

fn base64_encode(frame: &Frame<'_>) -> Reply {
    encode(frame, &STANDARD)
}

fn base64_decode(frame: &Frame<'_>) -> Reply {
    decode(frame, &STANDARD, frame.bytes(1).map(<[u8]>::to_vec))
}

fn url_encode(frame: &Frame<'_>) -> Reply {
    encode(frame, &URL_SAFE_NO_PAD)
}

/// With or without the signs that fill up the end.
fn url_decode(frame: &Frame<'_>) -> Reply {
    let text = frame.bytes(1).map(|text| text.iter().copied().filter(|it| *it != b'=').collect());
    decode(frame, &URL_SAFE_NO_PAD, text)
}

/// A digest by its name.
#[derive(Clone, Copy)]
enum Algorithm {
    /// One of the library that encrypts connections.
    Library(&'static digest::Algorithm),
    /// RFC 1321, which that library leaves out.
    Md5,
}

impl Algorithm {
    fn named(name: &str) -> Option<Self> {
        Some(Self::Library(match name.to_ascii_lowercase().as_str() {
            "md5" => return Some(Self::Md5),
            "sha1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            "sha224" => &digest::SHA224,
            "sha256" => &digest::SHA256,
            "sha384" => &digest::SHA384,
            "sha512" => &digest::SHA512,
            "sha512-256" => &digest::SHA512_256,
            "sha3-256" => &digest::SHA3_256,
            "sha3-384" => &digest::SHA3_384,
            "sha3-512" => &digest::SHA3_512,
            _ => return None,
        }))
    }

    fn start(self) -> State {
        match self {
            Self::Library(algorithm) => State::Library(Context::new(algorithm)),
            Self::Md5 => State::Md5(md5::Context::new()),
        }
    }
}

/// What a digest has seen.
#[derive(Clone)]
enum State {
    Library(Context),
    Md5(md5::Context),
}

impl State {
    fn update(&mut self, data: &[u8]) {
        match self {
            Self::Library(context) => context.update(data),
            Self::Md5(context) => context.consume(data),
        }
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Self::Library(context) => context.finish().as_ref().to_vec(),
            Self::Md5(context) => context.finalize().0.to_vec(),
        }
    }
}

#[cold]
fn unknown(frame: &Frame<'_>, name: &str) -> Reply {
    let known =
        "md5, sha1, sha224, sha256, sha384, sha512, sha512-256 and sha3-256, sha3-384, sha3-512";
    frame.raise(&format!("no digest is called '{name}': there are {known}"))
}

/// `hash(algorithm, data)`: the digest, in bytes.
fn hash(frame: &Frame<'_>) -> Reply {
    let (Some(name), Some(data)) = (frame.text(1), frame.bytes(2)) else {
        return frame.raise("hash: an algorithm and a string are expected");
    };
    let Some(algorithm) = Algorithm::named(&name) else { return unknown(frame, &name) };
    let mut state = algorithm.start();
    state.update(data);
    frame.push_bytes(&state.finish());
    Reply::Values(1)
}

/// A digest in the making.
struct Hash {
    algorithm: Algorithm,
    state: RefCell<State>,
}

/// `new(algorithm)`.
fn new(frame: &Frame<'_>) -> Reply {
    let Some(name) = frame.text(1) else { return frame.raise("hash: an algorithm is expected") };
    let Some(algorithm) = Algorithm::named(&name) else { return unknown(frame, &name) };
    frame.push_object(Rc::new(Hash { algorithm, state: RefCell::new(algorithm.start()) }), 512);
    Reply::Values(1)
}

/// `update(object, data)`.
fn update(frame: &Frame<'_>) -> Reply {
    let (Some(hash), Some(data)) = (frame.object::<Hash>(1), frame.bytes(2)) else {
        return frame.raise("hash.update: a string is expected");
    };
    hash.state.borrow_mut().update(data);
    Reply::Values(0)
}

/// `final(object)`: the digest of everything so far; more may follow.
fn finish(frame: &Frame<'_>) -> Reply {
    let Some(hash) = frame.object::<Hash>(1) else { return frame.raise("a hash is expected") };
    let state = hash.state.borrow().clone();
    frame.push_bytes(&state.finish());
    Reply::Values(1)
}

/// `reset(object)`: as if nothing had been added.
fn reset(frame: &Frame<'_>) -> Reply {
    let Some(hash) = frame.object::<Hash>(1) else { return frame.raise("a hash is expected") };
    hash.state.replace(hash.algorithm.start());
    Reply::Values(0)
}

/// `digest(key, data, algorithm)`: RFC 2104, in bytes.
fn sign(frame: &Frame<'_>) -> Reply {
    let (Some(key), Some(data)) = (frame.bytes(1), frame.bytes(2)) else {
        return frame.raise("hmac: a key and a string are expected");
    };
    let name = frame.text(3).unwrap_or_else(|| "sha256".to_owned());
    let algorithm = match name.to_ascii_lowercase().as_str() {
        "md5" => {
            frame.push_bytes(&md5_hmac(key, data));
            return Reply::Values(1);
        }
        "sha1" => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        "sha224" => hmac::HMAC_SHA224,
        "sha256" => hmac::HMAC_SHA256,
        "sha384" => hmac::HMAC_SHA384,
        "sha512" => hmac::HMAC_SHA512,
        _ => {
            let known = "md5, sha1, sha224, sha256, sha384 and sha512";
            return frame
                .raise(&format!("no digest for hmac is called '{name}': there are {known}"));
        }
    };
    frame.push_bytes(hmac::sign(&hmac::Key::new(algorithm, key), data).as_ref());
    Reply::Values(1)
}

/// RFC 2104, 2, with blocks of 64 bytes.
fn md5_hmac(key: &[u8], data: &[u8]) -> [u8; 16] {
    const BLOCK: usize = 64;
    let hashed = if key.len() > BLOCK { md5::compute(key).0.to_vec() } else { key.to_vec() };
    let pad = |with: u8| {
        let padded = hashed.iter().copied().chain(std::iter::repeat(0)).take(BLOCK);
        padded.map(move |byte| byte ^ with).collect::<Vec<u8>>()
    };
    let mut inner = md5::Context::new();
    inner.consume(pad(0x36));
    inner.consume(data);
    let mut outer = md5::Context::new();
    outer.consume(pad(0x5c));
    outer.consume(inner.finalize().0);
    outer.finalize().0
}

/// `same(a, b)`: whether two strings are equal, in a time that says nothing about where they differ.
fn same(frame: &Frame<'_>) -> Reply {
    let (Some(one), Some(other)) = (frame.bytes(1), frame.bytes(2)) else {
        return frame.raise("two strings are expected");
    };
    frame.push_truth(verify_slices_are_equal(one, other).is_ok());
    Reply::Values(1)
}

/// `random(count)`: so many bytes that nobody can guess.
fn random(frame: &Frame<'_>) -> Reply {
    let count = frame.integer(1).and_then(|count| usize::try_from(count).ok());
    let Some(count) = count.filter(|count| *count <= MOST_RANDOM) else {
        return frame.raise("bad argument #1 to 'randomkey': at most 1048576 bytes");
    };
    let mut bytes = vec![0; count];
    match rand::fill(&mut bytes) {
        Ok(()) => frame.push_bytes(&bytes),
        Err(_) => return frame.raise("the system has no random bytes"),
    }
    Reply::Values(1)
}

/// `xor(text, key)`: each byte with that of the key, which begins again at its end.
fn xor(frame: &Frame<'_>) -> Reply {
    let (Some(text), Some(key)) = (frame.bytes(1), frame.bytes(2)) else {
        return frame.raise("xor: a text and a key are expected");
    };
    if key.is_empty() {
        return frame.raise("bad argument #2 to 'xor': the key is empty");
    }
    let mixed: Vec<u8> = text.iter().zip(key.iter().cycle()).map(|(a, b)| a ^ b).collect();
    frame.push_bytes(&mixed);
    Reply::Values(1)
}
