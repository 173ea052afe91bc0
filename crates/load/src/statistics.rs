//! What repeated measurements prove: medians, paired ratios, intervals and the verdict on noise.

use serde::{Deserialize, Serialize};

use crate::figures;

/// How many resamples an interval is made from.
const RESAMPLES: usize = 10_000;
/// Below this many rounds an interval covers less than 95 %, see [`coverage`].
pub const ENOUGH_ROUNDS: usize = 6;
/// With fewer rounds than this nothing is said about noise.
const FEWEST_ROUNDS: usize = 3;

/// A range that holds the true value in about 95 of 100 repetitions.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The ratio of two things measured in the same rounds.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Median of the ratios of the rounds.
    pub median: f64,
    /// The two values of the round in the middle; of two rounds in the middle their means. Medians of
    /// each side by itself may come from different rounds and contradict the ratio.
    pub middle: (f64, f64),
    /// Bootstrap interval of that median; nothing with fewer than 3 rounds.
    pub interval: Option<Interval>,
    /// How many rounds have both.
    pub rounds: usize,
}

/// What a ratio proves.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole interval lies above 1.
    Above,
    /// The whole interval lies below 1.
    Below,
    /// The interval holds 1: another set of runs could come out the other way.
    WithinNoise,
    /// Too few rounds to say anything.
    Undecided,
}

impl Ratio {
    /// Whether the ratio differs from 1 beyond noise.
    pub fn verdict(&self) -> Verdict {
        match self.interval {
            None => Verdict::Undecided,
            Some(interval) if interval.low > 1.0 => Verdict::Above,
            Some(interval) if interval.high < 1.0 => Verdict::Below,
            Some(_) => Verdict::WithinNoise,
        }
    }
}

/// The median; nothing of nothing. Values that are not numbers are left out.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    middle(&sorted)
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let upper = sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(*upper);
    }
    let lower = sorted.get((sorted.len() / 2).checked_sub(1)?)?;
    Some(f64::midpoint(*lower, *upper))
}

/// The ratio of pairs measured in the same round, first to second. Pairs without a usable ratio are
/// left out; nothing if none is left.
pub fn paired_ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let usable = pairs.iter().filter(|(above, below)| *above > 0.0 && *below > 0.0);
    let mut usable: Vec<(f64, f64)> = usable.copied().collect();
    usable.sort_by(|one, other| f64::total_cmp(&(one.0 / one.1), &(other.0 / other.1)));
    let ratios: Vec<f64> = usable.iter().map(|(above, below)| above / below).collect();
    let upper = *usable.get(usable.len() / 2)?;
    let lower = match usable.len() % 2 {
        0 => *usable.get((usable.len() / 2).checked_sub(1)?)?,
        _ => upper,
    };
    // Between the ratios of both rounds, so that it is as good a median as their mean.
    let middle = (f64::midpoint(lower.0, upper.0), f64::midpoint(lower.1, upper.1));
    let median = middle.0 / middle.1;
    let interval = (ratios.len() >= FEWEST_ROUNDS).then(|| bootstrap(&ratios)).flatten();
    Some(Ratio { median, middle, interval, rounds: ratios.len() })
}

/// The middle 95 % of the medians of resamples.
fn bootstrap(values: &[f64]) -> Option<Interval> {
    // Seeded by a constant: the same measurements must always give the same report.
    let mut random = SplitMix(0x5EED_0F51_01CE);
    let mut medians = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let mut resample: Vec<f64> =
            (0..values.len()).filter_map(|_| random.pick(values)).collect();
        resample.sort_by(f64::total_cmp);
        medians.extend(middle(&resample));
    }
    medians.sort_by(f64::total_cmp);
    let low = *medians.get(RESAMPLES * 25 / 1000)?;
    let high = *medians.get(RESAMPLES * 975 / 1000)?;
    Some(Interval { low, high })
}

/// How often the range of so many measurements holds the true median: 1 - 2 (1/2)^n. With fewer than
/// [`ENOUGH_ROUNDS`] the bootstrap interval is that range and cannot cover more.
pub fn coverage(rounds: usize) -> f64 {
    1.0 - 2.0 * 0.5_f64.powf(figures::length(rounds))
}

/// Steele, Lea and Flood's generator: enough for resampling, and the same on every machine.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn pick(&mut self, values: &[f64]) -> Option<f64> {
        let length = u64::try_from(values.len()).ok().filter(|length| *length > 0)?;
        values.get(usize::try_from(self.next() % length).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let rows: [(&[f64], Option<f64>); 5] = [
            (&[], None),
            (&[3.0], Some(3.0)),
            (&[5.0, 1.0, 3.0], Some(3.0)),
            (&[4.0, 1.0, 3.0, 2.0], Some(2.5)),
            (&[1.0, f64::NAN, 3.0], Some(2.0)),
        ];
        for (values, expected) in rows {
            assert_eq!(median(values), expected, "{values:?}");
        }
    }

    #[test]
    fn a_steady_lead_is_beyond_noise_and_a_mixed_one_is_not() {
        let ahead: Vec<(f64, f64)> =
            (0..10_i32).map(|i| (120.0 + f64::from(i), 100.0 + f64::from(i % 3))).collect();
        let ratio = paired_ratio(&ahead).unwrap();
        assert_eq!(ratio.verdict(), Verdict::Above);
        let interval = ratio.interval.unwrap();
        assert!(interval.low <= ratio.median && ratio.median <= interval.high, "{ratio:?}");

        let behind: Vec<(f64, f64)> = ahead.iter().map(|(a, b)| (*b, *a)).collect();
        assert_eq!(paired_ratio(&behind).unwrap().verdict(), Verdict::Below);

        let mixed = [(1.0, 1.1), (1.1, 1.0), (1.0, 1.02), (1.05, 1.0), (1.0, 1.0), (0.97, 1.0)];
        assert_eq!(paired_ratio(&mixed).unwrap().verdict(), Verdict::WithinNoise);
    }

    /// Rounds of which each has a small lead, while the medians of both sides are far apart the other
    /// way round.
    #[test]
    fn the_values_beside_a_ratio_fit_it() {
        let pairs = [(11.0, 10.0), (23.6, 21.3), (24.0, 35.0), (36.9, 33.3), (37.0, 34.0)];
        let sides = |pick: fn(&(f64, f64)) -> f64| pairs.iter().map(pick).collect::<Vec<f64>>();
        assert!(median(&sides(|pair| pair.0)).unwrap() < median(&sides(|pair| pair.1)).unwrap());
        for rounds in 1..=pairs.len() {
            let ratio = paired_ratio(&pairs[..rounds]).unwrap();
            assert!((ratio.middle.0 / ratio.middle.1 - ratio.median).abs() < 1e-9, "{ratio:?}");
            let mut ratios: Vec<f64> = pairs[..rounds].iter().map(|(a, b)| a / b).collect();
            ratios.sort_by(f64::total_cmp);
            let (low, high) = (ratios[(rounds - 1) / 2], ratios[rounds / 2]);
            assert!(low <= ratio.median + 1e-9 && ratio.median <= high + 1e-9, "{ratio:?}");
        }
        let ratio = paired_ratio(&pairs).unwrap();
        assert_eq!(ratio.middle, (11.0, 10.0));
    }

    #[test]
    fn few_rounds_decide_nothing_and_none_give_nothing() {
        assert_eq!(paired_ratio(&[]), None);
        assert_eq!(paired_ratio(&[(1.0, 0.0), (0.0, 1.0), (f64::NAN, 1.0)]), None);
        let two = paired_ratio(&[(2.0, 1.0), (2.0, 1.0)]).unwrap();
        assert_eq!((two.median, two.rounds, two.verdict()), (2.0, 2, Verdict::Undecided));
    }

    #[test]
    fn the_interval_of_few_rounds_is_their_range() {
        let ratio = paired_ratio(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)]).unwrap();
        assert_eq!(ratio.interval, Some(Interval { low: 1.0, high: 3.0 }));
        assert!((coverage(3) - 0.75).abs() < 1e-9);
        assert!((coverage(ENOUGH_ROUNDS) - 0.96875).abs() < 1e-9);
    }

    /// The interval must hold the true median about as often as it says: of 200 sets of 20 values
    /// from a known uniform distribution with median 1, at least 88 % and not always.
    #[test]
    fn intervals_cover_what_they_claim() {
        let mut random = SplitMix(7);
        let mut uniform = || figures::float(random.next() >> 11) / figures::float(1 << 53);
        let mut held = 0_u32;
        for _ in 0..200 {
            let pairs: Vec<(f64, f64)> = (0..20).map(|_| (0.5 + uniform(), 1.0)).collect();
            let interval = paired_ratio(&pairs).unwrap().interval.unwrap();
            held += u32::from(interval.low <= 1.0 && 1.0 <= interval.high);
        }
        assert!((176..200).contains(&held), "{held} of 200");
    }
}
