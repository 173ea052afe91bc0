//! The admin listener's answers: health, readiness, metrics, configuration, upstreams.
