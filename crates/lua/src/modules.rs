//! The functions and modules that scripts find, put together once for each state.

use mlua_sys::lua_CFunction;

use crate::frame::{Frame, collect, native_guard};
use crate::host::Host;
use crate::{
    basic, cipher, compress, digest, dns, http, http2, json, listen, pkey, regex, strings, task,
    tcp, tls, udp, vm,
};

/// What a state is made ready with.
const PRELUDE: &str = include_str!("script/prelude.lua");

/// Functions of the language that the program has instead of LuaJIT.
const LANGUAGE: [(&str, &str); 2] =
    [("strings", include_str!("script/strings.lua")), ("sort", include_str!("script/sort.lua"))];

/// Modules, by the name that `require` gets.
const MODULES: &[(&str, &str)] = &[
    ("silly", include_str!("script/silly.lua")),
    ("silly.task", include_str!("script/task.lua")),
    ("silly.time", include_str!("script/time.lua")),
    ("silly.logger", include_str!("script/logger.lua")),
    ("silly.env", include_str!("script/env.lua")),
    ("silly.errno", include_str!("script/errno.lua")),
    ("silly.signal", include_str!("script/signal.lua")),
    ("silly.net.tcp", include_str!("script/tcp.lua")),
    ("silly.sync.channel", include_str!("script/channel.lua")),
    ("silly.sync.mutex", include_str!("script/mutex.lua")),
    ("silly.sync.waitgroup", include_str!("script/waitgroup.lua")),
    ("silly.sync.singleflight", include_str!("script/singleflight.lua")),
    ("silly.encoding.json", include_str!("script/json.lua")),
    ("silly.encoding.base64", include_str!("script/base64.lua")),
    ("silly.crypto.hash", include_str!("script/hash.lua")),
    ("silly.crypto.hmac", include_str!("script/hmac.lua")),
    ("silly.crypto.utils", include_str!("script/utils.lua")),
    ("silly.crypto.cipher", include_str!("script/cipher.lua")),
    ("silly.crypto.pkey", include_str!("script/pkey.lua")),
    ("silly.security.jwt", include_str!("script/jwt.lua")),
    ("silly.compress.gzip", include_str!("script/gzip.lua")),
    ("silly.compress.snappy", include_str!("script/snappy.lua")),
    ("silly.compress.lz4", include_str!("script/lz4.lua")),
    ("silly.net.udp", include_str!("script/udp.lua")),
    ("silly.net.dns", include_str!("script/dns.lua")),
    ("silly.net.tls", include_str!("script/tls.lua")),
    ("silly.net.http", include_str!("script/http.lua")),
    ("silly.net.http.content", include_str!("script/content.lua")),
    ("silly.net.http.session", include_str!("script/session.lua")),
    ("silly.net.http.sender", include_str!("script/sender.lua")),
    ("silly.net.websocket", include_str!("script/websocket.lua")),
    ("silly.store.redis", include_str!("script/redis.lua")),
    ("silly.metrics.metric", include_str!("script/metric.lua")),
    ("silly.metrics.counter", include_str!("script/counter.lua")),
    ("silly.metrics.gauge", include_str!("script/gauge.lua")),
    ("silly.metrics.histogram", include_str!("script/histogram.lua")),
    ("silly.metrics.registry", include_str!("script/registry.lua")),
    ("silly.metrics.prometheus", include_str!("script/prometheus.lua")),
    ("silly.console", include_str!("script/console.lua")),
    ("silly.sync", include_str!("script/sync.lua")),
    ("regex", include_str!("script/regex.lua")),
];

/// Functions for modules, which are not seen by scripts otherwise.
pub(crate) const FUNCTIONS: &[(&str, lua_CFunction)] = &[
    ("guard", native_guard),
    ("log", basic::native_log),
    ("level", basic::native_level),
    ("set_level", basic::native_set_level),
    ("print", basic::native_print),
    ("source", basic::native_source),
    ("compile", basic::native_compile),
    ("number", basic::native_number),
    ("exit", basic::native_exit),
    ("errors", basic::native_errors),
    ("variables", basic::native_variables),
    ("environment", basic::native_environment),
    ("on_signal", basic::native_on_signal),
    ("facts", basic::native_facts),
    ("memory", basic::native_memory),
    ("overrun", basic::native_overrun),
    ("listen", listen::native_listen),
    ("connect", listen::native_connect),
    ("close_listener", listen::native_close),
    ("about_connection", tcp::native_about),
    ("fork", task::native_fork),
    ("running", task::native_running),
    ("wait", task::native_wait),
    ("wakeup", task::native_wakeup),
    ("status", task::native_status),
    ("ready", task::native_ready),
    ("all", task::native_all),
    ("sleep", task::native_sleep),
    ("after", task::native_after),
    ("cancel", task::native_cancel),
    ("now", task::native_now),
    ("monotonic", task::native_monotonic),
    ("elapsed", task::native_elapsed),
    ("json_encode", json::native_encode),
    ("json_decode", json::native_decode),
    ("base64_encode", digest::native_base64_encode),
    ("base64_decode", digest::native_base64_decode),
    ("url_encode", digest::native_url_encode),
    ("url_decode", digest::native_url_decode),
    ("hash", digest::native_hash),
    ("hash_new", digest::native_new),
    ("hash_update", digest::native_update),
    ("hash_final", digest::native_final),
    ("hash_reset", digest::native_reset),
    ("hmac", digest::native_hmac),
    ("abort", tcp::native_abort),
    ("same", digest::native_same),
    ("random", digest::native_random),
    ("xor", digest::native_xor),
];

/// The same from files that list their own.
const FURTHER: &[&[(&str, lua_CFunction)]] = &[
    &cipher::FUNCTIONS,
    &pkey::FUNCTIONS,
    &compress::FUNCTIONS,
    &udp::FUNCTIONS,
    &dns::FUNCTIONS,
    &tls::FUNCTIONS,
    &http::FUNCTIONS,
    &http2::FUNCTIONS,
    &regex::FUNCTIONS,
    &strings::FUNCTIONS,
];

/// Makes a new state ready for a script.
///
/// # Errors
/// What a chunk of the program says; it does not, unless the memory of the state is too small for them.
pub(crate) fn install(host: &Host) -> Result<(), String> {
    vm::with_stack(host, host.main.get(), |frame| {
        frame.push_chunk(PRELUDE.as_bytes(), "=prelude")?;
        push_functions(frame, FUNCTIONS);
        for more in FURTHER {
            add_functions(frame, more);
        }
        for (name, text) in LANGUAGE {
            frame.push_chunk(text.as_bytes(), &format!("={name}"))?;
            frame.set_field(name.as_bytes());
        }
        push_functions(frame, &tcp::FUNCTIONS);
        frame.set_field(b"connection");
        push_meta(frame);
        frame.set_field(b"connection_meta");
        frame.push_table(0, 0);
        frame.push_copy(-1);
        frame.host().no_fields.set(frame.keep());
        frame.set_field(b"no_fields");
        frame.push_table(0, 32);
        for (name, text) in MODULES {
            frame.push_chunk(text.as_bytes(), &format!("={name}"))?;
            frame.set_field(name.as_bytes());
        }
        frame.set_field(b"modules");
        Ok::<(), String>(())
    })?;
    vm::call_main(host, 1, 0)
}

pub(crate) fn push_functions(frame: &Frame<'_>, functions: &[(&str, lua_CFunction)]) {
    frame.push_table(0, i32::try_from(functions.len()).unwrap_or(0));
    add_functions(frame, functions);
}

pub(crate) fn add_functions(frame: &Frame<'_>, functions: &[(&str, lua_CFunction)]) {
    for (name, function) in functions {
        frame.push_native(*function);
        frame.set_field(name.as_bytes());
    }
}

/// Keeps the metatable of connections, and pushes it for what is easier said by a script.
fn push_meta(frame: &Frame<'_>) {
    frame.push_table(0, 6);
    frame.push_native(collect);
    frame.set_field(b"__gc");
    frame.push_native(tcp::native_close);
    frame.set_field(b"__close");
    frame.push_native(tcp::native_show);
    frame.set_field(b"__tostring");
    frame.push_bytes(b"connection");
    frame.set_field(b"__metatable");
    frame.push_copy(-1);
    frame.host().connection_meta.set(frame.keep());
}
