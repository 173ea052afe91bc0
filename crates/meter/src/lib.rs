//! Counters, histograms and access-log records, kept per worker and summed when asked.
