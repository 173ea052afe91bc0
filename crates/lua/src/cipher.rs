//! `silly.crypto.cipher`: AES in its modes, and ciphers that prove that nobody changed anything.

use std::cell::RefCell;
use std::rc::Rc;

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    self, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext,
    StreamingDecryptingKey, StreamingEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;

use crate::frame::{Frame, Kind, Reply, native};

native!(native_new, new);
native!(native_update, update);
native!(native_final, finish);
native!(native_padding, set_padding);
native!(native_aad, set_aad);
native!(native_set_tag, set_tag);
native!(native_tag, tag);

pub(crate) const FUNCTIONS: [(&str, mlua_sys::lua_CFunction); 7] = [
    ("cipher_new", native_new),
    ("cipher_update", native_update),
    ("cipher_final", native_final),
    ("cipher_padding", native_padding),
    ("cipher_aad", native_aad),
    ("cipher_set_tag", native_set_tag),
    ("cipher_tag", native_tag),
];

/// Bytes of a block of AES.
const BLOCK: usize = 16;

/// Most bytes that are kept until the end, for ciphers that are judged as a whole.
const WHOLE: usize = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Encrypt,
    Decrypt,
}

/// How blocks follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chaining {
    /// Each by itself.
    Ecb,
    /// Each mixed with the one before.
    Cbc,
}

/// What turns a key into a stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Ctr,
    Cfb,
    Ofb,
}

#[derive(Clone, Copy)]
enum Algorithm {
    Blocks(&'static cipher::Algorithm, Chaining),
    Stream(&'static cipher::Algorithm, Mode),
    Whole(&'static aead::Algorithm),
}

impl Algorithm {
    fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let (rest, key) = if let Some(rest) = name.strip_prefix("aes-128-") {
            (rest, (&cipher::AES_128, &aead::AES_128_GCM))
        } else if let Some(rest) = name.strip_prefix("aes-192-") {
            (rest, (&cipher::AES_192, &aead::AES_192_GCM))
        } else if let Some(rest) = name.strip_prefix("aes-256-") {
            (rest, (&cipher::AES_256, &aead::AES_256_GCM))
        } else if name == "chacha20-poly1305" {
            return Some(Self::Whole(&aead::CHACHA20_POLY1305));
        } else {
            return None;
        };
        Some(match rest {
            "ecb" => Self::Blocks(key.0, Chaining::Ecb),
            "cbc" => Self::Blocks(key.0, Chaining::Cbc),
            "ctr" => Self::Stream(key.0, Mode::Ctr),
            "cfb" | "cfb128" => Self::Stream(key.0, Mode::Cfb),
            "ofb" => Self::Stream(key.0, Mode::Ofb),
            "gcm" => Self::Whole(key.1),
            _ => return None,
        })
    }

    fn key_length(self) -> usize {
        match self {
            Self::Blocks(key, _) | Self::Stream(key, _) => {
                if *key == cipher::AES_128 {
                    16
                } else if *key == cipher::AES_192 {
                    24
                } else {
                    32
                }
            }
            Self::Whole(key) => key.key_len(),
        }
    }

    fn iv_length(self) -> usize {
        match self {
            Self::Blocks(_, Chaining::Ecb) => 0,
            Self::Whole(_) => aead::NONCE_LEN,
            _ => BLOCK,
        }
    }
}

enum BlockKey {
    Encrypt(EncryptingKey),
    Decrypt(DecryptingKey),
}

/// Blocks, padded at the end as PKCS #7 says unless the script does that.
struct Blocks {
    key: BlockKey,
    chaining: Chaining,
    before: [u8; BLOCK],
    waiting: Vec<u8>,
}

enum Stream {
    Encrypt(StreamingEncryptingKey),
    Decrypt(StreamingDecryptingKey),
}

/// What is encrypted and proven, or believed and decrypted, as a whole.
struct Whole {
    key: LessSafeKey,
    nonce: [u8; aead::NONCE_LEN],
    direction: Direction,
    content: Vec<u8>,
    aad: Vec<u8>,
    tag: Option<Vec<u8>>,
}

enum State {
    Blocks(Box<Blocks>),
    Stream(Stream),
    Whole(Box<Whole>),
    Over { tag: Option<Vec<u8>> },
}

struct Cipher {
    state: RefCell<State>,
    padding: std::cell::Cell<bool>,
}

/// Nothing more can be said: the library keeps silent about reasons.
type Result<T> = std::result::Result<T, ()>;

fn start(algorithm: Algorithm, direction: Direction, key: &[u8], iv: &[u8]) -> Result<State> {
    let unbound = |algorithm| UnboundCipherKey::new(algorithm, key).map_err(|_| ());
    Ok(match algorithm {
        Algorithm::Blocks(algorithm, chaining) => {
            let key = unbound(algorithm)?;
            let key = match (direction, chaining) {
                (Direction::Encrypt, Chaining::Ecb) => {
                    EncryptingKey::ecb(key).map(BlockKey::Encrypt)
                }
                (Direction::Encrypt, Chaining::Cbc) => {
                    EncryptingKey::cbc(key).map(BlockKey::Encrypt)
                }
                (Direction::Decrypt, Chaining::Ecb) => {
                    DecryptingKey::ecb(key).map(BlockKey::Decrypt)
                }
                (Direction::Decrypt, Chaining::Cbc) => {
                    DecryptingKey::cbc(key).map(BlockKey::Decrypt)
                }
            };
            let before = iv.try_into().unwrap_or_default();
            State::Blocks(Box::new(Blocks {
                key: key.map_err(|_| ())?,
                chaining,
                before,
                waiting: Vec::new(),
            }))
        }
        Algorithm::Stream(algorithm, mode) => {
            let (key, iv) = (unbound(algorithm)?, iv_of(iv)?);
            State::Stream(stream(key, mode, direction, iv)?)
        }
        Algorithm::Whole(algorithm) => State::Whole(Box::new(Whole {
            key: LessSafeKey::new(UnboundKey::new(algorithm, key).map_err(|_| ())?),
            nonce: iv.try_into().map_err(|_| ())?,
            direction,
            content: Vec::new(),
            aad: Vec::new(),
            tag: None,
        })),
    })
}

fn iv_of(iv: &[u8]) -> Result<FixedLength<BLOCK>> {
    let iv: [u8; BLOCK] = iv.try_into().map_err(|_| ())?;
    Ok(FixedLength::from(&iv))
}

fn stream(
    key: UnboundCipherKey,
    mode: Mode,
    direction: Direction,
    iv: FixedLength<BLOCK>,
) -> Result<Stream> {
    if direction == Direction::Encrypt {
        let context = EncryptionContext::Iv128(iv);
        let made = match mode {
            Mode::Ctr => StreamingEncryptingKey::less_safe_ctr(key, context),
            Mode::Cfb => StreamingEncryptingKey::less_safe_cfb128(key, context),
            Mode::Ofb => StreamingEncryptingKey::less_safe_ofb(key, context),
        };
        return made.map(Stream::Encrypt).map_err(|_| ());
    }
    let context = DecryptionContext::Iv128(iv);
    let made = match mode {
        Mode::Ctr => StreamingDecryptingKey::ctr(key, context),
        Mode::Cfb => StreamingDecryptingKey::cfb128(key, context),
        Mode::Ofb => StreamingDecryptingKey::ofb(key, context),
    };
    made.map(Stream::Decrypt).map_err(|_| ())
}

impl Blocks {
    /// Takes bytes; gives those of complete blocks. The last block of what is decrypted may be padding and waits.
    fn update(&mut self, data: &[u8]) -> Result<Vec<u8>> {
        self.waiting.extend_from_slice(data);
        let held = match self.key {
            BlockKey::Encrypt(_) => self.waiting.len() % BLOCK,
            BlockKey::Decrypt(_) => match self.waiting.len() {
                0 => 0,
                length => (length - 1) % BLOCK + 1,
            },
        };
        let rest = self.waiting.split_off(self.waiting.len() - held);
        let whole = std::mem::replace(&mut self.waiting, rest);
        self.run(whole)
    }

    fn run(&mut self, mut blocks: Vec<u8>) -> Result<Vec<u8>> {
        let Some(last) = blocks.last_chunk::<BLOCK>().copied() else { return Ok(blocks) };
        let iv = FixedLength::from(&self.before);
        match &self.key {
            BlockKey::Encrypt(key) => {
                let context = match self.chaining {
                    Chaining::Ecb => EncryptionContext::None,
                    Chaining::Cbc => EncryptionContext::Iv128(iv),
                };
                key.less_safe_encrypt(&mut blocks, context).map_err(|_| ())?;
                self.before = blocks.last_chunk().copied().unwrap_or_default();
            }
            BlockKey::Decrypt(key) => {
                let context = match self.chaining {
                    Chaining::Ecb => DecryptionContext::None,
                    Chaining::Cbc => DecryptionContext::Iv128(iv),
                };
                key.decrypt(&mut blocks, context).map_err(|_| ())?;
                self.before = last;
            }
        }
        Ok(blocks)
    }

    /// The last block, padded (RFC 5652, 6.3) or without its padding.
    fn finish(mut self, padding: bool) -> Result<Vec<u8>> {
        let mut last = std::mem::take(&mut self.waiting);
        if let BlockKey::Encrypt(_) = self.key {
            if padding {
                let missing = BLOCK - last.len() % BLOCK;
                last.resize(last.len() + missing, u8::try_from(missing).unwrap_or_default());
            }
            return if last.len().is_multiple_of(BLOCK) { self.run(last) } else { Err(()) };
        }
        if !last.len().is_multiple_of(BLOCK) {
            return Err(());
        }
        let mut plain = self.run(last)?;
        if padding {
            let count = plain.last().copied().filter(|count| (1..=16).contains(count)).ok_or(())?;
            let kept = plain.len() - usize::from(count);
            let filled = plain.get(kept..).unwrap_or_default();
            if filled.iter().any(|byte| *byte != count) {
                return Err(());
            }
            plain.truncate(kept);
        }
        Ok(plain)
    }
}

impl Stream {
    fn update(&mut self, data: &[u8]) -> Result<Vec<u8>> {
        let mut room = vec![0; data.len() + BLOCK];
        let written = match self {
            Self::Encrypt(key) => key.update(data, &mut room),
            Self::Decrypt(key) => key.update(data, &mut room),
        };
        let length = written.map_err(|_| ())?.written().len();
        room.truncate(length);
        Ok(room)
    }
}

impl Whole {
    fn update(&mut self, data: &[u8]) -> Result<Vec<u8>> {
        if self.content.len() + data.len() > WHOLE {
            return Err(());
        }
        self.content.extend_from_slice(data);
        Ok(Vec::new())
    }

    /// The result, and the tag that proves it.
    fn finish(mut self) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
        let nonce = Nonce::assume_unique_for_key(self.nonce);
        let aad = Aad::from(&self.aad);
        if self.direction == Direction::Encrypt {
            let tag = self.key.seal_in_place_separate_tag(nonce, aad, &mut self.content);
            let tag = tag.map_err(|_| ())?.as_ref().to_vec();
            return Ok((self.content, Some(tag)));
        }
        self.content.extend_from_slice(&self.tag.ok_or(())?);
        let length = self.key.open_in_place(nonce, aad, &mut self.content).map_err(|_| ())?.len();
        self.content.truncate(length);
        Ok((self.content, None))
    }
}

/// `new("encrypt" | "decrypt", algorithm, key, iv)`.
fn new(frame: &Frame<'_>) -> Reply {
    let (Some(direction), Some(name)) = (frame.bytes(1), frame.text(2)) else {
        return frame.raise("cipher: an algorithm is expected");
    };
    let direction = if direction == b"encrypt" { Direction::Encrypt } else { Direction::Decrypt };
    let Some(algorithm) = Algorithm::named(&name) else {
        return frame.raise(&format!(
            "unknown algorithm: {name}; there are aes-128, aes-192 and aes-256 with -ecb, -cbc, -ctr, -cfb, -ofb and \
             -gcm, and chacha20-poly1305"
        ));
    };
    let (key, iv) = (frame.bytes(3).unwrap_or_default(), frame.bytes(4).unwrap_or_default());
    if key.len() != algorithm.key_length() {
        let needed = algorithm.key_length();
        return frame.raise(&format!("key length need:{needed} got:{}", key.len()));
    }
    if iv.len() != algorithm.iv_length() {
        let needed = algorithm.iv_length();
        return frame.raise(&format!("iv length need:{needed} got:{}", iv.len()));
    }
    let Ok(state) = start(algorithm, direction, key, iv) else {
        return frame.raise("cipher error: the library refuses the key");
    };
    let padding = std::cell::Cell::new(true);
    frame.push_object(Rc::new(Cipher { state: RefCell::new(state), padding }), 1024);
    Reply::Values(1)
}

impl Cipher {
    fn update(&self, data: &[u8]) -> Result<Vec<u8>> {
        match &mut *self.state.borrow_mut() {
            State::Blocks(blocks) => blocks.update(data),
            State::Stream(stream) => stream.update(data),
            State::Whole(whole) => whole.update(data),
            State::Over { .. } => Err(()),
        }
    }

    fn finish(&self) -> Result<Vec<u8>> {
        let state = self.state.replace(State::Over { tag: None });
        match state {
            State::Blocks(blocks) => blocks.finish(self.padding.get()),
            State::Stream(_) => Ok(Vec::new()),
            State::Whole(whole) => {
                let (content, tag) = whole.finish()?;
                self.state.replace(State::Over { tag });
                Ok(content)
            }
            State::Over { .. } => Err(()),
        }
    }
}

#[cold]
fn no_cipher(frame: &Frame<'_>) -> Reply {
    frame.raise("bad argument #1: a cipher is expected")
}

/// `update(cipher, data)`.
fn update(frame: &Frame<'_>) -> Reply {
    let Some(cipher) = frame.object::<Cipher>(1) else { return no_cipher(frame) };
    let Some(data) = frame.bytes(2) else {
        return frame.raise("bad argument #1 to 'update': a string is expected");
    };
    match cipher.update(data) {
        Ok(result) => frame.push_bytes(&result),
        Err(()) => return frame.raise("cipher update error: it is over, or there is too much"),
    }
    Reply::Values(1)
}

/// `final(cipher, data | nil)`: what is left, or nil if it was changed on its way.
fn finish(frame: &Frame<'_>) -> Reply {
    let Some(cipher) = frame.object::<Cipher>(1) else { return no_cipher(frame) };
    if matches!(*cipher.state.borrow(), State::Over { .. }) {
        return frame.raise("cipher final error: it is over, use reset");
    }
    let first = match frame.kind(2) {
        Kind::Nil => Ok(Vec::new()),
        _ => match frame.bytes(2) {
            Some(data) => cipher.update(data),
            None => return frame.raise("bad argument #1 to 'final': a string is expected"),
        },
    };
    let result = first.and_then(|mut first| {
        first.extend(cipher.finish()?);
        Ok(first)
    });
    match result {
        Ok(result) => frame.push_bytes(&result),
        Err(()) => frame.push_nil(),
    }
    Reply::Values(1)
}

/// `padding(cipher, boolean)`.
fn set_padding(frame: &Frame<'_>) -> Reply {
    let Some(cipher) = frame.object::<Cipher>(1) else { return no_cipher(frame) };
    cipher.padding.set(frame.truth(2));
    Reply::Values(0)
}

fn whole(
    frame: &Frame<'_>,
    what: &str,
    direction: Option<Direction>,
    change: impl FnOnce(&mut Whole, &[u8]) -> Result<()>,
) -> Reply {
    let Some(cipher) = frame.object::<Cipher>(1) else { return no_cipher(frame) };
    let Some(data) = frame.bytes(2) else { return frame.raise("a string is expected") };
    let changed = match &mut *cipher.state.borrow_mut() {
        State::Whole(whole) if direction.is_none_or(|it| it == whole.direction) => {
            change(whole, data)
        }
        _ => Err(()),
    };
    match changed {
        Ok(()) => Reply::Values(0),
        Err(()) => frame.raise(&format!("cipher {what} error: not for this cipher, or not now")),
    }
}

/// `aad(cipher, data)`: what is proven with the rest, but not encrypted.
fn set_aad(frame: &Frame<'_>) -> Reply {
    whole(frame, "aad", None, |whole, data| {
        if !whole.content.is_empty() || whole.aad.len() + data.len() > WHOLE {
            return Err(());
        }
        whole.aad.extend_from_slice(data);
        Ok(())
    })
}

/// `set_tag(cipher, tag)`.
fn set_tag(frame: &Frame<'_>) -> Reply {
    whole(frame, "tag", Some(Direction::Decrypt), |whole, tag| {
        whole.tag = Some(tag.to_vec());
        (tag.len() == whole.key.algorithm().tag_len()).then_some(()).ok_or(())
    })
}

/// `tag(cipher)`.
fn tag(frame: &Frame<'_>) -> Reply {
    let Some(cipher) = frame.object::<Cipher>(1) else { return no_cipher(frame) };
    match &*cipher.state.borrow() {
        State::Over { tag: Some(tag) } => {
            frame.push_bytes(tag);
            Reply::Values(1)
        }
        _ => frame.raise("cipher tag error: there is one after final of gcm and poly1305 only"),
    }
}
