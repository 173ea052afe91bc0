//! Headers of the service's response that are for one client alone.

/// Whether a header of a response is meant for the client alone whose request it responds to.
pub(super) fn is_personal(name: &[u8]) -> bool {
    const PERSONAL: [&[u8]; 5] = [
        b"set-cookie",
        b"set-cookie2",
        b"clear-site-data",
        b"authentication-info",
        b"proxy-authentication-info",
    ];
    PERSONAL.iter().any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::is_personal;

    #[test]
    fn cookies_are_for_one() {
        for name in ["Set-Cookie", "set-cookie2", "Clear-Site-Data", "Authentication-Info"] {
            assert!(is_personal(name.as_bytes()), "{name}");
        }
        assert!(!is_personal(b"x-user") && !is_personal(b"cookie"));
    }
}
