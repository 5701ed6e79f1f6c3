//! What is told once, and by which more can be done.

use std::collections::BTreeMap;

use anyhow::Context;
use serde_json::Value;

use super::{Deed, TOKEN, What, World};

#[derive(Default)]
pub(crate) struct Secrets {
    /// Bootstrap tokens that are valid, by cluster.
    pub(super) bootstrap: BTreeMap<String, String>,
    /// Steward's tokens, by cluster.
    pub(super) steward: BTreeMap<String, String>,
    /// Tokens by name: their ids, and themselves where they are known.
    pub(super) tokens: BTreeMap<String, (String, Option<String>)>,
    /// A bootstrap token that is good for nothing any more, and an API token that is not.
    pub(crate) spent: Option<String>,
    pub(crate) revoked: Option<String>,
}

impl Secrets {
    /// What somebody was told who is gone.
    pub(crate) fn forget(&mut self, deed: &Deed) {
        self.bootstrap.remove(&deed.id);
        self.steward.remove(&deed.id);
        self.tokens.remove(&deed.id);
    }

    /// Of a token whose maker was told nothing.
    pub(crate) fn found(&mut self, name: &str, id: &str) {
        let known = self.tokens.entry(name.to_owned());
        known.or_insert_with(|| (id.to_owned(), None));
    }

    /// A token that must be good.
    pub(crate) fn good(&self, world: &World) -> Option<&str> {
        let tokens = self.tokens.iter();
        let mut there = tokens.filter(|(name, _)| world.contains_key(&format!("{TOKEN}{name}")));
        there.find_map(|(_, (_, token))| token.as_deref())
    }
}

impl Deed {
    /// What the answer tells that nobody else is told.
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
