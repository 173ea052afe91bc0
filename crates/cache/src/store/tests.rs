//! What is kept, what goes, and what others are told.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use sluice_filter::{Body, BodySource, Broken, Piece};

use super::*;
use crate::disk::{Claim, Disk};
use crate::entry::About;
use crate::filling::{Outcome, Wanted};
use crate::lines::fields;
use crate::policy::{Staleness, Terms};
use crate::vary::selecting;

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
            Poll::Ready(Ok(Piece::File { file, offset, length })) => {
                let mut bytes = vec![0; usize::try_from(length).unwrap()];
                assert_eq!(file.read_at(&mut bytes, offset).unwrap(), bytes.len());
                all.append(&mut bytes);
            }
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
fn what_says_nothing_of_its_length_is_followed_too() {
    let store = Arc::new(Store::new(10_000_000, KeyPlan::default()));
    let none = Fields::new();
    let course = || store.course(identity(&store, "/a"), &none, (None, 0)).unwrap();
    let Course::Lead(mut lead) = course() else { panic!() };
    let Course::Join(filling) = course() else { panic!() };
    lead.begin(about(&[]), None, 1_000).unwrap();
    lead.push(&[1; 60]).unwrap();
    let (mut fast, mut slow) = (follow(&filling).unwrap(), follow(&filling).unwrap());
    assert_eq!((fast.length(), drain(&mut *fast)), (None, (vec![1; 60], false, false)));
    lead.push(&[2; 40]).unwrap();
    lead.finish();
    assert_eq!(drain(&mut *fast), (vec![2; 40], true, false));
    assert_eq!(drain(&mut *slow).0.len(), 100);
    let Course::Found(entry) = course() else { panic!("it is kept") };
    assert_eq!(entry.body.bytes().len(), 100);
}

#[test]
fn a_part_is_given_once_its_first_bytes_have_come() {
    let store = Arc::new(Store::new(10_000_000, KeyPlan::default()));
    let none = Fields::new();
    let Some(Course::Lead(mut lead)) = store.course(identity(&store, "/a"), &none, (None, 0))
    else {
        panic!()
    };
    let content: Vec<u8> = (0..=250).cycle().take(600_000).collect();
    let part = |range: &str, first: u64, length: u64| {
        let (entry, _) = store.coming(&identity(&store, "/a"), range.as_bytes())?;
        match entry.body.part(first, length).body() {
            Body::Stream(source) => Some(source),
            other => panic!("{other:?}"),
        }
    };
    assert!(part("bytes=0-9", 0, 10).is_none(), "nothing is known yet");
    lead.begin(about(&[]), Some(600_000), 1_000_000).unwrap();
    assert!(part("bytes=0-9", 0, 10).is_none(), "nothing has come yet");
    lead.push(&content[..300_000]).unwrap();
    let mut inner = part("bytes=1000-1999", 1_000, 1_000).unwrap();
    assert_eq!(inner.length(), Some(1_000));
    assert!(drain(&mut *inner) == (content[1_000..2_000].to_vec(), true, false));
    let mut across = part("bytes=299000-400000", 299_000, 101_001).unwrap();
    assert!(drain(&mut *across) == (content[299_000..300_000].to_vec(), false, false));
    let mut last = part("bytes=290000-", 290_000, 310_000).unwrap();
    for range in ["bytes=300000-", "bytes=-10", "bytes=0-1,5-6", "bytes=600000-", "lines=1"] {
        assert!(part(range, 0, 1).is_none(), "{range}");
    }
    lead.push(&content[300_000..]).unwrap();
    assert!(drain(&mut *across) == (content[300_000..400_001].to_vec(), true, false));
    lead.finish();
    assert!(drain(&mut *last) == (content[290_000..].to_vec(), true, false));
}

/// An answer without a length that may have 100 000 bytes, with somebody who waits and some who follow it.
fn unbounded(store: &Arc<Store>, url: &str) -> (Lead, Arc<Filling>, Vec<Box<dyn BodySource>>) {
    let none = Fields::new();
    let course = || store.course(identity(store, url), &none, (None, 0)).unwrap();
    let Course::Lead(mut lead) = course() else { panic!() };
    let Course::Join(filling) = course() else { panic!() };
    lead.begin(about(&[]), None, 100_000).unwrap();
    lead.push(&[0; 16_000]).unwrap();
    let sources = (0..3).map(|_| follow(&filling).unwrap()).collect();
    (lead, filling, sources)
}

#[test]
fn what_is_too_large_is_passed_on_to_those_who_have_begun() {
    let store = Arc::new(Store::new(1_000_000, KeyPlan::default()));
    let (mut lead, filling, mut sources) = unbounded(&store, "/a");
    let mut waiting = pin!(Arc::clone(&filling).outcome(Wanted::Whole));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    let content: Vec<u8> = (0..=250).cycle().take(600_000).collect();
    let mut slow = sources.pop().unwrap();
    let mut got = vec![Vec::new(); 2];
    let mut behind = drain(&mut *slow).0;
    for (number, piece) in content.chunks(16_000).enumerate() {
        // He takes less often, and whoever brings it waits for him.
        if lead.is_full(Waker::noop()) {
            behind.append(&mut drain(&mut *slow).0);
        }
        assert!(!lead.is_full(Waker::noop()), "{number}");
        lead.push(piece).unwrap();
        for (source, got) in sources.iter_mut().zip(&mut got) {
            got.append(&mut drain(&mut **source).0);
        }
        assert!(store.reading().bytes <= 100_000 + 64 * 1024, "{number}");
    }
    let heard = waiting.as_mut().poll(&mut cx);
    assert!(matches!(heard, Poll::Ready((Outcome::Unshared, _))), "who waits asks for himself");
    let none = Fields::new();
    let again = store.course(identity(&store, "/a"), &none, (None, 0)).unwrap();
    assert!(matches!(again, Course::Lead(_)), "and so does who comes later");
    lead.finish();
    // What the slow one has not got yet stays, and counts, until he has it.
    assert!(store.reading().bytes > 0);
    let (mut rest, end, broken) = drain(&mut *slow);
    assert!(end && !broken && !rest.is_empty());
    behind.append(&mut rest);
    assert!(behind[16_000..] == content);
    for (source, got) in sources.iter_mut().zip(&got) {
        assert!(got[16_000..] == content);
        assert_eq!(drain(&mut **source), (Vec::new(), true, false));
    }
    drop((sources, slow, filling, again, heard));
    assert_eq!((store.reading().bytes, store.reading().entries), (0, 0), "nothing is kept");
}

#[test]
fn who_is_too_slow_for_what_is_not_kept_is_left_behind() {
    let store = Arc::new(Store::new(1_000_000, KeyPlan::default()));
    let (mut lead, filling, mut sources) = unbounded(&store, "/a");
    let mut got = 0;
    let mut bring = |lead: &mut Lead, fast: &mut dyn BodySource| {
        let mut brought = 0;
        while !lead.is_full(Waker::noop()) && brought < 1_000_000 {
            lead.push(&[1; 16_000]).unwrap();
            brought += 16_000;
            got += drain(fast).0.len();
        }
        brought
    };
    let (mut stuck, mut fast) = (sources.pop().unwrap(), sources.pop().unwrap());
    drop(sources);
    assert!(bring(&mut lead, &mut *fast) < 200_000, "it waits for the one who takes nothing");
    assert!(filling.leave_behind());
    assert_eq!(bring(&mut lead, &mut *fast), 1_008_000, "and does so no longer");
    assert!(!filling.leave_behind(), "nobody holds the others up");
    assert_eq!(drain(&mut *stuck), (Vec::new(), false, true), "he does not take it for the whole");
    lead.finish();
    assert!(drain(&mut *fast).1);
    // Without anybody who follows, it is for the one who asked.
    let (mut lead, _, sources) = unbounded(&store, "/b");
    drop(sources);
    assert_eq!(lead.push(&[1; 90_000]), Err(Full));
    // Nor is it brought on if they leave later.
    let (mut lead, _, sources) = unbounded(&store, "/c");
    lead.push(&[1; 90_000]).unwrap();
    assert!(lead.is_awaited(Waker::noop()));
    drop(sources);
    assert!(!lead.is_awaited(Waker::noop()));
    assert_eq!(lead.push(&[1; 10]), Err(Full));
    // If it breaks off, it does so for all.
    let (mut lead, _, mut sources) = unbounded(&store, "/d");
    lead.push(&[1; 90_000]).unwrap();
    drop(lead);
    assert!(sources.iter_mut().all(|source| drain(&mut **source).2));
}

#[test]
fn who_follows_what_the_disk_gives_up_gets_all_of_it() {
    let content: Vec<u8> = (0..=250).cycle().take(12_000_000).collect();
    let path = std::env::temp_dir().join(format!("sluice-cache-full-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let folder = Disk::at(&path, 3 << 20, (Claim::Take, None)).unwrap().unwrap();
    let store = Arc::new(Store::new(10_000_000, KeyPlan::default()));
    store.set_tier(Some(Tier::new(folder, b"a", 1 << 30)));
    let (mut lead, filling, mut sources) = unbounded(&store, "/a");
    let (mut fast, mut slow) = (sources.pop().unwrap(), sources.pop().unwrap());
    drop(sources);
    assert_eq!(drain(&mut *fast).0.len(), 16_000);
    let mut got = Vec::new();
    for piece in content.chunks(16_000) {
        while lead.is_full(Waker::noop()) {
            got.append(&mut drain(&mut *fast).0);
            filling.leave_behind();
        }
        lead.push(piece).unwrap();
    }
    lead.finish();
    while got.len() < content.len() {
        let (mut more, _, broken) = drain(&mut *fast);
        assert!(!broken);
        got.append(&mut more);
    }
    assert!(got == content, "a part from the disk, and a part from memory");
    while !drain(&mut *fast).1 {}
    let (_, end, broken) = drain(&mut *slow);
    assert!(broken && !end, "he was too far behind");
    assert!(!has(&store, "/a"));
    // Its threads may still look at it.
    let _ = std::fs::remove_dir_all(&path);
}

#[test]
fn the_budget_is_not_exceeded_for_those_who_are_behind() {
    let store = Arc::new(Store::new(120_000, KeyPlan::default()));
    let (mut lead, _, mut sources) = unbounded(&store, "/a");
    let mut fast = sources.pop().unwrap();
    drain(&mut *fast);
    // What comes at once may be more than there is room for.
    for _ in 0..3 {
        lead.push(&[1; 60_000]).unwrap();
        assert!(store.reading().bytes <= 120_000);
        drain(&mut *fast);
    }
    assert!(sources.iter_mut().all(|source| drain(&mut **source).2), "they are broken off");
    lead.finish();
    assert!(drain(&mut *fast).1);
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
    // Nobody begins with what may be given to nobody without asking.
    let mut stale = about(&[]);
    stale.terms.age = 60;
    let Course::Lead(mut lead) = course() else { panic!() };
    let Course::Join(filling) = course() else { panic!() };
    lead.begin(stale, Some(60), 1_000).unwrap();
    lead.push(&[1; 60]).unwrap();
    assert!(follow(&filling).is_none());
}
