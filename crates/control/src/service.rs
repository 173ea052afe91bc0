//! Servers that somebody takes out of service, and brings back.

use std::sync::Arc;

use sluice_upstream::Bar;

use crate::status::{Shown, ShownPlace, Status};

/// What somebody wants of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// It is to get nothing more; what is under way ends as it would.
    Drain,
    /// It is to take part again.
    Restore,
}

/// What somebody named is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// No such upstream; these are there.
    Upstream(Vec<String>),
    /// No such server in it; these are there.
    Server(Vec<String>),
}

impl Status {
    /// Takes the addresses of a server of an upstream out of service, or brings them back, and tells
    /// which they are. The server is named as it is written, or by one of its addresses.
    ///
    /// # Errors
    /// If there is no server of that name.
    pub fn serve(
        &self,
        upstream: &str,
        server: &str,
        service: Service,
    ) -> Result<Vec<ShownPlace>, Unknown> {
        let shown = self.shown();
        let places = find(shown.as_ref(), upstream, server)?;
        for ShownPlace { address, state, .. } in &places {
            let (changes, what) = match service {
                Service::Drain => {
                    (!state.is_barred(Bar::Draining), "gets no more requests: it is drained")
                }
                Service::Restore => (state.is_barred(Bar::Draining), "is back in service"),
            };
            match service {
                Service::Drain => state.bar(Bar::Draining),
                Service::Restore => state.lift(Bar::Draining),
            }
            if changes {
                self.say(&format!("upstream {upstream}: {address} {what}"));
            }
        }
        Ok(places)
    }
}

fn find(
    shown: Option<&Arc<Shown>>,
    upstream: &str,
    server: &str,
) -> Result<Vec<ShownPlace>, Unknown> {
    let upstreams = || shown.iter().flat_map(|shown| &shown.upstreams);
    let Some(found) = upstreams().find(|it| it.name == upstream) else {
        return Err(Unknown::Upstream(upstreams().map(|it| it.name.clone()).collect()));
    };
    let mut places: Vec<ShownPlace> = Vec::new();
    let mut known = Vec::new();
    for it in &found.servers {
        known.push(it.address.clone());
        for place in &it.resolved {
            let meant = it.address == server || place.address == server;
            if meant && !places.iter().any(|other| other.address == place.address) {
                places.push(place.clone());
            }
            known.push(place.address.clone());
        }
    }
    known.dedup();
    // A name without an address yet has nothing that could be drained.
    if places.is_empty() { Err(Unknown::Server(known)) } else { Ok(places) }
}
