//! The words every other crate speaks: request and response heads, field lines, faults.
//!
//! A head is kept as the bytes of its field lines plus spans into them: nothing is copied per field,
//! unchanged lines are forwarded as they stand, and a recycled head allocates nothing.

mod address_text;
mod addresses;
mod fault;
mod field;
mod fields;
mod grpc;
mod http_date;
mod lookalike;
mod method;
pub mod pair;
mod path;
mod precondition;
mod ranges;
mod request;
mod response;
mod span;

pub use address_text::AddressText;
pub use addresses::AddressRanges;
pub use fault::{Fault, FaultKind, Retry, Side, Syntax};
pub use field::FieldId;
pub use fields::{
    AmbiguousHeaders, AmbiguousName, Field, FieldLine, FieldName, Fields, SpaceExhausted,
};
pub use grpc::{Dialect, GrpcStatus, GrpcStatuses, parse_grpc_timeout, write_grpc_timeout};
pub use http_date::parse_http_date;
pub use lookalike::{is_plain_name, may_be_read_as, may_begin_with};
pub use method::Method;
pub use path::{
    ParameterAction, PathAction, PathCase, PathForm, PathOverrides, PathProblem, PathRules,
    PathSpellings, strip_path_prefix,
};
pub use precondition::{
    Comparison, Precondition, Validators, judge_novelty, judge_preconditions, range_applies,
    same_tag,
};
pub use ranges::{ByteRange, Ranges, parse_ranges};
pub use request::{
    BodyLength, Expectation, Persistence, RequestHead, TargetForm, TargetProblem, Version,
};
pub use response::{Lines, ResponseHead, SettledHead};
pub use span::Span;
