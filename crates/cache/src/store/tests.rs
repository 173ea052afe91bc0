//! What is kept, what goes, and what others are told.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use sluice_filter::{Body, BodySource, Broken, Piece};

use super::*;
use crate::entry::About;
use crate::filling::{Outcome, Wanted};
use crate::policy::{Staleness, Terms};
use crate::vary::selecting;

fn fields(lines: &[(&str, &str)]) -> Fields {
    let mut fields = Fields::new();
    for (name, value) in lines {
        fields.push(name.as_bytes(), value.as_bytes()).unwrap();
    }
    fields
}

fn identity(store: &Store, url: &str) -> Identity {
    Identity { hash: store.hash(url.as_bytes()), url: url.as_bytes().into(), extra: [].into() }
}

fn about(tags: &[&str]) -> About {
    let terms = Terms {
        lifetime: 60,
        age: 0,
        stale_while_revalidate: 0,
        stale_if_error: 0,
        staleness: Staleness::Allowed,
        immutable: false,
        withheld: Vec::new(),
    };
    let tags = tags.iter().map(|tag| tag.as_bytes().into()).collect();
    let fields = Fields::new();
    About { status: 200, fields, vary: Vec::new(), tags, date: 0, terms, born: 0 }
}

fn entry(store: &Store, url: &str, bytes: usize) -> Arc<Entry> {
    Arc::new(Entry::new(identity(store, url), about(&[url]), vec![b'x'; bytes].into()))
}

fn has(store: &Store, url: &str) -> bool {
    let found = store.find(store.hash(url.as_bytes()), (url.as_bytes(), b""), &Fields::new());
    found.inspect(|entry| entry.touch()).is_some()
}

fn ready<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn the_budget_is_never_exceeded() {
    let store = Store::new(100_000, KeyPlan::default());
    for number in 0..2_000 {
        let size = (number * 37) % 9_000;
        store.put(&entry(&store, &format!("/{number}"), size));
        let reading = store.reading();
        assert!(reading.bytes <= 100_000, "{reading:?}");
    }
    let reading = store.reading();
    assert!(reading.evictions > 1_000 && reading.bytes > 80_000, "{reading:?}");
    assert!(!store.put(&entry(&store, "/large", 100_000)), "larger than all");
    assert_eq!(store.forget(Target::All, Thoroughness::Hard), reading.entries);
    let empty = store.reading();
    assert_eq!((empty.entries, empty.bytes), (0, 0));
}

#[test]
fn a_scan_does_not_drive_out_what_is_asked_for_often() {
    let store = Store::new(4_000_000, KeyPlan::default());
    let often = (0..1_000).map(|number| format!("/often/{number}")).collect::<Vec<_>>();
    for url in &often {
        store.put(&entry(&store, url, 1_000));
    }
    for _ in 0..3 {
        assert!(often.iter().all(|url| has(&store, url)));
    }
    for number in 0..20_000 {
        store.put(&entry(&store, &format!("/once/{number}"), 1_000));
        // The others go on being asked for now and then.
        if number % 10 == 0 {
            let url = &often[number / 10 % 1_000];
            if !has(&store, url) {
                store.put(&entry(&store, url, 1_000));
            }
        }
    }
    let left = often.iter().filter(|url| has(&store, url)).count();
    assert!(left >= 850, "{left} of 1000 are left");
}

#[test]
fn one_asks_and_all_get_the_answer() {
    let store = Arc::new(Store::new(100_000, KeyPlan::default()));
    let none = Fields::new();
    let course = |url| store.course(identity(&store, url), &none, (None, 0)).unwrap();
    let Course::Lead(mut lead) = course("/a") else { panic!("nobody asks yet") };
    let Course::Join(filling) = course("/a") else { panic!("somebody asks") };
    assert!(matches!(course("/b"), Course::Lead(_)));
    let mut waiting = pin!(Arc::clone(&filling).outcome(Wanted::Whole));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut cx).is_pending() && lead.is_awaited(Waker::noop()));
    lead.begin(about(&[]), None, 10).unwrap();
    lead.push(b"hel").unwrap();
    lead.push(b"lo").unwrap();
    assert!(!has(&store, "/a"), "half of it is nothing");
    lead.finish();
    let Poll::Ready((Outcome::Whole(got), _)) = waiting.as_mut().poll(&mut cx) else { panic!() };
    assert!(got.body.bytes() == b"hello");
    let Course::Found(found) = course("/a") else { panic!("it is there") };
    assert!(Arc::ptr_eq(&found, &got));
    // Who saw it and found it stale asks anew.
    let again = store.course(identity(&store, "/a"), &none, (Some(&found), 0)).unwrap();
    assert!(matches!(again, Course::Lead(_)));
    assert_eq!(store.reading().bytes, got.cost);
}

#[test]
fn who_waits_hears_of_every_end() {
    let store = Arc::new(Store::new(100_000, KeyPlan::default()));
    let none = Fields::new();
    let course = |now| store.course(identity(&store, "/a"), &none, (None, now)).unwrap();
    let join = |now| match course(now) {
        Course::Join(filling) => filling,
        other => panic!("{other:?}"),
    };
    let lead = |now| match course(now) {
        Course::Lead(lead) => lead,
        other => panic!("{other:?}"),
    };
    // Who asked is gone in the middle.
    let mut one = lead(0);
    one.begin(about(&[]), Some(100), 1_000).unwrap();
    one.push(b"x").unwrap();
    let filling = join(0);
    drop(one);
    assert!(matches!(ready(filling.outcome(Wanted::Whole)), Poll::Ready((Outcome::Broken, _))));
    assert_eq!(store.reading().bytes, 0);
    // It is not for others: for a while nobody waits.
    let one = lead(0);
    let filling = join(0);
    one.decline(10, 0);
    assert!(matches!(ready(filling.outcome(Wanted::Whole)), Poll::Ready((Outcome::Unshared, _))));
    let (first, second) = (lead(5), lead(5));
    drop((first, second));
    let _one = lead(10);
    join(10);
}

#[test]
fn content_is_bounded() {
    let store = Arc::new(Store::new(100_000, KeyPlan::default()));
    let lead = || store.alone(identity(&store, "/a")).unwrap();
    assert_eq!(lead().begin(about(&[]), Some(11), 10), Err(Full));
    let mut one = lead();
    one.begin(about(&[]), None, 10).unwrap();
    assert_eq!(one.push(&[0; 11]), Err(Full));
    let mut one = lead();
    one.begin(about(&[]), None, usize::MAX).unwrap();
    one.push(&[0; 90_000]).unwrap();
    assert_eq!(one.push(&[0; 90_000]), Err(Full));
    drop(one);
    assert_eq!(store.reading().bytes, 0);
}

use super::lead::Full;

#[test]
fn purges_hit_what_they_name() {
    let store = Arc::new(Store::new(1_000_000, KeyPlan::default()));
    let fill = || {
        for url in ["/a", "/a/1", "/a/2", "/b"] {
            store.put(&entry(&store, url, 10));
        }
    };
    let hits = |target, left: &[&str]| {
        fill();
        let hits = store.forget(target, Thoroughness::Hard);
        for url in ["/a", "/a/1", "/a/2", "/b"] {
            assert_eq!(has(&store, url), left.contains(&url), "{target:?} {url}");
        }
        hits
    };
    assert_eq!(hits(Target::Url(b"/a"), &["/a/1", "/a/2", "/b"]), 1);
    assert_eq!(hits(Target::Url(b"/c"), &["/a", "/a/1", "/a/2", "/b"]), 0);
    assert_eq!(hits(Target::Prefix(b"/a/"), &["/a", "/b"]), 2);
    assert_eq!(hits(Target::Tag(b"/b"), &["/a", "/a/1", "/a/2"]), 1);
    assert_eq!(hits(Target::All, &[]), 4);
    fill();
    assert_eq!(store.forget(Target::All, Thoroughness::Soft), 4);
    let found = store.find(store.hash(b"/a"), (b"/a", b""), &Fields::new()).unwrap();
    assert!(!found.is_fresh(1) && found.is_kept(), "it is there, and its origin is asked");
}

#[test]
fn what_is_on_its_way_when_it_is_purged_is_not_kept() {
    let store = Arc::new(Store::new(1_000_000, KeyPlan::default()));
    for target in [Target::Url(b"/a"), Target::Prefix(b"/"), Target::Tag(b"t"), Target::All] {
        let none = Fields::new();
        let course = || store.course(identity(&store, "/a"), &none, (None, 0)).unwrap();
        let Course::Lead(mut lead) = course() else { panic!() };
        lead.begin(about(&["t"]), None, 10).unwrap();
        store.forget(target, Thoroughness::Soft);
        let Course::Lead(mut later) = course() else {
            panic!("{target:?}: who comes later asks anew")
        };
        later.begin(about(&[]), None, 10).unwrap();
        lead.finish();
        assert!(!has(&store, "/a"), "{target:?}");
        later.finish();
        assert!(has(&store, "/a"), "{target:?}");
        store.forget(Target::All, Thoroughness::Hard);
    }
}

#[test]
fn variants_are_kept_beside_each_other_up_to_a_number() {
    let store = Arc::new(Store::new(1_000_000, KeyPlan::default()));
    let answer = fields(&[("vary", "x-kind")]);
    let put = |kind: &str| {
        let vary = selecting(&answer, &fields(&[("x-kind", kind)]));
        let about = About { vary, ..about(&[]) };
        store.put(&Arc::new(Entry::new(
            identity(&store, "/a"),
            about,
            kind.as_bytes().to_vec().into(),
        )));
    };
    let get = |kind: &str| {
        let request = fields(&[("x-kind", kind)]);
        store.find(store.hash(b"/a"), (b"/a", b""), &request).map(|entry| entry.body.bytes())
    };
    put("one");
    put("two");
    put("one");
    assert_eq!((get("one").unwrap(), get("two").unwrap()), (b"one".to_vec(), b"two".to_vec()));
    assert_eq!((get("three"), store.reading().entries), (None, 2));
    for number in 0..200 {
        put(&number.to_string());
    }
    assert_eq!(store.reading().entries, 64);
    assert_eq!((get("199").is_some(), get("one")), (true, None));
}

/// What somebody who follows gets at once: bytes, whether it is the end, whether it broke.
fn drain(source: &mut dyn BodySource) -> (Vec<u8>, bool, bool) {
    let mut all = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        match source.poll_piece(&mut cx) {
            Poll::Ready(Ok(Piece::Shared(bytes))) => all.extend_from_slice(&bytes),
            Poll::Ready(Ok(Piece::End)) => return (all, true, false),
            Poll::Ready(Ok(other)) => panic!("{other:?}"),
            Poll::Ready(Err(Broken)) => return (all, false, true),
            Poll::Pending => return (all, false, false),
        }
    }
}

fn follow(filling: &Arc<Filling>) -> Option<Box<dyn BodySource>> {
    match ready(Arc::clone(filling).outcome(Wanted::Beginning)) {
        Poll::Ready((Outcome::Begun(entry), _)) => match entry.body.body() {
            Body::Stream(source) => Some(source),
            other => panic!("{other:?}"),
        },
        Poll::Pending => None,
        Poll::Ready(other) => panic!("{other:?}"),
    }
}

#[test]
fn those_who_follow_get_it_as_it_comes_each_at_his_own_pace() {
    let store = Arc::new(Store::new(10_000_000, KeyPlan::default()));
    let none = Fields::new();
    let course = |url| store.course(identity(&store, url), &none, (None, 0)).unwrap();
    let content: Vec<u8> = (0..=250).cycle().take(600_000).collect();
    let Course::Lead(mut lead) = course("/a") else { panic!() };
    let Course::Join(filling) = course("/a") else { panic!() };
    assert!(follow(&filling).is_none(), "nobody knows anything yet");
    lead.begin(about(&[]), Some(600_000), 1_000_000).unwrap();
    assert!(follow(&filling).is_none(), "whoever waits can still ask for himself");
    lead.push(&content[..10]).unwrap();
    let (mut fast, mut slow) = (follow(&filling).unwrap(), follow(&filling).unwrap());
    assert_eq!(
        (fast.length(), drain(&mut *fast)),
        (Some(600_000), (content[..10].to_vec(), false, false))
    );
    assert!(matches!(ready(Arc::clone(&filling).outcome(Wanted::Whole)), Poll::Pending));
    for piece in content[10..].chunks(7_001) {
        lead.push(piece).unwrap();
        let (bytes, end, broken) = drain(&mut *fast);
        assert!(bytes == piece && !end && !broken);
    }
    // Who took nothing meanwhile has it all, and so has who comes late.
    let mut late = follow(&filling).unwrap();
    assert!(drain(&mut *late) == (content.clone(), false, false), "all of it, not yet kept");
    let reading = store.reading();
    assert_eq!((reading.entries, reading.bytes), (0, 600_000), "it counts once");
    lead.finish();
    assert_eq!(
        (drain(&mut *late), drain(&mut *fast)),
        ((vec![], true, false), (vec![], true, false))
    );
    assert!(drain(&mut *slow) == (content.clone(), true, false));
    let Course::Found(entry) = course("/a") else { panic!("it is kept") };
    assert!(entry.body.bytes() == content);
    assert_eq!(Arc::strong_count(&filling), 4, "this, and three who followed");
    drop((fast, slow, late));
    assert_eq!(Arc::strong_count(&filling), 1, "nothing keeps it");
}

#[test]
fn an_answer_that_breaks_off_breaks_off_for_those_who_follow() {
    let store = Arc::new(Store::new(10_000_000, KeyPlan::default()));
    let none = Fields::new();
    let course = || store.course(identity(&store, "/a"), &none, (None, 0)).unwrap();
    let Course::Lead(mut lead) = course() else { panic!() };
    let Course::Join(filling) = course() else { panic!() };
    lead.begin(about(&[]), Some(100), 1_000).unwrap();
    let mut whole = pin!(Arc::clone(&filling).outcome(Wanted::Whole));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(whole.as_mut().poll(&mut cx).is_pending());
    lead.push(&[1; 60]).unwrap();
    let mut source = follow(&filling).unwrap();
    assert_eq!(drain(&mut *source).0.len(), 60);
    drop(lead);
    assert_eq!(drain(&mut *source), (Vec::new(), false, true));
    assert!(matches!(whole.as_mut().poll(&mut cx), Poll::Ready((Outcome::Broken, _))));
    assert_eq!(store.reading().bytes, 0);
    drop(source);
    // What says nothing of its length may become too large: nobody begins with it before it is whole.
    let Course::Lead(mut lead) = course() else { panic!() };
    let Course::Join(filling) = course() else { panic!() };
    lead.begin(about(&[]), None, 1_000).unwrap();
    lead.push(&[1; 60]).unwrap();
    assert!(follow(&filling).is_none());
    // Nor with what may be given to nobody without asking.
    let mut stale = about(&[]);
    stale.terms.age = 60;
    drop(lead);
    let Course::Lead(mut lead) = course() else { panic!() };
    let Course::Join(filling) = course() else { panic!() };
    lead.begin(stale, Some(60), 1_000).unwrap();
    lead.push(&[1; 60]).unwrap();
    assert!(follow(&filling).is_none());
}
