//! Tasks of the repository: tidy, generate, bench.

fn main() {}
