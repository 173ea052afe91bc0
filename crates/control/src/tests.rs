//! Tests of the way from a text to a snapshot.
