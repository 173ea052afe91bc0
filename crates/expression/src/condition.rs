//! Conditions: what users write after `when`.

use sluice_message::RequestHead;

use crate::needs::Needs;
use crate::parser::Parser;
use crate::problem::ExpressionProblem;
use crate::scope::Scope;
use crate::subject::Subject;
use crate::truth::Truth;

/// A compiled condition.
#[derive(Clone, Debug)]
pub struct Condition {
    truth: Truth,
    needs: Needs,
}

impl Condition {
    /// Compiles a text such as `request.path starts_with '/api' && !request.header['x-skip']`.
    ///
    /// # Errors
    /// What is wrong with the text, and where: its syntax, names that nobody knows, values of different
    /// types compared, facts that are not known where `scope` says that the condition stands.
    pub fn compile(text: &str, scope: &Scope) -> Result<Self, ExpressionProblem> {
        let mut parser = Parser::new(text, 0, scope)?;
        let truth = parser.condition()?;
        Ok(Self { truth, needs: parser.needs() })
    }

    /// Whether it holds for this subject. What the subject does not know is absent.
    #[must_use]
    pub fn holds<S: Subject + ?Sized>(&self, subject: &S) -> bool {
        self.truth.holds(subject)
    }

    /// The same, if one look at the head of the request says so: in line, for what is asked most.
    #[must_use]
    #[inline(always)]
    pub fn holds_at_once(&self, request: &RequestHead) -> Option<bool> {
        match &self.truth {
            Truth::Method(method) => Some(request.method == *method),
            Truth::HasHeader(name) => Some(name.is_in(&request.fields)),
            _ => None,
        }
    }

    /// What it reads.
    #[must_use]
    pub const fn needs(&self) -> Needs {
        self.needs
    }
}
