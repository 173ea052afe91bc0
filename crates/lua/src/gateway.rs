//! Scripts as part of the gateway: a filter and an action, whose functions are called in the phases of an exchange.
//!
//! From below: [`crate::lease`] is what an exchange lends to a run; [`request`], [`response`] and [`answer`] are functions for
//! scripts that use it, of which [`direct`] makes the most used ones cheap for compiled code; a [`station`] is a script on one worker and a [`program`] the script on all; [`turn`] runs a
//! function through its waits, and [`filter`] does that in the phases of an exchange. [`openresty`] makes chunks for the
//! phases of OpenResty such functions; most of it is Lua (`script/ngx*.lua`).

mod answer;
mod beginning;
mod codec;
mod content;
mod ctx;
mod direct;
mod fetch;
mod fields;
mod filter;
mod listener;
mod metrics;
mod missing;
mod openresty;
mod program;
mod query;
mod request;
mod response;
mod script;
mod shared;
mod station;
mod turn;

pub use filter::{LuaAction, LuaFilter, OnError};
pub use listener::LuaService;
pub use program::{PhaseText, Program, Text};
pub use script::Phase;
