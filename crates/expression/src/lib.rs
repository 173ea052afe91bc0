//! The language of conditions and templates: facts of a request, compared, changed, put into texts.
//!
//! Both are compiled once, when a configuration is loaded: names are looked up, types are checked, and
//! whatever is wrong is an [`ExpressionProblem`] with its place. What is left asks a [`Subject`], which the
//! exchange is, and allocates only where a function makes a new text.
//!
//! What holds for users is written in `docs/expressions.md`; in short:
//!
//! * A fact may be absent. It is false as a truth, and no comparison with it holds but `!=`.
//! * A header, parameter, cookie or name of a certificate may be there more than once: a comparison holds
//!   if it holds for one of them. `!=` is the contrary of `==`.
//! * Where one text is wanted, the lines of a header are joined by `, `; of parameters and cookies the
//!   first counts.

mod call;
mod compare;
mod condition;
mod decimal;
mod fact;
mod field_value;
mod function;
mod lexer;
mod marks;
mod moment;
mod nearest;
mod needs;
mod operand;
mod operator;
mod parser;
mod problem;
mod read;
mod scope;
mod share;
mod subject;
mod template;
#[cfg(test)]
mod tests;
mod truth;
mod value;

pub use condition::Condition;
pub use fact::names as fact_names;
pub use field_value::clean_field_value;
pub use function::names as function_names;
pub use marks::Marks;
pub use needs::{Need, Needs};
pub use operator::WORDS as OPERATOR_WORDS;
pub use problem::ExpressionProblem;
pub use scope::{Phase, Scope};
pub use share::{Salt, share};
pub use subject::{Subject, Word};
pub use template::{Rendered, Template, TooLong, push_framed};

/// Bytes of text that a condition or a template may have.
pub const MAX_TEXT: usize = 8 * 1024;
