//! Bandwidth that connections are held to by filters.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use sluice_conn::{Bucket, Line};
use sluice_filter::{Owner, Throttle, Way};

/// What a connection has used of the bandwidths it is held to, by whose they are.
#[derive(Default)]
pub(crate) struct Lines(RefCell<Vec<(Owner, Rc<Line>)>>);

impl Lines {
    /// What the connection has used of this one.
    pub(crate) fn of(&self, throttle: &Arc<dyn Throttle>, worker: usize) -> Rc<Line> {
        let owner = throttle.owner();
        let mut known = self.0.borrow_mut();
        if let Some((_, line)) = known.iter().find(|(other, _)| *other == owner) {
            return Rc::clone(line);
        }
        // Those of filters that are gone since, and all others that would be made anew as they are.
        known.retain(|(_, line)| Rc::strong_count(line) > 1 || !line.is_full());
        let bucket = |way| bucket(throttle, way, worker);
        let line = Line { download: bucket(Way::Download), upload: bucket(Way::Upload) };
        let line = Rc::new(line);
        known.push((owner, Rc::clone(&line)));
        line
    }
}

fn bucket(throttle: &Arc<dyn Throttle>, way: Way, worker: usize) -> Option<Bucket> {
    let bandwidth = throttle.bandwidth(way)?;
    let throttle = Arc::clone(throttle);
    let on_wait = Box::new(move |nanos| throttle.on_wait(worker, way, nanos));
    Some(Bucket::new(bandwidth.bytes, bandwidth.burst, on_wait))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_filter::Bandwidth;

    #[derive(Debug)]
    struct Slow(Owner);

    impl Throttle for Slow {
        fn owner(&self) -> Owner {
            self.0
        }

        fn bandwidth(&self, way: Way) -> Option<Bandwidth> {
            (way == Way::Upload).then_some(Bandwidth { bytes: 1, burst: 1 })
        }

        fn on_wait(&self, _: usize, _: Way, _: u64) {}
    }

    #[test]
    fn a_connection_has_one_line_for_each_and_forgets_those_nobody_uses() {
        let lines = Lines::default();
        let slow = || -> Arc<dyn Throttle> { Arc::new(Slow(Owner::new())) };
        let (one, two) = (slow(), slow());
        let first = lines.of(&one, 0);
        assert!(first.download.is_none() && first.upload.is_some());
        assert!(Rc::ptr_eq(&first, &lines.of(&one, 0)));
        assert!(!Rc::ptr_eq(&first, &lines.of(&two, 0)));
        for _ in 0..100 {
            lines.of(&slow(), 0);
        }
        assert!(lines.0.borrow().len() <= 3);
        assert!(Rc::ptr_eq(&first, &lines.of(&one, 0)));
    }
}
