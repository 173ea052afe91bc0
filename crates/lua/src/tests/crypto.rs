//! Digests, ciphers, keys, tokens and compression, as the standards have them.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair,
};
use sluice_testkit::base64;

use super::modules::reports;
use super::scripted::Scripted;

const HEX: &str =
    "local function hex(s) return (s:gsub('.', function(c) return ('%02x'):format(c:byte()) end)) end
     local function bytes(s) return (s:gsub('%x%x', function(h) return string.char(tonumber(h, 16)) end)) end\n";

#[test]
fn md5_and_sha3_are_there_for_who_needs_them() {
    reports(
        &format!(
            "{HEX}
         local hash, hmac = require 'silly.crypto.hash', require 'silly.crypto.hmac'
         report(hex(hash.hash('md5', 'abc')), hex(hash.hash('MD5', '')))
         local h = hash.new('md5') h:update('a') report(hex(h:final())) h:update('bc') report(hex(h:final()))
         report(hex(hmac.digest('Jefe', 'what do ya want for nothing?', 'md5')))
         report(hex(hmac.digest(('\\170'):rep(80), 'Test Using Larger Than Block-Size Key - Hash Key First', 'md5')))
         report(hex(hash.hash('sha3-256', '')))"
        ),
        &[
            "900150983cd24fb0d6963f7d28e17f72 d41d8cd98f00b204e9800998ecf8427e",
            "0cc175b9c0f1b6a831c399e269772661",
            "900150983cd24fb0d6963f7d28e17f72",
            // RFC 2202, 2, cases 2 and 6.
            "750c783e6ab0b503eaa86e310a5db738",
            "6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd",
            "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a",
        ],
    );
}

#[test]
fn keys_are_random_and_texts_are_mixed() {
    reports(
        "local utils = require 'silly.crypto.utils'
         report(#utils.randomkey(16), utils.randomkey(16) ~= utils.randomkey(16), #utils.randomkey(0))
         report(utils.xor(utils.xor('some text', 'key'), 'key'), utils.xor('ab', 'ab') == '\\0\\0')
         report((pcall(utils.xor, 'a', '')), (pcall(utils.randomkey, -1)), (pcall(utils.randomkey, 1e9)))",
        &["16 true 0", "some text true", "false false false"],
    );
}

#[test]
fn ciphers_are_those_of_the_standards() {
    reports(
        &format!(
            "{HEX}
         local cipher = require 'silly.crypto.cipher'
         local key, iv = bytes '2b7e151628aed2a6abf7158809cf4f3c', bytes '000102030405060708090a0b0c0d0e0f'
         local block = bytes '6bc1bee22e409f96e93d7e117393172a'
         -- NIST SP 800-38A, F.1.1, F.2.1, F.3.13, F.4.1, F.5.1.
         local function first(name, iv)
            local c = cipher.encryptor(name, key, iv) c:setpadding(0) return hex(c:final(block))
         end
         report(first('aes-128-ecb'), first('AES-128-CBC', iv))
         report(first('aes-128-cfb', iv), first('aes-128-ofb', iv))
         report(first('aes-128-ctr', bytes 'f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff'))
         -- The GCM specification, B, test case 2.
         local c = cipher.encryptor('aes-128-gcm', ('\\0'):rep(16), ('\\0'):rep(12))
         report(hex(c:final(('\\0'):rep(16))), hex(c:tag()))"
        ),
        &[
            "3ad77bb40d7a3660a89ecaf32466ef97 7649abac8119b246cee98e9b12e9197d",
            "3b3fd92eb72dad20333449f8e83cfb4a 3b3fd92eb72dad20333449f8e83cfb4a",
            "874d6191b620e3261bef6864990db6ce",
            "0388dace60b6a392f328c2b971b2fe78 ab6e47d42cec13bdf53a67b21257bddf",
        ],
    );
}

#[test]
fn what_a_cipher_takes_in_parts_it_gives_back_whole() {
    reports(
        "local cipher = require 'silly.crypto.cipher'
         local text, bad = {}, {}
         for i = 1, 100 do text[i] = ('%03d'):format(i) end
         text = table.concat(text)
         local function run(c, data, step)
            local parts = {}
            for at = 1, #data, step do parts[#parts + 1] = c:update(data:sub(at, at + step - 1)) end
            parts[#parts + 1] = c:final()
            return table.concat(parts)
         end
         for _, size in ipairs{'128', '192', '256'} do
            for _, mode in ipairs{'ecb', 'cbc', 'ctr', 'cfb', 'ofb'} do
                local name, key = 'aes-' .. size .. '-' .. mode, ('k'):rep(size / 8)
                local iv = mode ~= 'ecb' and ('i'):rep(16) or nil
                for length = 280, 300 do
                    local plain = text:sub(1, length)
                    local whole = cipher.encryptor(name, key, iv):final(plain)
                    for _, step in ipairs{1, 7, 16, 100} do
                        local there = run(cipher.encryptor(name, key, iv), plain, step)
                        local back = run(cipher.decryptor(name, key, iv), there, step)
                        if there ~= whole or back ~= plain then bad[#bad + 1] = name .. length .. '/' .. step end
                    end
                end
            end
         end
         report(#bad, bad[1])",
        &["0 nil"],
    );
}

#[test]
fn what_was_changed_is_not_believed() {
    reports(
        "local cipher = require 'silly.crypto.cipher'
         for _, name in ipairs{'aes-256-gcm', 'chacha20-poly1305'} do
            local key, iv = ('k'):rep(32), ('i'):rep(12)
            local enc = cipher.encryptor(name, key, iv)
            enc:setaad('head') enc:setaad('er')
            local secret = enc:update('top ') .. enc:final('secret')
            local tag = enc:tag()
            local function open(secret, tag, aad)
                local dec = cipher.decryptor(name, key, iv)
                dec:setaad(aad) dec:settag(tag)
                return dec:final(secret)
            end
            report(#secret, #tag, open(secret, tag, 'header'), open(secret, tag, 'Header'),
                open('x' .. secret:sub(2), tag, 'header'), open(secret, ('x'):rep(16), 'header'))
            report((cipher.decryptor(name, key, iv):final(secret)), (pcall(enc.update, enc, 'x')), (pcall(enc.final, enc)),
                (pcall(enc.settag, enc, tag)), (pcall(cipher.decryptor(name, key, iv).settag, enc, 'short')))
         end
         local dec = cipher.decryptor('aes-128-cbc', ('k'):rep(16), ('i'):rep(16))
         report(dec:final('no multiple of a block'), (cipher.decryptor('aes-128-cbc', ('k'):rep(16), ('i'):rep(16)):final(('x'):rep(32))))
         local function why(...) return (select(2, pcall(cipher.encryptor, ...)):gsub('^.-: ', '', 1)) end
         report(why('aes-128-cbc', 'k', ('i'):rep(16)))
         report(why('aes-128-cbc', ('k'):rep(16), 'i'))
         report(why('rot13', ''):match('^[^;]*'))
         local again = cipher.encryptor('aes-128-cbc', ('k'):rep(16), ('i'):rep(16))
         local one = again:final('message')
         again:reset(('k'):rep(16), ('i'):rep(16))
         report(again:final('message') == one, (pcall(again.tag, again)), (pcall(again.setaad, again, 'x')))",
        &[
            "10 16 top secret nil nil nil",
            "nil false false false false",
            "10 16 top secret nil nil nil",
            "nil false false false false",
            "nil nil",
            "key length need:16 got:1",
            "iv length need:16 got:1",
            "unknown algorithm: rot13",
            "true false false",
        ],
    );
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", base64(der))
}

/// Keys as `name` and `name.public`, for `env.get`.
fn keys() -> Vec<(String, String)> {
    let rsa = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let curve = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
    let edwards = Ed25519KeyPair::generate().unwrap();
    let mut all = Vec::new();
    let mut add = |name: &str, secret: &[u8], public: &[u8]| {
        all.push((name.to_owned(), pem("PRIVATE KEY", secret)));
        all.push((format!("{name}_public"), pem("PUBLIC KEY", public)));
    };
    add(
        "rsa",
        AsDer::<Pkcs8V1Der<'_>>::as_der(&rsa).unwrap().as_ref(),
        AsDer::<PublicKeyX509Der<'_>>::as_der(rsa.public_key()).unwrap().as_ref(),
    );
    add(
        "curve",
        curve.to_pkcs8v1().unwrap().as_ref(),
        AsDer::<PublicKeyX509Der<'_>>::as_der(curve.public_key()).unwrap().as_ref(),
    );
    add(
        "edwards",
        edwards.to_pkcs8v1().unwrap().as_ref(),
        AsDer::<PublicKeyX509Der<'_>>::as_der(edwards.public_key()).unwrap().as_ref(),
    );
    all
}

#[test]
fn keys_sign_and_encrypt() {
    let mut script = Scripted::start_with(
        "local pkey = require 'silly.crypto.pkey'
         for _, name in ipairs{'rsa', 'curve', 'edwards'} do
            local secret, public = assert(pkey.new(env.get(name))), assert(pkey.new(env.get(name .. '_public')))
            local signature = secret:sign('message', 'sha256')
            report(public:verify('message', signature, 'sha256'), secret:verify('message', signature, 'sha256'),
                public:verify('Message', signature, 'sha256'), public:verify('message', signature .. 'x', 'sha256'),
                (pcall(public.sign, public, 'message', 'sha256')))
         end
         local secret, public = pkey.new(env.get 'rsa'), pkey.new(env.get 'rsa_public')
         report(secret:decrypt(public:encrypt('hello')), secret:decrypt(public:encrypt('hello', pkey.RSA_PKCS1_OAEP), pkey.RSA_PKCS1_OAEP),
            secret:decrypt(public:encrypt('hello', pkey.RSA_PKCS1_OAEP, 'sha256'), pkey.RSA_PKCS1_OAEP, 'sha256'))
         report((secret:decrypt('nothing')), (public:encrypt(('x'):rep(1000))), (public:decrypt('x')), (public:encrypt('x', 3)))
         report((pkey.new 'nothing'), (pkey.new '-----BEGIN PUBLIC KEY-----\\nAAAA\\n-----END PUBLIC KEY-----'),
            select(2, pkey.new '-----BEGIN ENCRYPTED PRIVATE KEY-----\\nAAAA\\n-----END ENCRYPTED PRIVATE KEY-----'):match('not supported'))
         report((pcall(secret.sign, secret, 'x', 'md5')), (pcall(public.verify, public, 'x', 'y', 'nonsense')), (pcall(public.verify, 7)))",
        |settings| settings.variables.extend(keys()),
    );
    script.expect(&[
        "true true false false false",
        "true true false false false",
        "true true false false false",
        "hello hello hello",
        "nil nil nil nil",
        "nil nil not supported",
        "false false false",
    ]);
}

#[test]
fn tokens_are_signed_and_judged() {
    let mut script = Scripted::start_with(
        "local jwt, pkey, base64 = require 'silly.security.jwt', require 'silly.crypto.pkey', require 'silly.encoding.base64'
         -- The example of jwt.io, whose claims are in this order.
         local known = 'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c'
         local claims = assert(jwt.decode(known, 'your-256-bit-secret'))
         report(claims.sub, claims.name, claims.iat)
         report(jwt.decode(known, 'another secret'))
         for _, name in ipairs{'HS256', 'HS384', 'HS512'} do
            report(jwt.decode(jwt.encode({a = name}, 'secret', name), 'secret').a)
         end
         local rsa, rsa_public = pkey.new(env.get 'rsa'), pkey.new(env.get 'rsa_public')
         for _, name in ipairs{'RS256', 'RS384', 'RS512'} do
            report(jwt.decode(jwt.encode({a = name}, rsa, name), rsa_public).a)
         end
         local curve, curve_public = pkey.new(env.get 'curve'), pkey.new(env.get 'curve_public')
         local token = jwt.encode({a = 1}, curve, 'ES256')
         report(jwt.decode(token, curve_public).a, #base64.urlsafe_decode(token:match('[^.]*$')))
         report(jwt.decode(token, rsa_public))
         report(jwt.decode(token, env.get 'curve_public'))
         -- A public key is no secret, whatever the header of a token says.
         report(jwt.decode(jwt.encode({}, env.get 'rsa_public', 'HS256'), rsa_public))
         report(jwt.decode(base64.urlsafe_encode '{\"alg\":\"none\"}' .. '.e30.x', 'secret'))
         report(jwt.decode('a.b', 'secret'))
         report(jwt.decode('!.b.c', 'secret'))
         report(jwt.decode('YWJj.b.c', 'secret'))
         report(jwt.encode({}, 'secret', 'HS1'))
         report((jwt.encode({}, 'secret', 'RS256')), (jwt.encode({f = print}, 'secret')), (jwt.encode({}, rsa_public, 'RS256')), (jwt.encode({}, curve, 'ES384')))",
        |settings| settings.variables.extend(keys()),
    );
    script.expect(&[
        "1234567890 John Doe 1516239022",
        "nil signature verification failed",
        "HS256",
        "HS384",
        "HS512",
        "RS256",
        "RS384",
        "RS512",
        "1 64",
        "nil signature verification failed",
        "nil signature verification failed",
        "nil signature verification failed",
        "nil unsupported algorithm: none",
        "nil invalid token format",
        "nil invalid token format",
        "nil invalid header",
        "nil unsupported algorithm: HS1",
        "nil nil nil nil",
    ]);
}

#[test]
fn what_is_made_smaller_becomes_whole_again() {
    reports(
        "for _, name in ipairs{'gzip', 'snappy', 'lz4'} do
            local way = require('silly.compress.' .. name)
            for _, text in ipairs{'', 'a', 'hello world', ('x'):rep(1e6), '\\0\\1\\255'} do
                assert(way.decompress(way.compress(text)) == text)
            end
            report(#way.compress(('x'):rep(1e6)) < 60000, (way.decompress 'not a valid stream'), type(select(2, way.decompress 'x')),
                (way.decompress ''), (pcall(way.compress, nil)), (way.decompress(way.compress(('abc'):rep(1000)):sub(1, -9))))
         end
         local gzip, snappy = require 'silly.compress.gzip', require 'silly.compress.snappy'
         report(gzip.decompress '\\31\\139\\8\\0\\0\\0\\0\\0\\0\\3\\203\\72\\205\\201\\201\\87\\40\\207\\47\\202\\73\\225\\2\\0\\45\\59\\8\\175\\12\\0\\0\\0' == 'hello world\\n')
         report(snappy.decompress '\\5\\16hello', #gzip.compress(('y'):rep(1000), 0) > 1000, (pcall(gzip.compress, 'x', 10)))",
        &[
            "true nil string nil false nil",
            "true nil string nil false nil",
            "true nil string nil false nil",
            "true",
            "hello true false",
        ],
    );
}

#[test]
fn little_that_becomes_very_much_is_refused() {
    let mut script = Scripted::start_with(
        "for _, name in ipairs{'gzip', 'lz4'} do
            local way = require('silly.compress.' .. name)
            local bomb = way.compress(('x'):rep(4 * 2^20))
            local hoard = {}
            repeat
                hoard[#hoard + 1] = ('x'):rep(2^16) .. #hoard
                if #hoard % 16 == 0 then collectgarbage() end
            until collectgarbage 'count' > 29 * 2^10
            local text, problem = way.decompress(bomb)
            report(text, problem:match('larger'), #hoard > 300)
            hoard = nil collectgarbage()
         end
         -- It promises 2^31 bytes.
         report((require('silly.compress.snappy').decompress '\\128\\128\\128\\128\\8x'))",
        |settings| settings.memory = 32 << 20,
    );
    script.expect(&["nil larger true", "nil larger true", "nil"]);
}
