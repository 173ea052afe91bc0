//! What a user may write: types, defaults, checks, schema.
