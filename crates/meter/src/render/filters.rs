//! What is counted for filters and limits.

use std::collections::BTreeMap;

use super::page::Page;
use crate::meters::locked;
use crate::metric::{self, Metric};
use crate::{CacheReading, ConcurrencyReading, DiskReading, Meters, VariantMeter, VariantTotals};

impl Meters {
    pub(super) fn render_filters(&self, page: &mut Page<'_>) {
        let filters = locked(&self.filters);
        page.family(&metric::FILTER_OUTCOMES);
        for (name, meter) in filters.iter() {
            for (outcome, count) in meter.outcomes().filter(|(_, count)| *count > 0) {
                let labels = [("filter", name.as_str()), ("outcome", outcome)];
                page.sample(metric::FILTER_OUTCOMES.name, &labels, count);
            }
        }
        page.family(&metric::FILTER_WAIT);
        for (name, meter) in filters.iter() {
            let (counts, waits) = meter.waits();
            page.histogram(metric::FILTER_WAIT.name, &[("filter", name)], counts, waits);
        }
        let caches = filters.iter().filter_map(|(name, meter)| {
            meter.known_caches().map(|reading| (name.as_str(), reading))
        });
        render_caches(page, &caches.collect::<Vec<_>>());
        let all = filters.values().flat_map(|meter| meter.caches());
        let disks = all.filter_map(|cache| cache.disk());
        render_disks(page, &disks.map(|disk| (disk.folder.clone(), disk)).collect());
        let variants = filters.iter().filter_map(|(name, meter)| {
            meter.known_variants().map(|variants| (name.as_str(), variants))
        });
        render_variants(page, &variants.collect::<Vec<_>>());
    }

    pub(super) fn render_limits(&self, page: &mut Page<'_>) {
        let limits = locked(&self.limits);
        let readings: Vec<(&str, ConcurrencyReading)> =
            limits.iter().map(|(name, limit)| (name.as_str(), limit.reading())).collect();
        let gauge = |page: &mut Page<'_>, metric: &Metric, read: fn(&ConcurrencyReading) -> u32| {
            page.family(metric);
            for (name, reading) in &readings {
                page.sample(metric.name, &[("route", name)], read(reading));
            }
        };
        gauge(page, &metric::CONCURRENCY_LIMIT, |reading| reading.limit);
        gauge(page, &metric::CONCURRENCY_ACTIVE, |reading| reading.active);
        gauge(page, &metric::CONCURRENCY_WAITING, |reading| reading.waiting);
        page.family(&metric::CONCURRENCY_REFUSED);
        for (name, reading) in &readings {
            let reasons = [("full", reading.refused_full), ("timed_out", reading.refused_late)];
            for (reason, count) in reasons {
                let labels = [("route", *name), ("reason", reason)];
                page.sample(metric::CONCURRENCY_REFUSED.name, &labels, count);
            }
        }
    }
}

fn render_caches(page: &mut Page<'_>, caches: &[(&str, CacheReading)]) {
    let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let gauge = |page: &mut Page<'_>, metric: &Metric, read: &dyn Fn(&CacheReading) -> u64| {
        page.family(metric);
        for (name, reading) in caches {
            page.sample(metric.name, &[("filter", name)], read(reading));
        }
    };
    gauge(page, &metric::CACHE_ENTRIES, &|reading| wide(reading.entries));
    gauge(page, &metric::CACHE_BYTES, &|reading| wide(reading.bytes));
    gauge(page, &metric::CACHE_BUDGET, &|reading| wide(reading.budget));
    gauge(page, &metric::CACHE_EVICTIONS, &|reading| reading.evictions);
}

/// The folders of caches, each once.
fn render_disks(page: &mut Page<'_>, disks: &BTreeMap<String, DiskReading>) {
    let mut gauge = |metric: &Metric, read: fn(&DiskReading) -> u64| {
        page.family(metric);
        for (folder, reading) in disks {
            page.sample(metric.name, &[("folder", folder)], read(reading));
        }
    };
    let entries = |reading: &DiskReading| u64::try_from(reading.entries).unwrap_or(u64::MAX);
    gauge(&metric::CACHE_DISK_ENTRIES, entries);
    gauge(&metric::CACHE_DISK_BYTES, |reading| reading.bytes);
    gauge(&metric::CACHE_DISK_BUDGET, |reading| reading.budget);
    gauge(&metric::CACHE_DISK_EVICTIONS, |reading| reading.evictions);
    page.family(&metric::CACHE_DISK_FAULTS);
    for (folder, reading) in disks {
        for (reason, count) in &reading.faults {
            let labels = [("folder", folder.as_str()), ("reason", reason)];
            page.sample(metric::CACHE_DISK_FAULTS.name, &labels, *count);
        }
    }
}

/// What is counted for the variants of these filters.
fn render_variants(page: &mut Page<'_>, filters: &[(&str, &VariantMeter)]) {
    let mut count = |metric: &Metric, read: fn(&VariantTotals) -> u64| {
        page.family(metric);
        for (filter, meter) in filters {
            for (place, (name, _)) in meter.shares().enumerate() {
                let labels = [("filter", *filter), ("variant", name)];
                page.sample(metric.name, &labels, read(&meter.totals(place)));
            }
        }
    };
    count(&metric::VARIANT_REQUESTS, |totals| totals.requests);
    count(&metric::VARIANT_ERRORS, |totals| totals.errors);
    page.family(&metric::VARIANT_LATENCY);
    for (filter, meter) in filters {
        for (place, (name, _)) in meter.shares().enumerate() {
            let labels = [("filter", *filter), ("variant", name)];
            let name = metric::VARIANT_LATENCY.name;
            page.histogram(name, &labels, meter.counts(), |all| all.answers(place));
        }
    }
    page.family(&metric::VARIANT_SHARE);
    for (filter, meter) in filters {
        for (name, share) in meter.shares() {
            let labels = [("filter", *filter), ("variant", name)];
            page.sample(metric::VARIANT_SHARE.name, &labels, share);
        }
    }
}
