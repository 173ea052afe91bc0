//! Conditions: what users write after `when`.

use crate::marks::Marks;
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
    /// Those of every request for which it holds.
    marks: Marks,
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
        Ok(Self { needs: parser.needs(), marks: Marks::wanted_by(&truth), truth })
    }

    /// Whether it holds for this subject. What the subject does not know is absent.
    #[must_use]
    pub fn holds<S: Subject + ?Sized>(&self, subject: &S) -> bool {
        self.truth.holds(subject)
    }

    /// What every request shows at once for which it holds.
    #[must_use]
    #[inline]
    pub const fn marks(&self) -> Marks {
        self.marks
    }

    /// What it reads.
    #[must_use]
    pub const fn needs(&self) -> Needs {
        self.needs
    }
}
