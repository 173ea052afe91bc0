//! Times to live, budgets, the order of use, counters and lists.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;

use super::*;

const SECOND: Nanos = 1_000_000_000;
const ALWAYS: (When, Room) = (When::Always, Room::Evict);

fn text(bytes: &[u8]) -> (Value, u32) {
    (Value::Text(bytes.into()), 0)
}

fn put(store: &Store, key: &str, value: &[u8], now: Nanos) -> Result<Kept, Refusal> {
    store.set(key.as_bytes(), text(value), ALWAYS, (Life::Unlimited, now))
}

fn has(store: &Store, key: &str, now: Nanos) -> bool {
    store.get(key.as_bytes(), now).unwrap().is_some_and(|found| !found.stale)
}

#[test]
fn values_have_their_time() {
    let store = Store::new(1 << 20);
    let life = Life::For(Duration::from_secs(2));
    store.set(b"a", (Value::Number(1.0), 7), ALWAYS, (life, SECOND)).unwrap();
    let found = |now| store.get(b"a", now).unwrap();
    let fresh = Found { value: Value::Number(1.0), flags: 7, stale: false };
    assert_eq!(found(3 * SECOND - 1), Some(fresh.clone()));
    assert_eq!(store.life(b"a", 2 * SECOND), Some(Life::For(Duration::from_secs(1))));
    assert_eq!(found(3 * SECOND), Some(Found { stale: true, ..fresh }));
    assert_eq!(store.life(b"a", 3 * SECOND), None);
    assert!(!store.prolong(b"a", (Life::Unlimited, 3 * SECOND)), "it is over");
    assert!(store.prolong(b"a", (Life::Unlimited, 2 * SECOND)));
    assert_eq!(store.life(b"a", 9 * SECOND), Some(Life::Unlimited));
    store.expire_all(10 * SECOND);
    assert!(found(10 * SECOND).unwrap().stale);
    assert_eq!(store.keys(10, 10 * SECOND), Vec::<Box<[u8]>>::new());
    assert_eq!((store.sweep(10, 10 * SECOND), store.room().1), (1, 0));
}

#[test]
fn conditions_look_at_what_is_alive() {
    let store = Store::new(1 << 20);
    let set = |when, now| {
        let life = Life::For(Duration::from_secs(1));
        store.set(b"a", text(b"x"), (when, Room::Evict), (life, now))
    };
    assert_eq!(set(When::Present, 0), Err(Refusal::NotFound));
    assert_eq!(set(When::Absent, 0), Ok(Kept::Freely));
    assert_eq!(set(When::Absent, SECOND - 1), Err(Refusal::Exists));
    assert_eq!(set(When::Present, SECOND - 1), Ok(Kept::Freely));
    assert_eq!(set(When::Present, 3 * SECOND), Err(Refusal::NotFound));
    assert_eq!(set(When::Absent, 3 * SECOND), Ok(Kept::Freely));
    store.delete(b"a");
    assert_eq!(store.get(b"a", 3 * SECOND), Ok(None));
}

#[test]
fn the_least_recently_used_goes_and_the_budget_is_exact() {
    // One part: all keys are in the same order of use.
    let store = Store::new(64 << 10);
    let value = vec![b'v'; 1000];
    for number in 0..200 {
        let kept = put(&store, &format!("key{number}"), &value, 0).unwrap();
        let (budget, used) = store.room();
        assert!(used <= budget, "{used}");
        // As many as fit: each has a key of at least four and at most six bytes.
        if used + 1134 > budget && number > 60 {
            assert_eq!(kept, Kept::AtTheCostOfOthers);
        }
        assert!(has(&store, "key0", 0), "it is used again and again");
    }
    assert!(!has(&store, "key1", 0));
    assert!(has(&store, "key199", 0) && has(&store, "key160", 0));
    let refused =
        store.set(b"new", text(&value), (When::Always, Room::Refuse), (Life::Unlimited, 0));
    assert_eq!(refused, Err(Refusal::NoMemory));
    assert!(has(&store, "key160", 0), "nobody had to go for it");
    assert_eq!(put(&store, "large", &vec![0; 65 << 10], 0), Err(Refusal::NoMemory));
    store.resize(10_000);
    assert!(store.room().1 <= 10_000 && has(&store, "key0", 0));
    for number in 0..200 {
        store.delete(format!("key{number}").as_bytes());
    }
    assert_eq!(store.room(), (10_000, 0));
}

#[test]
fn what_is_over_goes_before_others_when_it_is_the_oldest() {
    let store = Store::new(64 << 10);
    let short = Life::For(Duration::from_secs(1));
    for number in 0..60 {
        let key = format!("{number}");
        store.set(key.as_bytes(), text(&[0; 900]), ALWAYS, (short, 0)).unwrap();
    }
    let safe = (When::Always, Room::Refuse);
    let kept = store.set(b"new", text(&[0; 900]), safe, (Life::Unlimited, 2 * SECOND));
    assert_eq!(kept, Ok(Kept::Freely));
}

#[test]
fn numbers_are_counted() {
    let store = Store::new(1 << 20);
    let life = Life::For(Duration::from_secs(1));
    let add = |by, first, now| store.add(b"n", (by, first), (life, now));
    assert_eq!(add(1.0, None, 0), Err(Refusal::NotFound));
    assert_eq!(add(2.0, Some(40.0), 0), Ok((42.0, Kept::Freely)));
    assert_eq!(add(-0.5, Some(0.0), SECOND - 1), Ok((41.5, Kept::Freely)));
    assert_eq!(add(1.0, Some(0.0), SECOND), Ok((1.0, Kept::Freely)), "it begins anew");
    put(&store, "t", b"1", 0).unwrap();
    assert_eq!(store.add(b"t", (1.0, None), (life, 0)), Err(Refusal::NotANumber));
}

#[test]
fn lists_have_two_ends() {
    let store = Store::new(64 << 10);
    let push = |value: &[u8], end| store.push(b"l", (Value::Text(value.into()), end), 0);
    assert_eq!(store.length(b"l", 0), Ok(0));
    assert_eq!((push(b"b", End::Right), push(b"a", End::Left)), (Ok(1), Ok(2)));
    assert_eq!(push(b"c", End::Right), Ok(3));
    assert_eq!(store.get(b"l", 0), Err(Refusal::NotAValue));
    assert_eq!(store.length(b"l", 0), Ok(3));
    let pop = |end| {
        store.pop(b"l", end, 0).unwrap().map(|value| match value {
            Value::Text(text) => text.to_vec(),
            other => format!("{other:?}").into_bytes(),
        })
    };
    assert_eq!(pop(End::Right).as_deref(), Some(&b"c"[..]));
    assert_eq!(pop(End::Left).as_deref(), Some(&b"a"[..]));
    assert_eq!(pop(End::Left).as_deref(), Some(&b"b"[..]));
    assert_eq!((pop(End::Left), store.room().1), (None, 0), "an empty list is none");
    put(&store, "l", b"text", 0).unwrap();
    assert_eq!(push(b"a", End::Left), Err(Refusal::NotAList));
    store.delete(b"l");
    // A list that fills the store does not drive itself out.
    let large = [0; 5000];
    let pushed = (0..20).map(|_| push(&large, End::Right)).take_while(Result::is_ok).count();
    assert_eq!(pushed, 12);
    assert_eq!(store.length(b"l", 0), Ok(12));
}

#[test]
fn threads_count_together() {
    let store = Arc::new(Store::new(4 << 20));
    let threads = (0..4).map(|thread| {
        let store = Arc::clone(&store);
        std::thread::spawn(move || {
            for number in 0..2000 {
                let key = format!("key{}", number % 50);
                store.add(key.as_bytes(), (1.0, Some(0.0)), (Life::Unlimited, 0)).unwrap();
                put(&store, &format!("{thread}-{number}"), &[0; 2000], 0).unwrap();
                store.add(key.as_bytes(), (0.0, None), (Life::Unlimited, 0)).unwrap();
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    for number in 0..50 {
        let found = store.get(format!("key{number}").as_bytes(), 0).unwrap().unwrap();
        assert_eq!(found.value, Value::Number(160.0), "{number}");
    }
    let (budget, used) = store.room();
    assert!(used <= budget);
}

#[test]
fn a_name_is_one_store_as_long_as_somebody_has_it() {
    let one = open("tests-a", 1 << 20);
    put(&one, "k", b"v", 0).unwrap();
    let same = open("tests-a", 2 << 20);
    drop(one);
    assert!(has(&same, "k", 0));
    drop(same);
    assert!(!has(&open("tests-a", 1 << 20), "k", 0));
}
