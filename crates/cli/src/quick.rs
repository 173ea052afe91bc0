//! The quick forms: a configuration made from a few words of the command line.

use sluice_control::Document;
use sluice_model::Format;

use crate::arguments::Run;

/// Where quick forms listen if nobody says otherwise: this machine alone.
const LISTEN: &str = "127.0.0.1:8080";

/// The same for HTTPS.
const LISTEN_TLS: &str = "127.0.0.1:8443";

/// What a browser sees that finds a gateway without a configuration.
const WELCOME: &str = include_str!("welcome.html");

/// The configuration the arguments ask for. It is a text like any other and goes the same way.
///
/// # Errors
/// What is wrong with the arguments, in plain words.
pub(crate) fn document(arguments: &Run) -> Result<Document, String> {
    let (usual, tls) = match arguments.tls {
        true => (LISTEN_TLS, "tls = { self_signed = true }\n"),
        false => (LISTEN, ""),
    };
    let listen = arguments.listen.as_deref().unwrap_or(usual);
    let routes = match (&arguments.proxy, &arguments.respond) {
        (Some(origin), _) => {
            let (origin, upstream) = (text(&full_origin(origin)), "[upstream.origin]");
            format!(
                "{upstream}\nservers = {origin}\n\n[[route]]\npath = \"/*\"\nproxy = \"origin\"\n"
            )
        }
        (None, Some(body)) => format!("[[route]]\npath = \"/*\"\nrespond = {}\n", text(body)),
        (None, None) => welcome(),
    };
    let listener = format!("[[listener]]\nname = \"web\"\naddress = {}\n{tls}", text(listen));
    let document = Document {
        name: "command line".to_owned(),
        text: format!("{listener}\n{routes}"),
        format: Format::Toml,
    };
    match document.parse() {
        Ok(_) => Ok(document),
        Err(error) => Err(complaint(&error)),
    }
}

/// A port alone is one of this machine: what is being developed runs there.
fn full_origin(origin: &str) -> String {
    match origin.strip_prefix(':').unwrap_or(origin).parse::<u16>() {
        Ok(port) => format!("127.0.0.1:{port}"),
        Err(_) => origin.to_owned(),
    }
}

fn welcome() -> String {
    let page = format!(
        "[[route]]\npath = \"/\"\n[route.respond]\nheaders = {{ content-type = \"text/html; \
         charset=utf-8\" }}\nbody = {}\n",
        text(WELCOME)
    );
    format!("{page}\n[[route]]\npath = \"/health\"\nhealth = true\n")
}

/// A TOML string that means exactly this text, whatever is in it.
fn text(raw: &str) -> String {
    let mut quoted = String::from("\"");
    // `${` would be a variable of the environment.
    for character in raw.replace("${", "$${").chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if control.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(control)));
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

/// The problems without their place: nobody has seen the text they stand in.
fn complaint(error: &sluice_control::ConfigError) -> String {
    let sluice_control::ConfigError::Invalid(problems) = error else {
        return format!("error: {error}\n");
    };
    let mut said = String::new();
    for problem in &problems.list {
        said.push_str(&format!("error: {}\n", problem.message));
        if let Some(help) = &problem.help {
            said.push_str(&format!("help: {help}\n"));
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_model::{Action, Address, BodySource, Model, ServerAddress};

    fn model(arguments: &Run) -> Model {
        document(arguments).unwrap().parse().unwrap()
    }

    #[test]
    fn nothing_said_is_the_welcome_page() {
        let model = model(&Run::default());
        assert_eq!(model.listeners[0].address, Address::Tcp(LISTEN.parse().unwrap()));
        assert_eq!(model.routes.len(), 2);
        let Action::Respond(respond) = &model.routes[0].action else { panic!("a page") };
        assert_eq!(respond.body, BodySource::Text(WELCOME.to_owned()));
        assert_eq!(respond.headers[0].1, "text/html; charset=utf-8");
        assert_eq!(model.routes[1].action, Action::Health);
        assert!(model.warnings.is_empty());
    }

    #[test]
    fn https_takes_a_certificate_of_its_own_and_another_port() {
        let model = model(&Run { tls: true, ..Run::default() });
        assert_eq!(model.listeners[0].address, Address::Tcp(LISTEN_TLS.parse().unwrap()));
        let tls = model.listeners[0].tls.as_ref().unwrap();
        assert_eq!(tls.self_signed, sluice_model::SelfSigned::Yes);
        assert!(model.warnings.is_empty());
    }

    #[test]
    fn origins_are_written_as_people_write_them() {
        let ip = |text: &str| ServerAddress::Ip(text.parse().unwrap());
        let rows = [
            ("127.0.0.1:9001", ip("127.0.0.1:9001")),
            ("http://127.0.0.1:9001/", ip("127.0.0.1:9001")),
            ("9001", ip("127.0.0.1:9001")),
            (":9001", ip("127.0.0.1:9001")),
            ("localhost:9001", ServerAddress::Name { host: "localhost".to_owned(), port: 9001 }),
            ("unix:/run/x.sock", ServerAddress::Unix("/run/x.sock".into())),
        ];
        for (origin, expected) in rows {
            let listen = Some(":80".to_owned());
            let run = Run { proxy: Some(origin.to_owned()), listen, ..Run::default() };
            let model = model(&run);
            assert_eq!(model.upstreams[0].servers[0].address, expected, "{origin}");
            assert!(model.warnings.is_empty());
            assert_eq!(model.listeners[0].address, Address::Tcp("0.0.0.0:80".parse().unwrap()));
        }
    }

    #[test]
    fn any_text_can_be_the_answer() {
        for body in ["Hello", "\"quoted\" \\ back", "a\nb\tc\u{1}", "${HOME} $${x} $", "", "ä€😀"]
        {
            let model = model(&Run { respond: Some(body.to_owned()), ..Run::default() });
            let Action::Respond(respond) = &model.routes[0].action else { panic!("a text") };
            assert_eq!(respond.body, BodySource::Text(body.to_owned()));
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_a_place_nobody_has_seen() {
        let rows = [
            (Run { proxy: Some("example.com".to_owned()), ..Run::default() }, "has no port"),
            (Run { proxy: Some("ftp://a:1".to_owned()), ..Run::default() }, "ftp://"),
            (Run { listen: Some("nonsense".to_owned()), ..Run::default() }, "not an address"),
        ];
        for (run, part) in rows {
            let said = document(&run).unwrap_err();
            assert!(said.contains(part) && said.contains("help: "), "{said}");
            assert!(!said.contains("command line"), "{said}");
        }
    }
}
