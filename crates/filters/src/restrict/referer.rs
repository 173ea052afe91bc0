//! Lets requests through by the page they come from.

use sluice_filter::{Filter, Phases, RequestContext, Verdict};
use sluice_message::{FieldId, RequestHead};

use super::{Admit, Refusing};
use crate::{Hosts, host_of};

/// Which pages may refer here.
#[derive(Debug)]
pub struct RefererRules {
    /// Only pages of these hosts, unless there is none.
    pub allow: Hosts,
    /// Not pages of these hosts.
    pub deny: Hosts,
    /// Whether pages of the host that is asked may always.
    pub same_host: SameHost,
    /// What becomes of requests that name no page.
    pub missing: Admit,
}

/// Whether pages of the host that is asked may refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameHost {
    /// They may.
    Allowed,
    /// They have to be named like others.
    Unknown,
}

/// Lets requests through by the page they come from.
#[derive(Debug)]
pub struct Referer {
    /// Which pages may refer here.
    pub rules: RefererRules,
    /// How others are refused.
    pub refusing: Refusing,
}

impl RefererRules {
    fn judge(&self, request: &RequestHead) -> Admit {
        let mut said = false;
        for value in request.fields.values(FieldId::Referer) {
            if value.is_empty() {
                continue;
            }
            said = true;
            if !self.may(host_of(value), request.host()) {
                return Admit::No;
            }
        }
        if said { Admit::Yes } else { self.missing }
    }

    fn may(&self, host: Option<&[u8]>, asked: &[u8]) -> bool {
        // What names no host is of no host: it is not among those allowed, and not among those denied.
        let Some(host) = host else { return self.allow.is_empty() };
        if self.deny.matches(host) {
            return false;
        }
        let own = self.same_host == SameHost::Allowed && host.eq_ignore_ascii_case(asked);
        own || self.allow.is_empty() || self.allow.matches(host)
    }
}

impl Filter for Referer {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let admit = self.rules.judge(context.request);
        self.refusing.verdict(context, admit, "page not allowed")
    }
}

#[cfg(test)]
mod tests {
    use sluice_message::RequestHead;

    use super::{Admit, RefererRules, SameHost};
    use crate::Hosts;

    #[test]
    fn pages_are_told_apart_by_their_host() {
        let rules = |allow: &[&str], deny: &[&str]| RefererRules {
            allow: Hosts::new(allow.iter().copied()).unwrap(),
            deny: Hosts::new(deny.iter().copied()).unwrap(),
            same_host: SameHost::Allowed,
            missing: Admit::Yes,
        };
        let partners = || rules(&["*.partner.example"], &["bad.partner.example"]);
        let table: [(RefererRules, &[&str], Admit); 10] = [
            (partners(), &[], Admit::Yes),
            (RefererRules { missing: Admit::No, ..partners() }, &[""], Admit::No),
            (partners(), &["https://a.partner.example/x"], Admit::Yes),
            (partners(), &["https://bad.partner.example/"], Admit::No),
            (partners(), &["https://evil.example/a.partner.example"], Admit::No),
            (partners(), &["https://SHOP.example:8443/"], Admit::Yes),
            (
                RefererRules { same_host: SameHost::Unknown, ..partners() },
                &["https://shop.example/"],
                Admit::No,
            ),
            (partners(), &["https://a.partner.example/", "https://evil.example/"], Admit::No),
            (partners(), &["about:blank"], Admit::No),
            (rules(&[], &["evil.example"]), &["about:blank"], Admit::Yes),
        ];
        for (rules, lines, wanted) in table {
            let mut head = RequestHead::new();
            head.authority = head.fields.append(b"shop.example:443").unwrap();
            for line in lines {
                head.fields.push(b"referer", line.as_bytes()).unwrap();
            }
            assert_eq!(rules.judge(&head), wanted, "{rules:?} {lines:?}");
        }
    }
}
