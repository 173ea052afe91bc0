//! Lines of the access log: what one holds and how it is written.

mod escape;
mod format;
mod record;
mod template;
#[cfg(test)]
mod tests;
mod variable;

pub use format::AccessFormat;
pub use record::{AccessRecord, ClientRecord, TlsRecord};
pub use template::{TemplateError, TemplateProblem};
pub use variable::VARIABLES;
