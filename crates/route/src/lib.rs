//! The compiled match table from a request head to a route.
