//! What an origin is told about the client, and whose word about it is believed.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::LazyLock;

use sluice_message::pair::split_unquoted;
use sluice_message::{FieldId, Fields, RequestHead, SpaceExhausted, TargetForm, Version};

use crate::TrustedProxies;

/// The lines that tell an origin of a client nobody vouches for. They depend on the peer, the host
/// it asks for and the version, which seldom change on a connection: they are made once and added in
/// one copy.
#[derive(Debug)]
pub(crate) struct Introduction {
    authority: Box<[u8]>,
    version: Version,
    lines: Fields,
}

impl Introduction {
    /// For this peer and the host it asked for in this head.
    ///
    /// # Errors
    /// [`SpaceExhausted`] if the host does not fit.
    pub(crate) fn new(
        peer: IpAddr,
        scheme: &str,
        head: &RequestHead,
    ) -> Result<Self, SpaceExhausted> {
        let (authority, version) = (head.authority(), head.version);
        let mut lines = Fields::new();
        let told = |_: &Fields, _| Told::Nothing;
        push_introduction(&mut lines, (peer, scheme), (authority, version), told)?;
        Ok(Self { authority: authority.into(), version, lines })
    }

    pub(crate) fn is_for(&self, head: &RequestHead) -> bool {
        self.version == head.version && *self.authority == *head.authority()
    }

    /// Drops what the client itself said, and adds the truth.
    pub(crate) fn replace(&self, fields: &mut Fields) -> Result<(), SpaceExhausted> {
        // One pass over the lines, usually without a find.
        fields.remove_all(|id| {
            matches!(
                id,
                FieldId::Forwarded
                    | FieldId::XForwardedFor
                    | FieldId::XForwardedProto
                    | FieldId::XForwardedHost
            )
        });
        fields.push_all(&self.lines)
    }
}

/// Continues what a trusted proxy said: its own address is added to the lists, the rest stays.
///
/// # Errors
/// [`SpaceExhausted`] if the head cannot grow any more.
pub(crate) fn continue_introduction(
    head: &mut RequestHead,
    peer: IpAddr,
    scheme: &str,
) -> Result<(), SpaceExhausted> {
    let authority = head.authority().to_vec();
    let asked = (&*authority, head.version);
    push_introduction(&mut head.fields, (peer, scheme), asked, |fields, id| {
        if fields.value(id).is_some() { Told::Already } else { Told::Nothing }
    })
}

/// Whether the head says something already that is said once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Already,
}

/// `Via` (RFC 9110, 7.6.3), `X-Forwarded-*` and `Forwarded` (RFC 7239). Several lines of a list are
/// one list (RFC 9110, 5.3): what is there need not be copied.
fn push_introduction(
    fields: &mut Fields,
    (peer, scheme): (IpAddr, &str),
    (host, version): (&[u8], Version),
    told: impl Fn(&Fields, FieldId) -> Told,
) -> Result<(), SpaceExhausted> {
    let peer = peer.to_string();
    fields.push(b"x-forwarded-for", peer.as_bytes())?;
    if told(fields, FieldId::XForwardedProto) == Told::Nothing {
        fields.push(b"x-forwarded-proto", scheme.as_bytes())?;
    }
    if !host.is_empty() && told(fields, FieldId::XForwardedHost) == Told::Nothing {
        fields.push(b"x-forwarded-host", host)?;
    }
    push_forwarded(fields, peer.as_bytes(), scheme, host)?;
    fields.push(b"via", received_by(version))
}

/// A request may pass this process so often. More than once is legitimate: a listener may lead to another one, and
/// an origin may ask the gateway that stands in front of it. An endless loop ends after so many rounds.
pub(crate) const MAX_PASSES: usize = 4;

/// How `Via` names this process: a pseudonym (RFC 9110, 7.6.3) that no other instance has, so that gateways in a
/// chain are not taken for each other, and that says nothing about the machine.
static PSEUDONYM: LazyLock<String> = LazyLock::new(|| {
    // Keys of these are drawn from the system's randomness.
    let random = RandomState::new().hash_one(std::process::id());
    format!("sluice-{:012x}", random & 0xffff_ffff_ffff)
});

/// Elements of `Via` for each version that a request can come by.
static RECEIVED_BY: LazyLock<[String; 3]> =
    LazyLock::new(|| ["1.0", "1.1", "2"].map(|version| format!("{version} {}", *PSEUDONYM)));

/// The version a request came by, and who took it.
pub(crate) fn received_by(version: Version) -> &'static [u8] {
    let [http10, http11, http2] = &*RECEIVED_BY;
    match version {
        Version::Http10 => http10,
        Version::Http11 => http11,
        Version::Http2 => http2,
    }
    .as_bytes()
}

/// How often a request has passed this process already.
pub(crate) fn passes(fields: &Fields) -> usize {
    let own = PSEUDONYM.as_bytes();
    // The pseudonym is random: wherever it stands in the value, it is ours.
    let count = |value: &[u8]| value.windows(own.len()).filter(|part| *part == own).count();
    fields.values(FieldId::Via).map(count).sum()
}

/// States so many passes, if the head states fewer: filters may have removed `Via`.
///
/// # Errors
/// [`SpaceExhausted`] if the head cannot grow any more.
pub(crate) fn state_passes(fields: &mut Fields, wanted: usize) -> Result<(), SpaceExhausted> {
    for _ in passes(fields)..wanted {
        fields.push(b"via", received_by(Version::Http11))?;
    }
    Ok(())
}

/// An element of `Forwarded` (RFC 7239, 4). IPv6 addresses and hosts with a port need quotes
/// (section 6).
fn push_forwarded(
    fields: &mut Fields,
    peer: &[u8],
    scheme: &str,
    host: &[u8],
) -> Result<(), SpaceExhausted> {
    let (open, close): (&[u8], &[u8]) =
        if peer.contains(&b':') { (b"for=\"[", b"]\"") } else { (b"for=", b"") };
    let (begin, end): (&[u8], &[u8]) =
        if host.is_empty() { (b"", b";proto=") } else { (b";host=\"", b"\";proto=") };
    let parts = [open, peer, close, begin, host, end, scheme.as_bytes()];
    fields.push(b"forwarded", &parts.concat())
}

/// Sends `Host` as the origin is to see it: the configured one, or the target's if the client wrote
/// one (RFC 9112, 3.2.2: a proxy must replace `Host` then).
///
/// # Errors
/// [`SpaceExhausted`] if the head cannot grow any more.
pub(crate) fn set_host(
    head: &mut RequestHead,
    configured: Option<&[u8]>,
) -> Result<(), SpaceExhausted> {
    if let Some(host) = configured {
        head.fields.remove(FieldId::Host);
        return head.fields.push(b"host", host);
    }
    if head.form == TargetForm::Absolute {
        head.fields.remove(FieldId::Host);
        let authority = head.authority().to_vec();
        return head.fields.push(b"host", &authority);
    }
    Ok(())
}

/// The client a request comes from: the peer, or whom trusted proxies name, in `X-Forwarded-For` or, if there is none,
/// in `Forwarded`. Their list is read from the right, the first address that is not trusted is the client; what stands
/// left of it anybody could have written.
pub(crate) fn client_address(head: &RequestHead, peer: IpAddr, trusted: &TrustedProxies) -> IpAddr {
    if trusted.is_empty() || !trusted.contains(peer) {
        return peer;
    }
    let lines: Vec<&[u8]> = head.fields.values(FieldId::XForwardedFor).collect();
    if lines.is_empty() {
        return forwarded_address(head, peer, trusted);
    }
    let items = lines.iter().rev().flat_map(|line| line.rsplit(|&byte| byte == b','));
    first_untrusted(items.map(parse_address), peer, trusted)
}

/// The first of the addresses that is not trusted. An entry that is no address ends the list.
fn first_untrusted(
    addresses: impl Iterator<Item = Option<IpAddr>>,
    peer: IpAddr,
    trusted: &TrustedProxies,
) -> IpAddr {
    let mut client = peer;
    for address in addresses {
        let Some(address) = address else { return client };
        client = address;
        if !trusted.contains(client) {
            break;
        }
    }
    client
}

/// The client that `Forwarded` (RFC 7239, 4) names.
#[cold]
fn forwarded_address(head: &RequestHead, peer: IpAddr, trusted: &TrustedProxies) -> IpAddr {
    let lines: Vec<&[u8]> = head.fields.values(FieldId::Forwarded).collect();
    let elements = lines.iter().rev().flat_map(|line| {
        let elements: Vec<&[u8]> = split_unquoted(line, b',').collect();
        elements.into_iter().rev()
    });
    first_untrusted(elements.map(forwarded_for), peer, trusted)
}

/// The address in the `for` parameter of an element; none if it is hidden or unknown (RFC 7239, 6).
fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let mut addresses = split_unquoted(element, b';').filter_map(|pair| {
        let (name, value) = pair.split_at_checked(pair.iter().position(|&byte| byte == b'=')?)?;
        name.trim_ascii().eq_ignore_ascii_case(b"for").then(|| value.get(1..).unwrap_or_default())
    });
    let value = addresses.next()?.trim_ascii();
    // Two of them: nobody can say which one is meant.
    if addresses.next().is_some() {
        return None;
    }
    let bare = value.strip_prefix(b"\"").map(|rest| rest.strip_suffix(b"\""));
    parse_address(bare.unwrap_or(Some(value))?)
}

/// An address with or without port: `1.2.3.4`, `1.2.3.4:5`, `::1`, `[::1]:5`.
fn parse_address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    let bare = text.parse().or_else(|_| text.trim_matches(['[', ']']).parse());
    let with_port = || text.parse::<std::net::SocketAddr>().map(|address| address.ip());
    bare.or_else(|_| with_port()).ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(lines: &[(&str, &str)]) -> RequestHead {
        let mut head = RequestHead::new();
        head.authority = head.fields.append(b"a.example").unwrap();
        for (name, value) in lines {
            head.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        head
    }

    fn values(head: &RequestHead, name: &str) -> Vec<String> {
        let values = head.fields.values_of(name.as_bytes());
        values.map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    }

    const FORGED: &[(&str, &str)] = &[
        ("X-Forwarded-For", "6.6.6.6"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "evil.example"),
        ("Forwarded", "for=6.6.6.6"),
        ("Via", "1.0 old"),
    ];

    #[test]
    fn a_strangers_word_is_dropped() {
        let mut head = head(FORGED);
        let peer = "10.0.0.9".parse().unwrap();
        let introduction = Introduction::new(peer, "http", &head).unwrap();
        assert!(introduction.is_for(&head));
        head.version = Version::Http2;
        assert!(!introduction.is_for(&head), "it would name another version");
        introduction.replace(&mut head.fields).unwrap();
        assert_eq!(values(&head, "x-forwarded-for"), ["10.0.0.9"]);
        assert_eq!(values(&head, "x-forwarded-proto"), ["http"]);
        assert_eq!(values(&head, "x-forwarded-host"), ["a.example"]);
        assert_eq!(values(&head, "forwarded"), ["for=10.0.0.9;host=\"a.example\";proto=http"]);
        assert_eq!(values(&head, "via"), ["1.0 old", &format!("1.1 {}", *PSEUDONYM)]);
    }

    #[test]
    fn passes_are_those_of_this_process() {
        let own = &**PSEUDONYM;
        assert!(own.len() == 19 && own.starts_with("sluice-"), "{own}");
        let twice = format!("1.1 {own}, 1.1 fred, 2 {own} (a, b)");
        let rows: [(&[&str], usize); 5] = [
            (&[], 0),
            (&["1.1 sluice", "1.1 sluice-0123456789ab", "1.0 fred"], 0),
            (&[own], 1),
            (&[&twice], 2),
            (&[&twice, "1.1 fred", own], 3),
        ];
        for (lines, expected) in rows {
            let lines: Vec<(&str, &str)> = lines.iter().map(|&line| ("Via", line)).collect();
            let mut head = head(&lines);
            assert_eq!(passes(&head.fields), expected, "{lines:?}");
            state_passes(&mut head.fields, 2).unwrap();
            assert_eq!(passes(&head.fields), expected.max(2), "{lines:?}");
        }
    }

    #[test]
    fn a_trusted_proxys_word_is_continued() {
        let mut head = head(FORGED);
        continue_introduction(&mut head, "fd00::1".parse().unwrap(), "https").unwrap();
        assert_eq!(values(&head, "x-forwarded-for"), ["6.6.6.6", "fd00::1"]);
        assert_eq!(values(&head, "x-forwarded-proto"), ["https"]);
        assert_eq!(values(&head, "x-forwarded-host"), ["evil.example"]);
        let element = "for=\"[fd00::1]\";host=\"a.example\";proto=https";
        assert_eq!(values(&head, "forwarded"), ["for=6.6.6.6", element]);
    }

    #[test]
    fn the_version_a_request_came_by_is_told() {
        for (version, expected) in
            [(Version::Http10, "1.0"), (Version::Http11, "1.1"), (Version::Http2, "2")]
        {
            let mut head = RequestHead { version, ..head(&[]) };
            Introduction::new("10.0.0.9".parse().unwrap(), "http", &head)
                .unwrap()
                .replace(&mut head.fields)
                .unwrap();
            assert_eq!(values(&head, "via"), [format!("{expected} {}", *PSEUDONYM)]);
        }
    }

    #[test]
    fn the_client_is_the_last_address_nobody_vouches_for() {
        let trusted = TrustedProxies::new(vec!["10.0.0.0/8".parse().unwrap()]);
        let cases: &[(&str, &[&str], &str)] = &[
            ("9.9.9.9", &["1.1.1.1"], "9.9.9.9"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["1.1.1.1"], "1.1.1.1"),
            ("10.0.0.1", &["6.6.6.6, 1.1.1.1, 10.0.0.2"], "1.1.1.1"),
            ("10.0.0.1", &["6.6.6.6", "1.1.1.1:443"], "1.1.1.1"),
            ("10.0.0.1", &["[2001:db8::1]:80"], "2001:db8::1"),
            ("10.0.0.1", &["1.1.1.1, nonsense"], "10.0.0.1"),
        ];
        for (peer, lines, client) in cases {
            let lines: Vec<(&str, &str)> =
                lines.iter().map(|&line| ("x-forwarded-for", line)).collect();
            let got = client_address(&head(&lines), peer.parse().unwrap(), &trusted);
            assert_eq!(got, client.parse::<IpAddr>().unwrap(), "{peer} {lines:?}");
        }
    }

    #[test]
    fn forwarded_names_the_client_where_nothing_else_does() {
        let trusted = TrustedProxies::new(vec!["10.0.0.0/8".parse().unwrap()]);
        let cases: &[(&[&str], &str)] = &[
            (&["for=1.1.1.1"], "1.1.1.1"),
            (&["For=\"1.1.1.1:80\";proto=https;by=10.0.0.1"], "1.1.1.1"),
            (&["proto=http; FOR=\"[2001:db8::1]:80\""], "2001:db8::1"),
            (&["for=6.6.6.6, for=1.1.1.1, for=10.0.0.2"], "1.1.1.1"),
            (&["for=6.6.6.6", "for=1.1.1.1;host=\"a,b;for=7.7.7.7\"", "for=10.0.0.2"], "1.1.1.1"),
            (&["for=6.6.6.6, for=unknown"], "10.0.0.1"),
            (&["for=6.6.6.6, for=_hidden, for=10.0.0.2"], "10.0.0.2"),
            (&["for=6.6.6.6, by=10.0.0.3"], "10.0.0.1"),
            (&["for=6.6.6.6;for=1.1.1.1"], "10.0.0.1"),
            (&["for=\"1.1.1.1"], "10.0.0.1"),
            (&["for=\"\\\"1.1.1.1\""], "10.0.0.1"),
            (&[], "10.0.0.1"),
        ];
        for (lines, client) in cases {
            let mut lines: Vec<(&str, &str)> =
                lines.iter().map(|&line| ("forwarded", line)).collect();
            let address = |lines: &[(&str, &str)]| {
                client_address(&head(lines), "10.0.0.1".parse().unwrap(), &trusted).to_string()
            };
            assert_eq!(address(&lines), *client, "{lines:?}");
            lines.push(("x-forwarded-for", "9.9.9.9"));
            assert_eq!(address(&lines), "9.9.9.9", "what says less is read first: {lines:?}");
        }
        let stranger = "8.8.8.8".parse().unwrap();
        assert_eq!(
            client_address(&head(&[("forwarded", "for=1.1.1.1")]), stranger, &trusted),
            stranger
        );
    }

    #[test]
    fn the_hosts_a_client_writes_itself_win_over_its_field() {
        let mut head = head(&[("Host", "other.example")]);
        head.form = TargetForm::Absolute;
        set_host(&mut head, None).unwrap();
        assert_eq!(values(&head, "host"), ["a.example"]);
        set_host(&mut head, Some(b"origin.example")).unwrap();
        assert_eq!(values(&head, "host"), ["origin.example"]);
    }
}
