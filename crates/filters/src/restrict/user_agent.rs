//! Lets requests through by what they call their program.

use sluice_filter::{Filter, Phases, RequestContext, Verdict};
use sluice_message::{FieldId, Fields};

use super::{Admit, Refusing};
use crate::Patterns;

/// Whose programs are let through.
#[derive(Debug)]
pub struct UserAgent {
    /// Only what one of these is found in, unless there is none.
    pub allow: Patterns,
    /// Not what one of these is found in.
    pub deny: Patterns,
    /// What becomes of requests that say nothing.
    pub missing: Admit,
    /// How others are refused.
    pub refusing: Refusing,
}

impl UserAgent {
    fn judge(&self, fields: &Fields) -> Admit {
        let mut said = false;
        // Of several lines an origin may read any.
        for value in fields.values(FieldId::UserAgent) {
            if value.is_empty() {
                continue;
            }
            said = true;
            let allowed = self.allow.is_empty() || self.allow.matches(value);
            if !allowed || self.deny.matches(value) {
                return Admit::No;
            }
        }
        if said { Admit::Yes } else { self.missing }
    }
}

impl Filter for UserAgent {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let admit = self.judge(&context.request.fields);
        self.refusing.verdict(context, admit, "program not allowed")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluice_message::Fields;
    use sluice_meter::FilterMeter;

    use super::{Admit, Refusing, UserAgent};
    use crate::Patterns;

    #[test]
    fn every_line_counts() {
        let patterns = |text: &str| {
            let list: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            Patterns::new(&list).unwrap()
        };
        let table: [(&str, &str, Admit, &[&str], Admit); 9] = [
            ("", "bot", Admit::Yes, &["Mozilla"], Admit::Yes),
            ("", "bot", Admit::Yes, &["GoogleBot"], Admit::No),
            ("", "bot", Admit::Yes, &["Mozilla", "bot"], Admit::No),
            ("", "bot", Admit::Yes, &[], Admit::Yes),
            ("", "bot", Admit::No, &[], Admit::No),
            ("", "", Admit::No, &[""], Admit::No),
            ("mozilla", "", Admit::Yes, &["Mozilla/5"], Admit::Yes),
            ("mozilla", "", Admit::Yes, &["curl"], Admit::No),
            ("mozilla", "bot", Admit::Yes, &["Mozilla bot"], Admit::No),
        ];
        for (allow, deny, missing, lines, wanted) in table {
            let meter = Arc::new(FilterMeter::new(1, super::super::OUTCOMES));
            let refusing = Refusing { status: 403, meter };
            let (allow, deny) = (patterns(allow), patterns(deny));
            let filter = UserAgent { allow, deny, missing, refusing };
            let mut fields = Fields::new();
            for line in lines {
                fields.push(b"User-Agent", line.as_bytes()).unwrap();
            }
            assert_eq!(filter.judge(&fields), wanted, "{filter:?} {lines:?}");
        }
    }
}
