//! `store`: values that scripts share between all workers, as functions of a script.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_net::now;

use crate::frame::{Frame, Kind, Reply, native};
use crate::store::{End, Kept, Life, Refusal, Room, Store, Value, When, open};

native!(native_open, open_named);
native!(native_get, get);
native!(native_set, set);
native!(native_delete, delete);
native!(native_incr, incr);
native!(native_push, push);
native!(native_pop, pop);
native!(native_len, len);
native!(native_ttl, ttl);
native!(native_expire, expire);
native!(native_flush, flush);
native!(native_sweep, sweep);
native!(native_keys, keys);
native!(native_room, room);

/// For `store.lua`.
pub(crate) const FUNCTIONS: [(&str, mlua_sys::lua_CFunction); 14] = [
    ("open", native_open),
    ("get", native_get),
    ("set", native_set),
    ("delete", native_delete),
    ("incr", native_incr),
    ("push", native_push),
    ("pop", native_pop),
    ("len", native_len),
    ("ttl", native_ttl),
    ("expire", native_expire),
    ("flush", native_flush),
    ("sweep", native_sweep),
    ("keys", native_keys),
    ("room", native_room),
];

/// What a script holds of a store.
struct Handle(Arc<Store>);

/// `open(name)`: nil if the configuration has none of this name.
fn open_named(frame: &Frame<'_>) -> Reply {
    let Some(name) = frame.text(1) else {
        return frame.raise("bad argument #1 to 'open': the name of a store is expected");
    };
    let host = frame.host();
    match host.settings.stores.iter().find(|(known, _)| *known == name) {
        Some((name, size)) => frame.push_object(Rc::new(Handle(open(name, *size))), 0),
        None => frame.push_nil(),
    }
    Reply::Values(1)
}

/// The store that is the first argument, and the key that is the second.
fn place<'f>(frame: &'f Frame<'_>) -> Result<(&'f Store, &'f [u8]), Reply> {
    let store = frame.object::<Handle>(1).map(|handle| &*handle.0);
    let key = match frame.kind(2) {
        Kind::String | Kind::Number => frame.bytes(2),
        _ => None,
    };
    match (store, key) {
        (Some(store), Some(key)) => Ok((store, key)),
        (None, _) => Err(frame.raise("a store is expected")),
        (_, None) => Err(frame.raise("a key is a text; call it with a dot, as in store.get(key)")),
    }
}

fn store<'f>(frame: &'f Frame<'_>) -> Result<&'f Store, Reply> {
    let store = frame.object::<Handle>(1).map(|handle| &*handle.0);
    store.ok_or_else(|| frame.raise("a store is expected"))
}

/// What a script wants to keep; `None` for nil.
fn value(frame: &Frame<'_>, index: i32) -> Result<Option<Value>, Reply> {
    Ok(Some(match frame.kind(index) {
        Kind::Nil => return Ok(None),
        Kind::String => Value::Text(frame.bytes(index).unwrap_or_default().into()),
        Kind::Number => Value::Number(frame.number(index).unwrap_or_default()),
        Kind::Boolean => Value::Truth(frame.truth(index)),
        _ => return Err(frame.raise("a store keeps texts, numbers and booleans")),
    }))
}

fn push_value(frame: &Frame<'_>, value: &Value) {
    match value {
        Value::Text(text) => frame.push_bytes(text),
        Value::Number(number) => frame.push_number(*number),
        Value::Truth(truth) => frame.push_truth(*truth),
    }
}

/// Seconds; nil and 0 are for ever.
fn life(frame: &Frame<'_>, index: i32) -> Result<Life, Reply> {
    if frame.kind(index) == Kind::Nil {
        return Ok(Life::Unlimited);
    }
    match frame.number(index) {
        Some(0.0) => Ok(Life::Unlimited),
        Some(seconds) => match Duration::try_from_secs_f64(seconds) {
            Ok(time) => Ok(Life::For(time)),
            Err(_) if seconds > 0.0 => Ok(Life::Unlimited),
            Err(_) => Err(frame.raise("a time to live is a number of seconds, not below 0")),
        },
        None => Err(frame.raise("a time to live is a number of seconds")),
    }
}

fn refuse(frame: &Frame<'_>, refusal: Refusal) -> Reply {
    frame.push_nil();
    frame.push_bytes(refusal.text().as_bytes());
    Reply::Values(2)
}

/// Gives a reply of either kind.
fn either(reply: Result<Reply, Reply>) -> Reply {
    match reply {
        Ok(reply) | Err(reply) => reply,
    }
}

/// `get(store, key)`: value, flags, and whether its time is over; nil if there is none, nil and a word if it is a list.
fn get(frame: &Frame<'_>) -> Reply {
    either(place(frame).map(|(store, key)| match store.get(key, now()) {
        Ok(Some(found)) => {
            push_value(frame, &found.value);
            frame.push_count(found.flags.into());
            frame.push_truth(found.stale);
            Reply::Values(3)
        }
        Ok(None) => {
            frame.push_nil();
            Reply::Values(1)
        }
        Err(refusal) => refuse(frame, refusal),
    }))
}

/// `set(store, key, value, seconds, flags, when, room)`: true and whether others had to go; nil and a word.
fn set(frame: &Frame<'_>) -> Reply {
    let reply = || {
        let (store, key) = place(frame)?;
        let when = match frame.bytes(6) {
            Some(b"absent") => When::Absent,
            Some(b"present") => When::Present,
            _ => When::Always,
        };
        let room = match frame.bytes(7) {
            Some(b"refuse") => Room::Refuse,
            _ => Room::Evict,
        };
        let flags = frame.integer(5).and_then(|flags| u32::try_from(flags).ok()).unwrap_or(0);
        let life = life(frame, 4)?;
        let Some(value) = value(frame, 3)? else {
            store.delete(key);
            frame.push_truth(true);
            return Ok(Reply::Values(1));
        };
        Ok(match store.set(key, (value, flags), (when, room), (life, now())) {
            Ok(kept) => {
                frame.push_truth(true);
                frame.push_truth(kept == Kept::AtTheCostOfOthers);
                Reply::Values(2)
            }
            Err(refusal) => refuse(frame, refusal),
        })
    };
    either(reply())
}

/// `delete(store, key)`.
fn delete(frame: &Frame<'_>) -> Reply {
    either(place(frame).map(|(store, key)| {
        store.delete(key);
        Reply::Values(0)
    }))
}

/// `incr(store, key, by, first, seconds)`: the sum and whether others had to go; nil and a word.
fn incr(frame: &Frame<'_>) -> Reply {
    let reply = || {
        let (store, key) = place(frame)?;
        let by = match frame.kind(3) {
            Kind::Nil => 1.0,
            _ => frame.number(3).ok_or_else(|| frame.raise("incr: a number is expected"))?,
        };
        let first = match frame.kind(4) {
            Kind::Nil => None,
            _ => Some(frame.number(4).ok_or_else(|| frame.raise("incr: a number is expected"))?),
        };
        let life = life(frame, 5)?;
        Ok(match store.add(key, (by, first), (life, now())) {
            Ok((sum, kept)) => {
                frame.push_number(sum);
                frame.push_truth(kept == Kept::AtTheCostOfOthers);
                Reply::Values(2)
            }
            Err(refusal) => refuse(frame, refusal),
        })
    };
    either(reply())
}

fn end(frame: &Frame<'_>, index: i32) -> End {
    match frame.bytes(index) {
        Some(b"left") => End::Left,
        _ => End::Right,
    }
}

/// `push(store, key, value, end)`: how long the list is then; nil and a word.
fn push(frame: &Frame<'_>) -> Reply {
    let reply = || {
        let (store, key) = place(frame)?;
        let end = end(frame, 4);
        let value = match value(frame, 3)? {
            Some(value @ (Value::Text(_) | Value::Number(_))) => value,
            _ => return Err(frame.raise("a list holds texts and numbers")),
        };
        Ok(match store.push(key, (value, end), now()) {
            Ok(length) => {
                frame.push_count(u64::try_from(length).unwrap_or(u64::MAX));
                Reply::Values(1)
            }
            Err(refusal) => refuse(frame, refusal),
        })
    };
    either(reply())
}

/// `pop(store, key, end)`: a value, or nil; nil and a word.
fn pop(frame: &Frame<'_>) -> Reply {
    either(place(frame).map(|(store, key)| match store.pop(key, end(frame, 3), now()) {
        Ok(Some(value)) => {
            push_value(frame, &value);
            Reply::Values(1)
        }
        Ok(None) => {
            frame.push_nil();
            Reply::Values(1)
        }
        Err(refusal) => refuse(frame, refusal),
    }))
}

/// `len(store, key)`: of a list; 0 if there is none.
fn len(frame: &Frame<'_>) -> Reply {
    either(place(frame).map(|(store, key)| match store.length(key, now()) {
        Ok(length) => {
            frame.push_count(u64::try_from(length).unwrap_or(u64::MAX));
            Reply::Values(1)
        }
        Err(refusal) => refuse(frame, refusal),
    }))
}

/// `ttl(store, key)`: seconds, 0 for ever; nil and a word.
fn ttl(frame: &Frame<'_>) -> Reply {
    either(place(frame).map(|(store, key)| match store.life(key, now()) {
        Some(Life::Unlimited) => {
            frame.push_count(0);
            Reply::Values(1)
        }
        Some(Life::For(time)) => {
            frame.push_number(time.as_secs_f64());
            Reply::Values(1)
        }
        None => refuse(frame, Refusal::NotFound),
    }))
}

/// `expire(store, key, seconds)`: true; nil and a word.
fn expire(frame: &Frame<'_>) -> Reply {
    let reply = || {
        let (store, key) = place(frame)?;
        let life = life(frame, 3)?;
        if !store.prolong(key, (life, now())) {
            return Ok(refuse(frame, Refusal::NotFound));
        }
        frame.push_truth(true);
        Ok(Reply::Values(1))
    };
    either(reply())
}

/// `flush(store)`: the time of all is over.
fn flush(frame: &Frame<'_>) -> Reply {
    either(store(frame).map(|store| {
        store.expire_all(now());
        Reply::Values(0)
    }))
}

/// How many a script means; nil and 0 are all.
fn most(frame: &Frame<'_>, index: i32) -> usize {
    let most = frame.integer(index).and_then(|most| usize::try_from(most).ok());
    most.filter(|most| *most > 0).unwrap_or(usize::MAX)
}

/// `sweep(store, most)`: how many were taken out whose time was over.
fn sweep(frame: &Frame<'_>) -> Reply {
    either(store(frame).map(|store| {
        let gone = store.sweep(most(frame, 2), now());
        frame.push_count(u64::try_from(gone).unwrap_or(u64::MAX));
        Reply::Values(1)
    }))
}

/// `keys(store, most)`: a list.
fn keys(frame: &Frame<'_>) -> Reply {
    either(store(frame).map(|store| {
        let keys = store.keys(most(frame, 2), now());
        frame.push_table(i32::try_from(keys.len()).unwrap_or(0), 0);
        for (index, key) in (1..).zip(&keys) {
            frame.push_bytes(key);
            frame.set_element(index);
        }
        Reply::Values(1)
    }))
}

/// `room(store)`: bytes it may have, and bytes it has.
fn room(frame: &Frame<'_>) -> Reply {
    either(store(frame).map(|store| {
        let (budget, used) = store.room();
        frame.push_count(u64::try_from(budget).unwrap_or(u64::MAX));
        frame.push_count(u64::try_from(used).unwrap_or(u64::MAX));
        Reply::Values(2)
    }))
}
