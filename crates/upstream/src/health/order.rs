//! What the thread that watches is told, and how it is heard.

use std::sync::Arc;

use sluice_net::{Mailbox, Post};

use crate::ClusterPlan;

/// What control tells the thread that watches.
#[derive(Debug)]
pub enum HealthOrder {
    /// These are all clusters from now on.
    Watch(Vec<Arc<ClusterPlan>>),
    /// Something has changed at the servers of the cluster of this name.
    Look(String),
}

/// Whether something is good or bad news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As it should be.
    Good,
    /// Not as it should be.
    Bad,
}

/// Takes what there is to say.
pub(super) type Voice = dyn Fn(Tone, &str) + Send;

/// What the thread that watches is made of.
pub struct HealthParts {
    /// Where orders come from.
    pub orders: Mailbox<HealthOrder>,
    /// Where whoever notices something leaves a word.
    pub post: Post<HealthOrder>,
    /// Where changes are told, a sentence each.
    pub say: Box<Voice>,
}
