//! Origins, byte scripts and clients for the tests.
