//! Secrets that the hub returns only once and that permit further operations.

use std::collections::BTreeMap;

use anyhow::Context;
use serde_json::Value;

use super::{LoadOperation, LoadWorld, TOKEN, What};

#[derive(Default)]
pub(crate) struct Secrets {
    /// Valid bootstrap tokens, by cluster.
    pub(super) bootstrap: BTreeMap<String, String>,
    /// Steward's tokens, by cluster.
    pub(super) steward: BTreeMap<String, String>,
    /// Tokens by name: their ids, and their values where they are known.
    pub(super) tokens: BTreeMap<String, (String, Option<String>)>,
    /// An invalid bootstrap token, and an invalid API token.
    pub(crate) spent: Option<String>,
    pub(crate) revoked: Option<String>,
}

impl Secrets {
    /// Forgets the secrets of a deleted object.
    pub(crate) fn forget(&mut self, operation: &LoadOperation) {
        self.bootstrap.remove(&operation.id);
        self.steward.remove(&operation.id);
        self.tokens.remove(&operation.id);
    }

    /// Records the id of a token without an acknowledged creation.
    pub(crate) fn found(&mut self, name: &str, id: &str) {
        let known = self.tokens.entry(name.to_owned());
        known.or_insert_with(|| (id.to_owned(), None));
    }

    /// A token that must be valid.
    pub(crate) fn good(&self, world: &LoadWorld) -> Option<&str> {
        let tokens = self.tokens.iter();
        let mut there = tokens.filter(|(name, _)| world.contains_key(&format!("{TOKEN}{name}")));
        there.find_map(|(_, (_, token))| token.as_deref())
    }
}

impl LoadOperation {
    /// Stores secrets of an answer that are returned only once.
    pub(crate) fn learn(&self, answer: &Value, secrets: &mut Secrets) -> anyhow::Result<()> {
        let id = self.id.clone();
        let text = |pointer: &str| {
            let found = answer.pointer(pointer).and_then(Value::as_str);
            found.with_context(|| format!("no {pointer}: {answer}"))
        };
        match self.what {
            What::MakeCluster | What::Move | What::Invite => {
                let url = text("/installURL")?;
                let (_, token) = url.split_once("?token=").context("no token in it")?;
                secrets.bootstrap.insert(id.clone(), token.to_owned());
                if self.what == What::Move {
                    secrets.steward.remove(&id);
                }
            }
            What::Spend => {
                secrets.spent = secrets.bootstrap.remove(&id);
                let token = text("/items/5/stringData/token")?.to_owned();
                secrets.steward.insert(id, token);
            }
            What::MakeToken => {
                let token = Some(text("/token")?.to_owned());
                secrets.tokens.insert(id, (text("/id")?.to_owned(), token));
            }
            What::DropToken => {
                let gone = secrets.tokens.remove(&id);
                secrets.revoked = gone.and_then(|(_, token)| token).or(secrets.revoked.take());
            }
            _ => {}
        }
        Ok(())
    }
}
