//! `silly.encoding.base64`, `silly.crypto.hash` and `silly.crypto.hmac`.

use std::cell::RefCell;
use std::rc::Rc;

use aws_lc_rs::digest::{self, Algorithm, Context};
use aws_lc_rs::hmac;
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

fn algorithm(name: &str) -> Option<&'static Algorithm> {
    Some(match name.to_ascii_lowercase().as_str() {
        "sha1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        "sha224" => &digest::SHA224,
        "sha256" => &digest::SHA256,
        "sha384" => &digest::SHA384,
        "sha512" => &digest::SHA512,
        _ => return None,
    })
}

#[cold]
fn unknown(frame: &Frame<'_>, name: &str) -> Reply {
    let known = "sha1, sha224, sha256, sha384 and sha512";
    frame.raise(&format!("no digest is called '{name}': there are {known}"))
}

/// `hash(algorithm, data)`: the digest, in bytes.
fn hash(frame: &Frame<'_>) -> Reply {
    let (Some(name), Some(data)) = (frame.text(1), frame.bytes(2)) else {
        return frame.raise("hash: an algorithm and a string are expected");
    };
    let Some(algorithm) = algorithm(&name) else { return unknown(frame, &name) };
    frame.push_bytes(digest::digest(algorithm, data).as_ref());
    Reply::Values(1)
}

/// A digest in the making.
struct Hash {
    algorithm: &'static Algorithm,
    context: RefCell<Context>,
}

/// `new(algorithm)`.
fn new(frame: &Frame<'_>) -> Reply {
    let Some(name) = frame.text(1) else { return frame.raise("hash: an algorithm is expected") };
    let Some(algorithm) = algorithm(&name) else { return unknown(frame, &name) };
    frame.push_object(Rc::new(Hash { algorithm, context: RefCell::new(Context::new(algorithm)) }));
    Reply::Values(1)
}

/// `update(object, data)`.
fn update(frame: &Frame<'_>) -> Reply {
    let (Some(hash), Some(data)) = (frame.object::<Hash>(1), frame.bytes(2)) else {
        return frame.raise("hash.update: a string is expected");
    };
    hash.context.borrow_mut().update(data);
    Reply::Values(0)
}

/// `final(object)`: the digest of everything so far; more may follow.
fn finish(frame: &Frame<'_>) -> Reply {
    let Some(hash) = frame.object::<Hash>(1) else { return frame.raise("a hash is expected") };
    let context = hash.context.borrow().clone();
    frame.push_bytes(context.finish().as_ref());
    Reply::Values(1)
}

/// `reset(object)`: as if nothing had been added.
fn reset(frame: &Frame<'_>) -> Reply {
    let Some(hash) = frame.object::<Hash>(1) else { return frame.raise("a hash is expected") };
    hash.context.replace(Context::new(hash.algorithm));
    Reply::Values(0)
}

/// `digest(key, data, algorithm)`: RFC 2104, in bytes.
fn sign(frame: &Frame<'_>) -> Reply {
    let (Some(key), Some(data)) = (frame.bytes(1), frame.bytes(2)) else {
        return frame.raise("hmac: a key and a string are expected");
    };
    let name = frame.text(3).unwrap_or_else(|| "sha256".to_owned());
    let algorithm = match name.to_ascii_lowercase().as_str() {
        "sha1" => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        "sha224" => hmac::HMAC_SHA224,
        "sha256" => hmac::HMAC_SHA256,
        "sha384" => hmac::HMAC_SHA384,
        "sha512" => hmac::HMAC_SHA512,
        _ => return unknown(frame, &name),
    };
    frame.push_bytes(hmac::sign(&hmac::Key::new(algorithm, key), data).as_ref());
    Reply::Values(1)
}
