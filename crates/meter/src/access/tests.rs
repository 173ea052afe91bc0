//! Lines of the access log against what they must be.
