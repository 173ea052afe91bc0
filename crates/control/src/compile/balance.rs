//! How a server is chosen, in the words of those who choose.

use sluice_model::{Balance, HashOn};
use sluice_upstream::{BalanceRule, HashKey};

pub(super) fn balance_rule(balance: &Balance) -> BalanceRule {
    let name = |name: &String| name.as_bytes().into();
    match balance {
        Balance::RoundRobin => BalanceRule::RoundRobin,
        Balance::LeastRequests => BalanceRule::LeastRequests,
        Balance::TwoChoices => BalanceRule::TwoChoices,
        Balance::Random => BalanceRule::Random,
        Balance::Hash(HashOn::Client) => BalanceRule::Hash(HashKey::Client),
        Balance::Hash(HashOn::Path) => BalanceRule::Hash(HashKey::Path),
        Balance::Hash(HashOn::Header(header)) => BalanceRule::Hash(HashKey::Header(name(header))),
        Balance::Hash(HashOn::Cookie(cookie)) => BalanceRule::Hash(HashKey::Cookie(name(cookie))),
        Balance::Hash(HashOn::Query(query)) => BalanceRule::Hash(HashKey::Query(name(query))),
    }
}
