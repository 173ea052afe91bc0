//! A request to speak another protocol, which has one meaning whatever it came by.

use sluice_message::{BodyLength, Fault, FaultKind, Method, RequestHead, Syntax};

use crate::Action;

/// Makes an extended CONNECT (RFC 8441, 4) what it is in HTTP/1.1: a GET without content, whose
/// `protocol` says what is to follow. Routes, conditions and logs see no difference.
///
/// # Errors
/// CONNECT of any other kind: a tunnel to anywhere is not ours to give (RFC 9110, 9.3.6), and no other
/// protocol is spoken here.
#[cold]
pub(crate) fn take_connect(head: &mut RequestHead) -> Result<(), Fault> {
    if !head.protocol().eq_ignore_ascii_case(b"websocket") {
        return Err(Fault::downstream(FaultKind::MethodNotImplemented));
    }
    if let BodyLength::Known(_) = head.body {
        return Err(Fault::downstream(FaultKind::Malformed(Syntax::ContentLength)));
    }
    let text = head.fields.append(b"GET");
    head.method_text = text.map_err(|_| Fault::internal(FaultKind::Exhausted))?;
    head.method = Method::Get;
    head.body = BodyLength::Empty;
    Ok(())
}

/// Refuses what would answer it with success and yet does not speak the protocol: to the client of an
/// extended CONNECT every 2xx opens the tunnel (RFC 8441, 5).
///
/// # Errors
/// Nobody speaks it at this route.
#[cold]
pub(crate) fn check_action(action: &Action) -> Result<(), Fault> {
    match action {
        Action::Proxy(_) | Action::Redirect(_) => Ok(()),
        Action::Respond(answer) if answer.head.status >= 300 => Ok(()),
        Action::Respond(_) | Action::Report(_) | Action::Handle(_) => {
            Err(Fault::downstream(FaultKind::UpgradeRefused))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Answer;

    fn connect(protocol: &str, body: BodyLength) -> RequestHead {
        let mut head = RequestHead::new();
        head.method = Method::Connect;
        head.method_text = head.fields.append(b"CONNECT").unwrap();
        head.protocol = head.fields.append(protocol.as_bytes()).unwrap();
        head.body = body;
        head
    }

    #[test]
    fn an_extended_connect_is_a_get() {
        for protocol in ["websocket", "WebSocket"] {
            for body in [BodyLength::Framed, BodyLength::Empty] {
                let mut head = connect(protocol, body);
                assert_eq!(take_connect(&mut head), Ok(()));
                assert_eq!((head.method, head.method_text()), (Method::Get, &b"GET"[..]));
                assert_eq!((head.body, head.protocol()), (BodyLength::Empty, protocol.as_bytes()));
            }
        }
        for protocol in ["", "websockets", "connect-udp"] {
            let refused = take_connect(&mut connect(protocol, BodyLength::Framed));
            assert_eq!(refused, Err(Fault::downstream(FaultKind::MethodNotImplemented)));
        }
        let refused = take_connect(&mut connect("websocket", BodyLength::Known(5)));
        assert_eq!(refused.unwrap_err().kind, FaultKind::Malformed(Syntax::ContentLength));
    }

    #[test]
    fn no_answer_of_ours_opens_a_tunnel() {
        let answer = |status| Action::Respond(Answer::new(status, [], Vec::new()).unwrap());
        assert!(check_action(&answer(200)).is_err() && check_action(&answer(204)).is_err());
        assert!(check_action(&answer(404)).is_ok() && check_action(&Action::Proxy(0)).is_ok());
    }
}
