//! Requests by the place of their client.

use std::path::PathBuf;

use super::told::{parse_told_field, read_paths, read_status};
use super::user_agent::{UNSAID, Unsaid, read_unsaid};
use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

/// Where clients may be, and what origins are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geo {
    /// The databases.
    pub files: Vec<PathBuf>,
    /// Only these, unless there is none.
    pub allow: Places,
    /// Not these.
    pub deny: Places,
    /// What becomes of clients of whom nothing is known.
    pub unknown: Unsaid,
    /// The field that tells the country.
    pub country_header: Option<String>,
    /// The field that tells the continent.
    pub continent_header: Option<String>,
    /// The field that tells the number of the autonomous system.
    pub asn_header: Option<String>,
    /// The status others get.
    pub status: u16,
}

impl Geo {
    /// Whether it refuses anybody.
    pub(super) fn has_rules(&self) -> bool {
        self.allow != Places::default() || self.deny != Places::default()
    }
}

/// Parts of the world and of the net.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Codes of countries.
    pub countries: Vec<String>,
    /// Codes of continents.
    pub continents: Vec<String>,
    /// Numbers of autonomous systems.
    pub asns: Vec<u32>,
}

pub(super) static SECTION: Section = Section {
    name: "filter.geo",
    doc: "Finds the place of a client in databases of MaxMind's format, lets requests through by it, and \
          tells origins of it. Without rules it only tells. Other filters find it in the notes \
          `geo.country`, `geo.continent` and `geo.asn`.",
    keys: &[
        Key {
            name: "files",
            kind: Kind::Texts("path"),
            preset: Preset::Required,
            doc: "The databases (`.mmdb`), such as GeoLite2-Country and GeoLite2-ASN. Of several, the first \
                  one that knows something counts. They are read when the configuration is loaded.",
        },
        Key {
            name: "allow_countries",
            kind: Kind::Texts("ISO code of a country"),
            preset: Preset::Absent("all"),
            doc: "Clients in these countries are let through. With any of the keys `allow_...`, others \
                  are not.",
        },
        Key {
            name: "allow_continents",
            kind: Kind::Texts("AF, AN, AS, EU, NA, OC or SA"),
            preset: Preset::Absent("all"),
            doc: "Clients on these continents are let through.",
        },
        Key {
            name: "allow_asns",
            kind: Kind::Texts("number of an autonomous system"),
            preset: Preset::Absent("all"),
            doc: "Clients in these networks are let through.",
        },
        Key {
            name: "deny_countries",
            kind: Kind::Texts("ISO code of a country"),
            preset: Preset::Absent("none"),
            doc: "Clients in these countries are refused, even if they are allowed too.",
        },
        Key {
            name: "deny_continents",
            kind: Kind::Texts("AF, AN, AS, EU, NA, OC or SA"),
            preset: Preset::Absent("none"),
            doc: "Clients on these continents are refused.",
        },
        Key {
            name: "deny_asns",
            kind: Kind::Texts("number of an autonomous system"),
            preset: Preset::Absent("none"),
            doc: "Clients in these networks are refused.",
        },
        Key {
            name: "unknown",
            kind: Kind::Word(UNSAID),
            preset: Preset::Absent("`refuse` with any of the keys `allow_...`, else `allow`"),
            doc: "What becomes of clients of whom the databases know nothing, those of private networks \
                  among them.",
        },
        Key {
            name: "country_header",
            kind: Kind::Text("header name"),
            preset: Preset::Absent("none"),
            doc: "The header that tells origins the country's code. What clients send under it is \
                  taken out; the same holds for the other two.",
        },
        Key {
            name: "continent_header",
            kind: Kind::Text("header name"),
            preset: Preset::Absent("none"),
            doc: "The header that tells origins the continent's code.",
        },
        Key {
            name: "asn_header",
            kind: Kind::Text("header name"),
            preset: Preset::Absent("none"),
            doc: "The header that tells origins the number of the autonomous system.",
        },
        Key {
            name: "status",
            kind: Kind::Integer { min: 400, max: 599, word: None },
            preset: Preset::Value("403"),
            doc: "The status of the answer to requests that are refused.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<Geo> {
    let places = |countries: &str, continents: &str, asns: &str| Places {
        countries: fields.list(countries, parse_code),
        continents: fields.list(continents, parse_continent),
        asns: fields.list(asns, parse_asn),
    };
    let allow = places("allow_countries", "allow_continents", "allow_asns");
    let unknown = match (fields.word("unknown"), allow == Places::default()) {
        (Some(_), _) => read_unsaid(fields, "unknown"),
        (None, true) => Unsaid::Allowed,
        (None, false) => Unsaid::Refused,
    };
    Some(Geo {
        files: read_paths(fields, "files"),
        allow,
        deny: places("deny_countries", "deny_continents", "deny_asns"),
        unknown,
        country_header: fields.parsed("country_header", parse_told_field),
        continent_header: fields.parsed("continent_header", parse_told_field),
        asn_header: fields.parsed("asn_header", parse_told_field),
        status: read_status(fields),
    })
}

fn parse_code(text: &str) -> Result<String, Flaw> {
    if text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return Ok(text.to_ascii_uppercase());
    }
    Err(Flaw::new(format!("\"{}\" is not the code of a country", text.escape_debug()))
        .with_help("write its two letters of ISO 3166: \"CH\""))
}

fn parse_continent(text: &str) -> Result<String, Flaw> {
    let code = text.to_ascii_uppercase();
    if ["AF", "AN", "AS", "EU", "NA", "OC", "SA"].contains(&code.as_str()) {
        return Ok(code);
    }
    Err(Flaw::new(format!("\"{}\" is not the code of a continent", text.escape_debug()))
        .with_help("it is one of AF, AN, AS, EU, NA, OC and SA"))
}

fn parse_asn(text: &str) -> Result<u32, Flaw> {
    let digits = text.strip_prefix("AS").unwrap_or(text);
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok());
    number.flatten().ok_or_else(|| {
        Flaw::new(format!("\"{}\" is not the number of an autonomous system", text.escape_debug()))
            .with_help("write it like \"64500\" or \"AS64500\"")
    })
}
