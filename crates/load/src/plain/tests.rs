//! The plain report.
