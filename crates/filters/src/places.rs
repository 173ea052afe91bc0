//! Where addresses are, as a database of MaxMind's format tells.

use std::fmt;
use std::net::IpAddr;

use maxminddb::{PathElement, Reader};

/// A database in memory.
pub struct Places {
    reader: Reader<Vec<u8>>,
}

/// What is known about an address. Codes are those of the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place<'a> {
    /// ISO 3166-1 code of the country, like `CH`.
    pub country: Option<&'a str>,
    /// Code of the continent, like `EU`.
    pub continent: Option<&'a str>,
    /// Number of the autonomous system.
    pub asn: Option<u32>,
}

impl Places {
    /// Reads a file's bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        let reader = Reader::from_source(bytes).map_err(|error| error.to_string())?;
        Ok(Self { reader })
    }

    /// What the database is called, and when it was made (Unix time in seconds).
    #[must_use]
    pub fn name(&self) -> (&str, u64) {
        let metadata = self.reader.metadata();
        (&metadata.database_type, metadata.build_epoch)
    }

    /// What is known about an address; nothing where the database has nothing or is damaged.
    #[must_use]
    pub fn find(&self, address: IpAddr) -> Place<'_> {
        // The same address whatever the socket calls it.
        let Ok(found) = self.reader.lookup(address.to_canonical()) else { return Place::default() };
        let text = |outer, inner| {
            let path = [PathElement::Key(outer), PathElement::Key(inner)];
            found.decode_path::<&str>(&path).ok().flatten()
        };
        let asn = [PathElement::Key("autonomous_system_number")];
        Place {
            country: text("country", "iso_code"),
            continent: text("continent", "code"),
            asn: found.decode_path::<u32>(&asn).ok().flatten(),
        }
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Places({:?})", self.name().0)
    }
}

#[cfg(test)]
mod tests {
    use sluice_testkit::{PlaceOf, place_file};

    use super::{Place, Places};

    fn file() -> Vec<u8> {
        let place = |network, country, continent, asn| PlaceOf { network, country, continent, asn };
        place_file(&[
            place("192.0.2.0/24", "CH", "EU", 64500),
            place("198.51.100.0/25", "", "AS", 0),
            place("2001:db8::/32", "US", "NA", 4_200_000_000),
        ])
    }

    #[test]
    fn finds_places() {
        let places = Places::parse(file()).unwrap();
        assert_eq!(places.name(), ("Sluice-Test", 0x6500_0000));
        let swiss = Place { country: Some("CH"), continent: Some("EU"), asn: Some(64500) };
        let asian = Place { continent: Some("AS"), ..Place::default() };
        let american =
            Place { country: Some("US"), continent: Some("NA"), asn: Some(4_200_000_000) };
        let table = [
            ("192.0.2.0", swiss),
            ("192.0.2.255", swiss),
            ("::ffff:192.0.2.7", swiss),
            ("192.0.3.0", Place::default()),
            ("198.51.100.127", asian),
            ("198.51.100.128", Place::default()),
            ("2001:db8:ffff::", american),
            ("2001:db9::", Place::default()),
            ("::1", Place::default()),
        ];
        for (address, wanted) in table {
            assert_eq!(places.find(address.parse().unwrap()), wanted, "{address}");
        }
    }

    #[test]
    fn a_damaged_file_is_refused_or_knows_less() {
        assert!(Places::parse(Vec::new()).is_err());
        assert!(Places::parse(b"no database".to_vec()).is_err());
        let whole = file();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            if let Ok(places) = Places::parse(damaged) {
                let _ = places.find("192.0.2.1".parse().unwrap());
                let _ = places.find("2001:db8::1".parse().unwrap());
            }
            if let Ok(places) = Places::parse(whole[..at].to_vec()) {
                let _ = places.find("192.0.2.1".parse().unwrap());
            }
        }
    }
}
