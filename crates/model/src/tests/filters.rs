//! One row for each kind of filter, for the tests of the tables.

/// A kind of filter.
pub(super) struct Row {
    /// All its tables opened, with what is required.
    pub(super) example: &'static str,
    /// For each of its tables an unknown key in it.
    pub(super) wrong: &'static [&'static str],
}

pub(super) const FILTERS: &[Row] = &[
    Row { example: "guard = {}", wrong: &["guard = { zzzzzzz = 1 }"] },
    Row {
        example: "ip = { allow = '10.0.0.0/8' }",
        wrong: &["ip = { allow = '10.0.0.0/8', zzzzzzz = 1 }"],
    },
    Row { example: "user_agent = {}", wrong: &["user_agent = { zzzzzzz = 1 }"] },
    Row { example: "referer = {}", wrong: &["referer = { zzzzzzz = 1 }"] },
    Row {
        example: "key_auth = { keys_file = 'keys' }",
        wrong: &["key_auth = { keys_file = 'keys', zzzzzzz = 1 }"],
    },
    Row {
        example: "basic_auth = { users_file = 'users' }",
        wrong: &["basic_auth = { users_file = 'users', zzzzzzz = 1 }"],
    },
    Row {
        example: "jwt = { jwks_url = 'http://id.example/keys' }",
        wrong: &["jwt = { jwks_url = 'http://id.example/keys', zzzzzzz = 1 }"],
    },
    Row {
        example: "hmac_auth = { keys_file = 'keys' }",
        wrong: &["hmac_auth = { keys_file = 'keys', zzzzzzz = 1 }"],
    },
    Row {
        example: "geo = { files = 'places.mmdb' }",
        wrong: &["geo = { files = 'places.mmdb', zzzzzzz = 1 }"],
    },
    Row { example: "csrf = {}", wrong: &["csrf = { zzzzzzz = 1 }"] },
    Row {
        example: "external_auth = { upstream = 'h:1', cache = { key = 'k' } }",
        wrong: &[
            "external_auth = { upstream = 'h:1', zzzzzzz = 1 }",
            "external_auth = { upstream = 'h:1', cache = { key = 'k', zzzzzzz = 1 } }",
        ],
    },
    Row {
        example: "rate_limit = { limits = { rate = '1/s' } }",
        wrong: &[
            "rate_limit = { limits = '1/s', zzzzzzz = 1 }",
            "rate_limit = { limits = { rate = '1/s', zzzzzzz = 1 } }",
        ],
    },
    Row {
        example: "bandwidth_limit = { download = 1 }",
        wrong: &["bandwidth_limit = { download = 1, zzzzzzz = 1 }"],
    },
    Row {
        example: "concurrency_limit = { limit = 1 }",
        wrong: &["concurrency_limit = { limit = 1, zzzzzzz = 1 }"],
    },
    Row {
        example: "headers = { request = {}, response = {}, trailers = {} }",
        wrong: &["headers = { zzzzzzz = 1 }", "headers = { request = { zzzzzzz = 1 } }"],
    },
    Row {
        example: "rewrite = { query = {}, replace = [{ regex = 'a', with = 'b' }] }",
        wrong: &[
            "rewrite = { zzzzzzz = 1 }",
            "rewrite = { query = { zzzzzzz = 1 } }",
            "rewrite = { replace = [{ regex = 'a', with = 'b', zzzzzzz = 1 }] }",
        ],
    },
    Row {
        example: "redirect = { scheme = 'https' }",
        wrong: &["redirect = { scheme = 'https', zzzzzzz = 1 }"],
    },
    Row { example: "respond = {}", wrong: &["respond = { zzzzzzz = 1 }"] },
    Row { example: "request_id = {}", wrong: &["request_id = { zzzzzzz = 1 }"] },
    Row {
        example: "body_replace = { rules = [{ text = 'a', with = 'c' }] }",
        wrong: &[
            "body_replace = { rules = [{ text = 'a', with = 'b' }], zzzzzzz = 1 }",
            "body_replace = { rules = [{ text = 'a', with = 'b', zzzzzzz = 1 }] }",
        ],
    },
    Row {
        example: "oidc = { issuer = 'http://id.example', client_id = 'c', secrets = '0123456789abcdef', token_url = 'http://id.example/t', jwks_url = 'http://id.example/k' }",
        wrong: &[
            "oidc = { issuer = 'http://id.example', client_id = 'c', secrets = '0123456789abcdef', zzzzzzz = 1 }",
        ],
    },
    Row { example: "cors = { origins = '*' }", wrong: &["cors = { origins = '*', zzzzzzz = 1 }"] },
    Row { example: "security = {}", wrong: &["security = { zzzzzzz = 1 }"] },
    Row {
        example: "canary = { variants.v = { upstream = 'h:1' }, cookie = {}, rollback = { errors = 1 }, \
                  rules = [{ to = { variant = 'v', ramp = { step = 1, every = '1s' } } }] }",
        wrong: &[
            "canary = { variants = {}, zzzzzzz = 1 }",
            "canary = { variants.v = { upstream = 'h:1', zzzzzzz = 1 } }",
            "canary = { variants = {}, rules = [{ to = 'stable', zzzzzzz = 1 }] }",
            "canary = { variants = {}, rules = [{ to = { variant = 'stable', zzzzzzz = 1 } }] }",
            "canary = { variants = {}, rules = [{ to = { variant = 'stable', \
             ramp = { step = 1, every = '1s', zzzzzzz = 1 } } }] }",
            "canary = { variants = {}, cookie = { zzzzzzz = 1 } }",
            "canary = { variants = {}, rollback = { errors = 1, zzzzzzz = 1 } }",
        ],
    },
    Row {
        example: "compress = { levels = { gzip = 9 } }",
        wrong: &["compress = { zzzzzzz = 1 }", "compress = { levels = { zzzzzzz = 1 } }"],
    },
    Row { example: "decompress = {}", wrong: &["decompress = { zzzzzzz = 1 }"] },
    Row {
        example: "cache = { ttl = { 404 = '30s' }, disk = { path = 'd', size = '1MiB' } }",
        wrong: &["cache = { zzzzzzz = 1 }", "cache = { disk = { zzzzzzz = 1 } }"],
    },
    Row {
        example: "lua = { file = 'filter.lua' }",
        wrong: &["lua = { script = 'x = 1', zzzzzzz = 1 }"],
    },
];
