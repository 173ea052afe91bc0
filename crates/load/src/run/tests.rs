//! Runs against real servers.
