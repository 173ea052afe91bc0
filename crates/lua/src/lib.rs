//! Services written in Lua: a script, its connections, and the modules that Silly's scripts know.
//!
//! Each worker has one Lua state ([`serve`]) and runs it on its own event loop. A connection has a task, which moves
//! bytes, and a coroutine, which the task resumes when what it waits for is there: nothing goes from thread to thread.
//! What a script does without waiting is a call of C that returns at once: a read that finds its line in the buffer,
//! a write, which is gathered with the others of the same turn.
//!
//! From below: [`memory`] and [`host`] are what surrounds a state; [`frame`] is a call from a script, and the only thing
//! that functions for scripts see of LuaJIT; [`vm`] makes states and resumes coroutines; [`connection`] and [`listen`]
//! drive sockets; the rest are functions for scripts, and the modules made of them (`script/*.lua`).

mod address;
mod basic;
mod buffer;
mod cause;
mod cipher;
mod compress;
mod connection;
mod delimiter;
mod digest;
mod dns;
mod frame;
mod gateway;
mod held;
mod host;
mod http;
mod http2;
mod intake;
mod json;
mod known;
mod lease;
mod listen;
mod matcher;
mod memory;
mod modules;
mod patterns;
mod pkey;
mod ports;
mod regex;
mod service;
mod settings;
mod store;
mod strings;
mod task;
mod tcp;
#[cfg(test)]
mod tests;
mod throttle;
mod timers;
mod tls;
mod udp;
mod unsent;
mod vm;
mod voice;
mod worker;

pub use gateway::{LuaAction, LuaFilter, LuaService, OnError, Phase, PhaseText, Program, Text};
pub use service::{Launch, serve};
pub use settings::{Access, Encryption, Level, ListenerRole, Role, Settings, WriteFull};
pub use voice::Voice;
