//! When requests are tried again, in the words of those who do it.

use sluice_message::GrpcStatus;
use sluice_model::{Repeatable as ModelRepeatable, Retry, RetryCondition};
use sluice_upstream::{BudgetRule, Condition, Conditions, HedgeRule, Repeatable, RetryPolicy};

pub(super) fn retry_policy(retry: &Retry) -> RetryPolicy {
    let on = retry.on.iter().fold(Conditions::default(), |on, condition| match *condition {
        RetryCondition::Connect => on.with([Condition::Connect]),
        RetryCondition::Reset => on.with([Condition::Reset]),
        RetryCondition::Timeout => on.with([Condition::Timeout]),
        RetryCondition::Call(name) => on.with(GrpcStatus::of_name(name).map(Condition::Call)),
        RetryCondition::Statuses(first, last) => on.with((first..=last).map(Condition::Status)),
    });
    // Without another try an answer is passed on whatever its status.
    let on = if retry.attempts == 0 { Conditions::default() } else { on };
    RetryPolicy {
        attempts: retry.attempts,
        on,
        methods: match retry.repeatable {
            ModelRepeatable::Idempotent => Repeatable::Idempotent,
            ModelRepeatable::All => Repeatable::All,
        },
        try_timeout: retry.per_try_timeout,
        budget: retry
            .budget
            .as_ref()
            .map(|budget| BudgetRule { share: budget.share.0, minimum: budget.minimum }),
        buffer: usize::try_from(retry.buffer).unwrap_or(usize::MAX),
        hedge: retry.hedge.as_ref().map(|hedge| HedgeRule { after: hedge.after, most: hedge.most }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_model::CALL_FAILURES;

    #[test]
    fn every_failure_of_a_call_is_known_by_its_name() {
        let known: Vec<&str> = GrpcStatus::all().skip(1).map(GrpcStatus::name).collect();
        assert_eq!(CALL_FAILURES.as_slice(), known);
    }
}
