//! Lets requests through by the country of their client, and tells the origin of it.

use std::collections::HashSet;
use std::sync::Arc;

use sluice_filter::{Filter, Phases, RequestContext, Verdict};

use super::{Admit, Refusing};
use crate::identity::{strip, too_large};
use crate::{Place, Places};

/// What becomes of clients of whom the database knows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// They are let through.
    Allowed,
    /// They are refused, if anything is asked of places at all.
    Refused,
}

/// Where clients may be. Codes are in capitals, as in the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GeoRules {
    /// Only these countries, continents and networks, unless there is none of all.
    pub allow: Region,
    /// Not these.
    pub deny: Region,
}

/// A part of the world, or of the net.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// Codes of countries (ISO 3166-1).
    pub countries: HashSet<String>,
    /// Codes of continents.
    pub continents: HashSet<String>,
    /// Numbers of autonomous systems.
    pub asns: HashSet<u32>,
}

/// The fields that tell origins of the place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GeoFields {
    /// The country's code.
    pub country: Option<Box<[u8]>>,
    /// The continent's code.
    pub continent: Option<Box<[u8]>>,
    /// The number of the autonomous system.
    pub asn: Option<Box<[u8]>>,
}

/// Lets requests through by the country of their client, and tells the origin of it.
#[derive(Debug)]
pub struct Geo {
    /// The databases; the first one that knows something counts.
    pub places: Vec<Places>,
    /// Where clients may be.
    pub rules: GeoRules,
    /// What becomes of the others.
    pub unknown: Unknown,
    /// What origins are told.
    pub fields: GeoFields,
    /// How requests are refused.
    pub refusing: Refusing,
    /// Names of the notes: country, continent, number.
    pub notes: [Arc<str>; 3],
}

impl Region {
    fn is_empty(&self) -> bool {
        self.countries.is_empty() && self.continents.is_empty() && self.asns.is_empty()
    }

    fn holds(&self, place: Place<'_>) -> bool {
        place.country.is_some_and(|code| self.countries.contains(code))
            || place.continent.is_some_and(|code| self.continents.contains(code))
            || place.asn.is_some_and(|number| self.asns.contains(&number))
    }
}

impl GeoRules {
    fn judge(&self, place: Place<'_>, unknown: Unknown) -> Admit {
        if self.allow.is_empty() && self.deny.is_empty() {
            return Admit::Yes;
        }
        if place == Place::default() {
            return if unknown == Unknown::Allowed { Admit::Yes } else { Admit::No };
        }
        let allowed = self.allow.is_empty() || self.allow.holds(place);
        if allowed && !self.deny.holds(place) { Admit::Yes } else { Admit::No }
    }
}

impl Geo {
    fn find(&self, client: std::net::IpAddr) -> Place<'_> {
        let mut all = Place::default();
        for places in &self.places {
            let place = places.find(client);
            all.country = all.country.or(place.country);
            all.continent = all.continent.or(place.continent);
            all.asn = all.asn.or(place.asn);
        }
        all
    }
}

impl Filter for Geo {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let place = self.find(context.client);
        let number = place.asn.map(|number| number.to_string());
        let GeoFields { country, continent, asn } = &self.fields;
        let facts =
            [(country, place.country), (continent, place.continent), (asn, number.as_deref())];
        for ((name, value), note) in facts.into_iter().zip(&self.notes) {
            if let Some(name) = name {
                strip(&mut context.request.fields, name);
            }
            // A database is a file of somebody else: what is no code is nothing.
            let Some(value) = value.filter(|value| is_code(value)) else { continue };
            context.notes.set(note, value.as_bytes());
            if let Some(name) = name
                && context.request.fields.push(name, value.as_bytes()).is_err()
            {
                return too_large();
            }
        }
        let admit = self.rules.judge(place, self.unknown);
        self.refusing.verdict(context, admit, "place not allowed")
    }
}

fn is_code(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::{Admit, GeoRules, Region, Unknown};
    use crate::Place;

    fn region(codes: &str) -> Region {
        let mut region = Region::default();
        for code in codes.split_whitespace() {
            match code.parse() {
                Ok(number) => drop(region.asns.insert(number)),
                // In these tests continents begin with a plus.
                Err(_) => match code.strip_prefix('+') {
                    Some(code) => drop(region.continents.insert(code.to_owned())),
                    None => drop(region.countries.insert(code.to_owned())),
                },
            }
        }
        region
    }

    #[test]
    fn places_are_let_through_or_not() {
        let swiss = Place { country: Some("CH"), continent: Some("EU"), asn: Some(64500) };
        let nowhere = Place::default();
        let table = [
            ("", "", nowhere, Unknown::Refused, Admit::Yes),
            ("CH", "", swiss, Unknown::Refused, Admit::Yes),
            ("DE", "", swiss, Unknown::Refused, Admit::No),
            ("DE +EU", "", swiss, Unknown::Refused, Admit::Yes),
            ("+EU", "CH", swiss, Unknown::Refused, Admit::No),
            ("+EU", "64500", swiss, Unknown::Refused, Admit::No),
            ("", "DE", swiss, Unknown::Refused, Admit::Yes),
            ("", "DE", nowhere, Unknown::Refused, Admit::No),
            ("", "DE", nowhere, Unknown::Allowed, Admit::Yes),
            ("CH", "", nowhere, Unknown::Allowed, Admit::Yes),
        ];
        for (allow, deny, place, unknown, wanted) in table {
            let rules = GeoRules { allow: region(allow), deny: region(deny) };
            assert_eq!(rules.judge(place, unknown), wanted, "{rules:?} {place:?}");
        }
    }
}
