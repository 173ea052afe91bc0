//! How a server is chosen, in the words of those who choose.

use sluice_model::{Balance, HashOn, Upstream};
use sluice_upstream::{BalanceRule, HashKey, SigningKey, StickyRule};

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

/// How clients are led back to the servers of this upstream.
pub(super) fn sticky_rule(upstream: &Upstream) -> Option<StickyRule> {
    let sticky = upstream.sticky.as_ref()?;
    Some(StickyRule {
        cookie: sticky.cookie.as_bytes().into(),
        key: match &sticky.key {
            Some(secret) => SigningKey::new(secret.as_bytes()),
            None => SigningKey::of_process(),
        },
        scope: upstream.name.as_str().into(),
        attributes: sticky.attributes.as_bytes().into(),
    })
}
