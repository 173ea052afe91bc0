//! From the model to the running snapshot: build, watch, swap, drain.
