//! Permits one by one against a plain model, and by many threads at once.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::task::Wake;
use std::thread;

use super::*;
use crate::{run, spawn, yield_now};

/// Counts how often it was woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn poll<P: Deref<Target = Permits> + Unpin>(
    queued: &mut Queued<P>,
    bell: &Arc<Bell>,
) -> Option<Permit<P>> {
    let waker = Waker::from(Arc::clone(bell));
    match Pin::new(queued).poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(permit) => Some(permit),
        Poll::Pending => None,
    }
}

#[test]
fn the_limit_holds_and_what_is_given_back_can_be_taken() {
    let permits = Permits::new(2, 0);
    let first = Permits::try_take(&permits).unwrap();
    let _second = Permits::try_take(&permits).unwrap();
    assert!(Permits::try_take(&permits).is_none());
    assert_eq!(Permits::queue(&permits).unwrap_err(), Refused::Full);
    assert_eq!((permits.taken(), permits.waiting()), (2, 0));
    drop(first);
    assert!(Permits::try_take(&permits).is_some());
    assert_eq!(permits.taken(), 1);
}

#[test]
fn a_permit_may_own_what_it_is_of() {
    let permits = Arc::new(Permits::new(1, 0));
    let permit = Permits::try_take(Arc::clone(&permits)).unwrap();
    thread::spawn(move || drop(permit)).join().unwrap();
    assert_eq!(permits.taken(), 0);
}

#[test]
fn those_who_wait_are_served_in_their_order() {
    let permits = Permits::new(1, 2);
    let held = Permits::try_take(&permits).unwrap();
    let bells = [Arc::<Bell>::default(), Arc::default()];
    let mut first = Permits::queue(&permits).unwrap();
    let mut second = Permits::queue(&permits).unwrap();
    assert_eq!(Permits::queue(&permits).unwrap_err(), Refused::Full);
    assert_eq!(permits.waiting(), 2);
    assert!(poll(&mut second, &bells[1]).is_none());
    assert!(poll(&mut first, &bells[0]).is_none());
    drop(held);
    assert_eq!(bells[0].0.load(Ordering::Relaxed), 1);
    assert_eq!(bells[1].0.load(Ordering::Relaxed), 0);
    // Handed over, not free: nobody can snatch it.
    assert!(Permits::try_take(&permits).is_none());
    assert!(poll(&mut second, &bells[1]).is_none());
    let permit = poll(&mut first, &bells[0]).unwrap();
    assert_eq!((permits.taken(), permits.waiting()), (1, 1));
    drop(permit);
    drop(poll(&mut second, &bells[1]).unwrap());
    assert_eq!((permits.taken(), permits.waiting()), (0, 0));
}

#[test]
fn who_comes_while_others_wait_does_not_overtake() {
    let permits = Permits::new(1, 9);
    let held = Permits::try_take(&permits).unwrap();
    let waits = Permits::queue(&permits).unwrap();
    permits.resize(0, 9);
    drop(held);
    // A permit is not taken, but the limit is zero and somebody waits.
    assert!(Permits::try_take(&permits).is_none());
    assert_eq!((permits.taken(), permits.waiting()), (0, 1));
    permits.resize(1, 9);
    assert_eq!((permits.taken(), permits.waiting()), (1, 0));
    assert!(Permits::try_take(&permits).is_none());
    drop(waits);
    assert_eq!(permits.taken(), 0);
}

#[test]
fn a_permit_handed_to_one_who_left_goes_to_the_next() {
    let permits = Permits::new(1, 3);
    let bell = Arc::<Bell>::default();
    let held = Permits::try_take(&permits).unwrap();
    let gone = Permits::queue(&permits).unwrap();
    let handed = Permits::queue(&permits).unwrap();
    let mut last = Permits::queue(&permits).unwrap();
    assert!(poll(&mut last, &bell).is_none());
    drop(gone);
    assert_eq!((permits.taken(), permits.waiting()), (1, 2));
    // Left after the hand-over, before it looked.
    drop(held);
    assert_eq!((permits.taken(), permits.waiting()), (1, 1));
    drop(handed);
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    assert!(poll(&mut last, &bell).is_some());
    assert_eq!((permits.taken(), permits.waiting()), (0, 0));
}

#[test]
fn the_waker_of_the_last_poll_is_the_one_that_counts() {
    let permits = Permits::new(0, 1);
    let (old, new) = (Arc::<Bell>::default(), Arc::<Bell>::default());
    let mut waits = Permits::queue(&permits).unwrap();
    assert!(poll(&mut waits, &old).is_none());
    assert!(poll(&mut waits, &new).is_none());
    permits.resize(1, 1);
    assert_eq!((old.0.load(Ordering::Relaxed), new.0.load(Ordering::Relaxed)), (0, 1));
    drop(poll(&mut waits, &new).unwrap());
    // After its end a future has nothing more to give.
    assert!(poll(&mut waits, &new).is_none());
    drop(waits);
    assert_eq!(permits.taken(), 0);
}

#[test]
fn a_lower_limit_waits_until_enough_came_back() {
    let permits = Permits::new(3, 1);
    let mut held: Vec<_> = (0..3).map(|_| Permits::try_take(&permits).unwrap()).collect();
    permits.resize(1, 1);
    let mut waits = Permits::queue(&permits).unwrap();
    let bell = Arc::<Bell>::default();
    for _ in 0..2 {
        assert!(poll(&mut waits, &bell).is_none());
        held.pop();
    }
    assert!(poll(&mut waits, &bell).is_none());
    held.pop();
    assert!(poll(&mut waits, &bell).is_some());
}

#[test]
fn no_limit_is_no_limit() {
    let permits = Permits::new(u32::MAX, 0);
    let held: Vec<_> = (0..1000).map(|_| Permits::try_take(&permits).unwrap()).collect();
    assert_eq!(permits.taken(), 1000);
    drop(held);
    assert_eq!((permits.taken(), permits.limit(), permits.queue_limit()), (0, u32::MAX, 0));
}

/// A number that follows from the one before (xorshift).
fn step(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// What [`Permits`] are to do, said as plainly as possible.
#[derive(Default)]
struct Model {
    limit: usize,
    room: usize,
    held: usize,
    /// Numbers of those who wait.
    queue: VecDeque<usize>,
    /// Numbers of those who were handed a permit they have not looked at.
    granted: Vec<usize>,
}

impl Model {
    fn is_free(&self) -> bool {
        self.queue.is_empty() && self.held + self.granted.len() < self.limit
    }

    fn settle(&mut self) {
        while self.held + self.granted.len() < self.limit
            && let Some(number) = self.queue.pop_front()
        {
            self.granted.push(number);
        }
    }
}

#[test]
fn any_order_of_events_is_as_the_model_says() {
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..300 {
        let permits = Permits::new(2, 3);
        let mut model = Model { limit: 2, room: 3, ..Model::default() };
        let bell = Arc::<Bell>::default();
        let mut held = Vec::new();
        let mut queued: Vec<(usize, Queued<&Permits>)> = Vec::new();
        for number in 0..200 {
            let choice = usize::try_from(step(&mut seed) >> 33).unwrap();
            match choice % 6 {
                0 => {
                    let permit = Permits::try_take(&permits);
                    assert_eq!(permit.is_some(), model.is_free());
                    model.held += usize::from(permit.is_some());
                    held.extend(permit);
                }
                1 | 2 => match Permits::queue(&permits) {
                    Ok(place) => {
                        let waits = !model.is_free();
                        assert!(!waits || model.queue.len() < model.room);
                        if waits {
                            model.queue.push_back(number);
                        } else {
                            model.granted.push(number);
                        }
                        queued.push((number, place));
                    }
                    Err(refused) => {
                        assert_eq!(refused, Refused::Full);
                        assert!(!model.is_free() && model.queue.len() >= model.room);
                    }
                },
                3 if !held.is_empty() => {
                    drop(held.swap_remove(choice / 6 % held.len()));
                    model.held -= 1;
                }
                4 if !queued.is_empty() => {
                    let at = choice / 6 % queued.len();
                    let (number, mut place) = queued.swap_remove(at);
                    let granted = model.granted.contains(&number);
                    if choice / 64 % 2 == 0 {
                        // It leaves, whether or not it was handed a permit.
                        drop(place);
                        model.granted.retain(|it| *it != number);
                        model.queue.retain(|it| *it != number);
                    } else {
                        let permit = poll(&mut place, &bell);
                        assert_eq!(permit.is_some(), granted);
                        model.granted.retain(|it| *it != number);
                        model.held += usize::from(granted);
                        match permit {
                            Some(permit) => held.push(permit),
                            None => queued.push((number, place)),
                        }
                    }
                }
                5 if choice / 6 % 4 == 0 => {
                    (model.limit, model.room) = (choice / 24 % 5, choice / 120 % 5);
                    let number = |it: usize| u32::try_from(it).unwrap();
                    permits.resize(number(model.limit), number(model.room));
                }
                _ => {}
            }
            model.settle();
            let taken = model.held + model.granted.len();
            assert_eq!(usize::try_from(permits.taken()).unwrap(), taken);
            assert_eq!(usize::try_from(permits.waiting()).unwrap(), model.queue.len());
        }
        drop((held, queued));
        assert_eq!((permits.taken(), permits.waiting()), (0, 0));
    }
}

/// Permits and what is seen of their use.
struct Watched {
    permits: Permits,
    inside: AtomicU32,
    most: AtomicU32,
    served: AtomicUsize,
}

impl Watched {
    fn new(limit: u32, queue: u32) -> Arc<Self> {
        Arc::new(Self {
            permits: Permits::new(limit, queue),
            inside: AtomicU32::new(0),
            most: AtomicU32::new(0),
            served: AtomicUsize::new(0),
        })
    }

    fn enter(&self) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        self.served.fetch_add(1, Ordering::Relaxed);
    }

    fn leave(&self) {
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

const LONG: Duration = Duration::from_secs(60);
const THREADS: usize = 4;
const TASKS: usize = 16;
const ROUNDS: usize = 200;

/// What a task does, given a number of its own.
type Work = fn(Arc<Watched>, u64) -> Pin<Box<dyn Future<Output = ()>>>;

/// Tasks on several loops; each takes a permit again and again, waiting as long as it must.
fn on_threads(watched: &Arc<Watched>, task: Work) {
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let watched = Arc::clone(watched);
            thread::spawn(move || {
                run(async move {
                    let left = std::rc::Rc::new(std::cell::Cell::new(TASKS));
                    for number in 0..TASKS {
                        let seed = u64::try_from(thread * TASKS + number + 1).unwrap();
                        let (work, left) = (task(Arc::clone(&watched), seed), left.clone());
                        spawn(async move {
                            work.await;
                            left.set(left.get() - 1);
                        });
                    }
                    while left.get() > 0 {
                        Deadline::new().sleep(Duration::from_millis(1)).await;
                    }
                })
                .unwrap();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((watched.permits.taken(), watched.permits.waiting()), (0, 0));
    assert_eq!(watched.inside.load(Ordering::SeqCst), 0);
}

#[test]
fn over_threads_the_limit_holds_and_everybody_is_served() {
    let watched = Watched::new(3, u32::MAX);
    on_threads(&watched, |watched, _| {
        Box::pin(async move {
            let deadline = Deadline::new();
            for _ in 0..ROUNDS {
                let permit = Permits::take(&watched.permits, &deadline, LONG).await.unwrap();
                watched.enter();
                yield_now().await;
                watched.leave();
                drop(permit);
            }
        })
    });
    assert_eq!(watched.most.load(Ordering::SeqCst), 3);
    assert_eq!(watched.served.load(Ordering::Relaxed), THREADS * TASKS * ROUNDS);
}

#[test]
fn over_threads_nothing_is_lost_by_those_who_give_up() {
    // Half of the tasks leave the queue at any moment; the others must get through all the same.
    let watched = Watched::new(2, u32::MAX);
    on_threads(&watched, |watched, mut seed| {
        Box::pin(async move {
            let deadline = Deadline::new();
            for _ in 0..ROUNDS {
                let patient = seed.is_multiple_of(2);
                let mut queued = pin!(Permits::queue(&watched.permits).unwrap());
                let mut looks = step(&mut seed) % 4;
                let permit = if patient {
                    deadline.limit(LONG, queued).await.ok()
                } else {
                    std::future::poll_fn(|cx| match queued.as_mut().poll(cx) {
                        Poll::Ready(permit) => Poll::Ready(Some(permit)),
                        Poll::Pending if looks == 0 => Poll::Ready(None),
                        Poll::Pending => {
                            looks -= 1;
                            cx.waker().wake_by_ref();
                            Poll::Pending
                        }
                    })
                    .await
                };
                assert!(permit.is_some() || !patient, "a permit got lost");
                if permit.is_some() {
                    watched.enter();
                    yield_now().await;
                    watched.leave();
                }
            }
        })
    });
    assert!(watched.most.load(Ordering::SeqCst) <= 2);
}

#[test]
fn over_threads_the_limit_may_change_at_any_time() {
    let watched = Watched::new(1, u32::MAX);
    let stop = Arc::new(AtomicBool::new(false));
    let changer = {
        let (watched, stop) = (Arc::clone(&watched), Arc::clone(&stop));
        thread::spawn(move || {
            for limit in (0..5).cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
                watched.permits.resize(limit, u32::MAX);
                thread::yield_now();
            }
            watched.permits.resize(4, u32::MAX);
        })
    };
    on_threads(&watched, |watched, _| {
        Box::pin(async move {
            let deadline = Deadline::new();
            for _ in 0..ROUNDS / 4 {
                let permit = Permits::take(&watched.permits, &deadline, LONG).await.unwrap();
                watched.enter();
                yield_now().await;
                watched.leave();
                drop(permit);
            }
        })
    });
    stop.store(true, Ordering::Relaxed);
    changer.join().unwrap();
    assert!(watched.most.load(Ordering::SeqCst) <= 4);
    assert_eq!(watched.served.load(Ordering::Relaxed), THREADS * TASKS * ROUNDS / 4);
}

#[test]
fn a_wait_ends_in_time_and_leaves_no_trace() {
    let permits = Arc::new(Permits::new(0, 1));
    let of_task = Arc::clone(&permits);
    let outcome = run(async move {
        let deadline = Deadline::new();
        let now = Permits::take(&*of_task, &deadline, Duration::ZERO).await.err();
        let later = Permits::take(&*of_task, &deadline, Duration::from_millis(2)).await.err();
        (now, later)
    });
    assert_eq!(outcome.unwrap(), (Some(Refused::TimedOut), Some(Refused::TimedOut)));
    assert_eq!(permits.waiting(), 0);
}
