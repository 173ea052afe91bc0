//! Field lines as tests write them.

use sluice_message::Fields;

/// These lines, in this order.
pub(crate) fn fields(lines: &[(&str, &str)]) -> Fields {
    let mut fields = Fields::new();
    for (name, value) in lines {
        fields.push(name.as_bytes(), value.as_bytes()).unwrap();
    }
    fields
}
