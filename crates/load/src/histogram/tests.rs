//! The histogram against distributions whose figures are known.

use super::*;

fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
    let mut histogram = Histogram::new();
    values.into_iter().for_each(|value| histogram.record(value));
    histogram
}

/// Whether `found` is what three significant digits may make of `wanted`.
fn close(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() <= wanted * 0.0011
}

fn float(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap())
}

#[test]
fn an_even_distribution_has_its_percentiles() {
    // 1 to 1 000 000, each once: the p-th percentile is p * 10 000.
    let histogram = of(1..=1_000_000);
    for percentile in [1.0, 10.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0] {
        let found = float(histogram.percentile(percentile));
        assert!(close(found, percentile * 10_000.0), "p{percentile} = {found}");
    }
    let latency = histogram.latency();
    assert_eq!(latency.count, 1_000_000);
    assert!(close(latency.mean_micros, 500_000.5), "{}", latency.mean_micros);
    // (b - a) / sqrt(12)
    assert!(close(latency.deviation_micros, 288_675.0), "{}", latency.deviation_micros);
    assert_eq!(latency.min_micros, 1);
    assert!(close(float(latency.max_micros), 1_000_000.0));
}

#[test]
fn an_exponential_distribution_has_its_percentiles() {
    // Quantile q of the exponential distribution with mean m is -m ln(1 - q).
    let mean = 20_000.0;
    let count = 200_000_u32;
    let micros = |index: u32| -mean * (1.0 - (f64::from(index) + 0.5) / f64::from(count)).ln();
    let whole = |value: f64| std::time::Duration::from_secs_f64(value / 1e6).as_micros();
    let histogram = of((0..count).map(|index| u64::try_from(whole(micros(index))).unwrap()));
    for percentile in [50.0, 90.0, 99.0, 99.9] {
        let wanted = -mean * (1.0_f64 - percentile / 100.0).ln();
        let found = float(histogram.percentile(percentile));
        assert!((found - wanted).abs() < wanted * 0.005, "p{percentile}: {found}, not {wanted}");
    }
    let latency = histogram.latency();
    assert!((latency.mean_micros - mean).abs() < mean * 0.005);
    assert!((latency.deviation_micros - mean).abs() < mean * 0.01);
}

#[test]
fn two_peaks_stay_two() {
    let histogram = of((0..10_000).map(|index| if index % 100 == 99 { 2_000_000 } else { 150 }));
    assert_eq!(histogram.percentile(98.9), 150);
    assert!(close(float(histogram.percentile(99.1)), 2_000_000.0));
    assert_eq!(histogram.latency().percentile(50.0), 150);
}

#[test]
fn nothing_measured_is_nothing() {
    let latency = Histogram::new().latency();
    assert_eq!((latency.count, latency.min_micros, latency.max_micros), (0, 0, 0));
    assert_eq!((latency.mean_micros, latency.deviation_micros), (0.0, 0.0));
    assert!(latency.percentiles.iter().all(|(_, micros)| *micros == 0));
    assert!(Histogram::new().spectrum().is_empty());
}

#[test]
fn what_is_too_long_counts_as_the_longest() {
    let histogram = of([0, u64::MAX, LONGEST_MICROS]);
    assert_eq!(histogram.count(), 3);
    assert!(histogram.latency().max_micros >= LONGEST_MICROS / 1000 * 999);
}

#[test]
fn text_keeps_everything_and_parts_add_up() {
    let (low, high) = (of(1..=5000), of(4000..=90_000));
    let mut sum = low.clone();
    sum.add(&high);
    assert_eq!(decode(&encode(&sum)).unwrap().latency(), sum.latency());
    assert_eq!(sum.count(), low.count() + high.count());
    assert_eq!(decode("rubbish"), Err(NoHistogram));
    assert_eq!(decode("cnViYmlzaA=="), Err(NoHistogram));
    assert_eq!(decode(""), Err(NoHistogram));
    sum.clear();
    assert_eq!(sum.count(), 0);
}

#[test]
fn the_spectrum_rises_to_everything() {
    let rows = of(1..=10_000).spectrum();
    assert!(rows.windows(2).all(|pair| pair[0].percentile <= pair[1].percentile));
    assert!(rows.windows(2).all(|pair| pair[0].millis <= pair[1].millis));
    for row in &rows {
        assert!(close(row.millis * 1000.0, float(row.count)), "{row:?}");
    }
    let last = rows.last().unwrap();
    assert_eq!((last.count, last.percentile), (10_000, 1.0));
}

#[test]
fn the_table_looks_like_that_of_wrk2() {
    let text = spectrum_text(&of(1..=10_000));
    let mut lines = text.lines();
    assert_eq!(lines.next().unwrap(), "       Value   Percentile   TotalCount 1/(1-Percentile)");
    assert_eq!(lines.next().unwrap(), "");
    assert_eq!(lines.next().unwrap(), "       0.001     0.000000            1         1.00");
    assert_eq!(lines.next().unwrap(), "       1.000     0.100000         1000         1.11");
    let rows: Vec<&str> = lines.clone().take_while(|line| !line.starts_with('#')).collect();
    assert!(rows.iter().all(|row| row.split_ascii_whitespace().count() == 4), "{text}");
    assert!(rows.last().unwrap().trim_end().ends_with("inf"), "{text}");
    let tail: Vec<&str> = lines.filter(|line| line.starts_with('#')).collect();
    assert_eq!(tail.len(), 3);
    assert!(tail[0].starts_with("#[Mean    =        5.00"), "{}", tail[0]);
    assert!(tail[1].contains("Total count    =        10000]"), "{}", tail[1]);
}
