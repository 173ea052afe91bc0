//! The limit in front of a simulated server, under a simulated clock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::*;

const MILLISECOND: Nanos = 1_000_000;
const SECOND: Nanos = 1_000_000_000;

fn settings() -> AdaptiveSettings {
    AdaptiveSettings {
        min: 10,
        max: 1000,
        tolerance: 25,
        window: Duration::from_millis(100),
        probe: Duration::from_secs(30),
    }
}

/// What happens to the server or at its door.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    /// One that began at this time is done.
    Done(Nanos),
}

/// A server that works on so many requests at once and lets others wait, behind the limit.
struct Simulation {
    learner: Learner,
    limit: u32,
    now: Nanos,
    events: BinaryHeap<Reverse<(Nanos, Event)>>,
    /// Requests the server works on at once, and how long it takes for one.
    slots: usize,
    service: Nanos,
    /// Requests that ask to be let in, a second.
    rate: u64,
    busy: usize,
    /// When those began that the server lets wait.
    queue: VecDeque<Nanos>,
    under_way: u32,
    seed: u64,
    /// What is looked at: answers, refusals, and the limit over time.
    answered: u64,
    refused: u64,
    limits: Vec<u32>,
}

impl Simulation {
    fn new(slots: usize, service: Nanos, rate: u64) -> Self {
        let learner = Learner::default();
        let mut limit = 0;
        learner.follow(&settings(), |fresh| limit = fresh);
        Self {
            learner,
            limit,
            now: SECOND,
            events: BinaryHeap::from([Reverse((SECOND, Event::Arrival))]),
            slots,
            service,
            rate,
            busy: 0,
            queue: VecDeque::new(),
            under_way: 0,
            seed: 0x9e37_79b9_7f4a_7c15,
            answered: 0,
            refused: 0,
            limits: Vec::new(),
        }
    }

    /// A number from 0 to 1 (xorshift).
    fn random(&mut self) -> f64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        f64::from(u32::try_from(self.seed >> 32).unwrap()) / f64::from(u32::MAX)
    }

    /// An exponentially distributed time with this mean.
    fn pause(&mut self, mean: Nanos) -> Nanos {
        let factor = -(1.0 - self.random() * 0.999_999).ln();
        whole(f64::from(u32::try_from(mean).unwrap()) * factor).max(1)
    }

    fn begin(&mut self, began: Nanos) {
        self.busy += 1;
        // Half of the time is the same for all, the other half is not.
        let time = self.service / 2 + self.pause(self.service / 2);
        self.events.push(Reverse((self.now + time, Event::Done(began))));
    }

    /// Lets this much time pass; answers and refusals are counted from its beginning.
    fn run(&mut self, time: Nanos) {
        (self.answered, self.refused) = (0, 0);
        self.limits.clear();
        let end = self.now + time;
        while let Some(Reverse((at, event))) = self.events.pop() {
            self.now = at;
            match event {
                Event::Arrival => self.on_arrival(),
                Event::Done(began) => self.on_done(began),
            }
            if at >= end {
                return;
            }
        }
    }

    fn on_arrival(&mut self) {
        let pause = self.pause(SECOND / self.rate);
        self.events.push(Reverse((self.now + pause, Event::Arrival)));
        if self.under_way >= self.limit {
            self.refused += 1;
            return;
        }
        self.under_way += 1;
        if self.busy < self.slots {
            self.begin(self.now);
        } else {
            self.queue.push_back(self.now);
        }
    }

    fn on_done(&mut self, began: Nanos) {
        self.busy -= 1;
        self.answered += 1;
        let limit = &mut self.limit;
        let latency = self.now - began;
        self.learner.on_answer(latency, self.under_way, self.now, |fresh| *limit = fresh);
        self.limits.push(self.limit);
        self.under_way -= 1;
        if self.busy < self.slots
            && let Some(next) = self.queue.pop_front()
        {
            self.begin(next);
        }
    }

    /// The middle of the limits seen.
    fn median(&mut self) -> usize {
        self.limits.sort_unstable();
        usize::try_from(self.limits[self.limits.len() / 2]).unwrap()
    }

    /// Answers as a share of what the server could give at best, in percent.
    fn use_of_capacity(&self, time: Nanos) -> u64 {
        let best = u64::try_from(self.slots).unwrap() * time / self.service;
        self.answered * 100 / best
    }
}

#[test]
fn the_limit_settles_near_the_knee() {
    // Twice as much is asked for as the server can do.
    for (slots, service) in [(20, 10), (100, 10), (100, 200), (400, 50)] {
        let service = service * MILLISECOND;
        let rate = 2 * u64::try_from(slots).unwrap() * SECOND / service;
        let mut simulation = Simulation::new(slots, service, rate);
        simulation.run(20 * SECOND);
        simulation.run(40 * SECOND);
        let (median, used) = (simulation.median(), simulation.use_of_capacity(40 * SECOND));
        assert!(median >= slots * 9 / 10 && median <= slots * 17 / 10, "{slots}: {median}");
        assert!(used >= 90, "{slots}: {used} %");
    }
}

#[test]
fn a_limit_nobody_comes_near_does_not_rise() {
    let mut simulation = Simulation::new(100, 10 * MILLISECOND, 200);
    simulation.run(60 * SECOND);
    // It is twice the most that were under way.
    assert_eq!(simulation.refused, 0);
    assert!(simulation.limit <= 30, "{}", simulation.limit);
}

#[test]
fn the_limit_follows_capacity_down_and_up() {
    let mut simulation = Simulation::new(100, 10 * MILLISECOND, 20_000);
    simulation.run(60 * SECOND);
    assert!(simulation.limit >= 90, "{}", simulation.limit);
    // Three of four servers are lost.
    simulation.slots = 25;
    simulation.run(20 * SECOND);
    simulation.run(60 * SECOND);
    let median = simulation.median();
    assert!((22..=50).contains(&median), "{median}");
    simulation.slots = 100;
    simulation.run(20 * SECOND);
    simulation.run(60 * SECOND);
    let median = simulation.median();
    assert!((90..=170).contains(&median), "{median}");
}

#[test]
fn a_server_that_is_slow_for_a_while_is_spared_and_forgiven() {
    let mut simulation = Simulation::new(100, 10 * MILLISECOND, 20_000);
    // Half-way between two probes.
    simulation.run(45 * SECOND);
    simulation.service = 100 * MILLISECOND;
    simulation.run(5 * SECOND);
    simulation.run(5 * SECOND);
    let median = simulation.median();
    assert!(median <= 30, "requests are kept away: {median}");
    // As it was.
    simulation.service = 10 * MILLISECOND;
    simulation.run(10 * SECOND);
    simulation.run(60 * SECOND);
    let median = simulation.median();
    assert!((90..=170).contains(&median), "{median}");
}

#[test]
fn a_server_that_has_become_slow_for_good_is_not_taken_for_overloaded() {
    let mut simulation = Simulation::new(100, 10 * MILLISECOND, 20_000);
    simulation.run(60 * SECOND);
    simulation.service = 50 * MILLISECOND;
    // One probe later that is the baseline.
    simulation.run(60 * SECOND);
    simulation.run(60 * SECOND);
    let (median, used) = (simulation.median(), simulation.use_of_capacity(60 * SECOND));
    assert!((80..=170).contains(&median) && used >= 80, "{median}, {used} %");
}

#[test]
fn settings_may_change_and_what_was_learned_stays() {
    let learner = Learner::default();
    let limit = |settings: &AdaptiveSettings| {
        let mut limit = 0;
        learner.follow(settings, |fresh| limit = fresh);
        limit
    };
    assert_eq!(limit(&settings()), 10);
    for second in 1..5 {
        for _ in 0..SAMPLES {
            learner.on_answer(MILLISECOND, 10, second * SECOND, |_| {});
        }
    }
    let found = limit(&settings());
    assert!(found > 15, "{found}");
    assert_eq!(limit(&settings()), found);
    assert_eq!(limit(&AdaptiveSettings { max: 12, ..settings() }), 12);
    assert_eq!(limit(&AdaptiveSettings { min: 90, ..settings() }), 90);
    learner.rest(|| {});
    learner.on_answer(MILLISECOND, 10, 99 * SECOND, |_| panic!("nobody learns"));
    assert_eq!(limit(&settings()), 10);
}

#[test]
fn a_few_slow_answers_do_not_move_the_typical_one() {
    let mean = |list: &[Nanos]| {
        let sum: u64 = list.iter().map(|nanos| fixed(logarithm(*nanos))).sum();
        nanos_of(typical(sum, u64::try_from(list.len()).unwrap()))
    };
    let even = mean(&[10 * MILLISECOND; 32]);
    assert!(even.abs_diff(10 * MILLISECOND) < MILLISECOND / 10, "{even}");
    let mut list = [10 * MILLISECOND; 32];
    list[0] = SECOND;
    assert!(mean(&list) < even * 5 / 4);
    // The ends of the range do no harm.
    assert_eq!(fixed(logarithm(0)), 0);
    assert!(nanos_of(logarithm(Nanos::MAX)) >= 270 * SECOND);
}
