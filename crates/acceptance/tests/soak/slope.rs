//! A line through means of blocks of samples, and whether it rises for sure.

/// Blocks that the samples behind the warm-up are cut into. Samples follow each other and are no
/// independent observations; means of minutes are, nearly.
pub(crate) const BLOCKS: usize = 12;

/// The 99.5th percentile of Student's t with `BLOCKS - 2` degrees of freedom: a two-sided interval of 99 %.
const QUANTILE: f64 = 3.169;

/// What one resource did over time.
#[derive(Clone, Debug)]
pub(crate) struct Trend {
    /// `resident memory (KiB)`.
    pub(crate) name: &'static str,
    /// The mean of each block.
    pub(crate) blocks: Vec<f64>,
    /// Of all blocks.
    pub(crate) mean: f64,
    /// Growth per hour by the fitted line.
    pub(crate) hourly: f64,
    /// Half the width of the 99 % interval of `hourly`.
    pub(crate) margin: f64,
    /// Growth per hour that is no matter.
    pub(crate) allowed: f64,
}

impl Trend {
    /// Fits a line to points of hours and values.
    pub(crate) fn fit(name: &'static str, points: &[(f64, f64)], allowed: Allowed) -> Self {
        let size = points.len().div_ceil(BLOCKS).max(1);
        let mean_of = |points: &[(f64, f64)]| {
            let count = points.len().max(1) as f64;
            let sum = points.iter().fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
            (sum.0 / count, sum.1 / count)
        };
        let blocks: Vec<(f64, f64)> = points.chunks(size).map(mean_of).collect();
        let (hour, mean) = mean_of(&blocks);
        let squares: f64 = blocks.iter().map(|it| (it.0 - hour).powi(2)).sum();
        let products: f64 = blocks.iter().map(|it| (it.0 - hour) * (it.1 - mean)).sum();
        let hourly = if squares > 0.0 { products / squares } else { 0.0 };
        let rest = |it: &(f64, f64)| (it.1 - mean - hourly * (it.0 - hour)).powi(2);
        let free = blocks.len().saturating_sub(2).max(1) as f64;
        let variance = blocks.iter().map(rest).sum::<f64>() / free;
        let margin = if squares > 0.0 { QUANTILE * (variance / squares).sqrt() } else { 0.0 };
        let allowed = match allowed {
            Allowed::Share(share) => mean * share,
            Allowed::Count(count) => count,
        };
        let blocks = blocks.iter().map(|it| it.1).collect();
        Self { name, blocks, mean, hourly, margin, allowed }
    }

    /// Whether it grows for sure, and by more than is allowed.
    pub(crate) fn is_slope(&self) -> bool {
        self.hourly > self.allowed && self.hourly > self.margin
    }
}

/// Growth per hour that is no matter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Allowed {
    /// Of the mean.
    Share(f64),
    /// A number.
    Count(f64),
}

#[test]
fn a_leak_is_told_from_noise() {
    let noise = |at: u32| f64::from(at.wrapping_mul(2_654_435_761) >> 22);
    let points = |leak: f64| -> Vec<(f64, f64)> {
        (0..3600)
            .map(|at| (f64::from(at) / 3600.0, 50_000.0 + noise(at) + leak * f64::from(at)))
            .collect()
    };
    let flat = Trend::fit("flat", &points(0.0), Allowed::Share(0.02));
    assert!(!flat.is_slope(), "{flat:?}");
    // One KiB a second.
    let rising = Trend::fit("rising", &points(1.0), Allowed::Share(0.02));
    assert!(rising.is_slope(), "{rising:?}");
    assert!((rising.hourly - 3600.0).abs() < 200.0, "{rising:?}");
    let falling = Trend::fit("falling", &points(-1.0), Allowed::Share(0.02));
    assert!(!falling.is_slope(), "{falling:?}");
    // A climb at the beginning of the time that then ends is a step, and a wide interval says so.
    let once = Trend::fit("threads", &[(0.0, 9.0), (0.5, 9.0), (1.0, 9.0)], Allowed::Count(1.0));
    assert!(!once.is_slope() && once.margin == 0.0, "{once:?}");
}
