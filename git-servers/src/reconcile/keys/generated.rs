//! Deploy keys that the hub makes. The private half is stored where the settings say, before the
//! server gets the public half. It reaches no record, log or answer.

use std::collections::BTreeMap;

use fairlead_api::resources::GeneratedKey;
use fairlead_repositories::{GitServerError, deploy_key_name};

use super::is_same;
use crate::{
    credential_place::CredentialPlace,
    deploy_key::{NewDeployKey, public_of},
    provider::FoundKey,
    reconcile::RepoWish,
};

/// Public halves of the generated keys, by name. A key is made if it is new, or its private half is lost.
pub(super) async fn resolve(
    wish: &RepoWish<'_>,
    found: &[FoundKey],
) -> Result<BTreeMap<String, GeneratedKey>, GitServerError> {
    let desired = wish.desired;
    let mut keys = BTreeMap::new();
    let names = (desired.deploy_keys.iter()).filter(|(_, key)| key.generate);
    for (name, _) in names {
        let place = CredentialPlace {
            server: wish.values.server,
            tenant: &desired.tenant,
            name: deploy_key_name(&desired.owner, name),
            kind: "generated deploy key",
        };
        place.check()?;
        let stored = match place.read().await? {
            Some(text) => Some(public_of(&text).ok_or_else(|| place.unusable())?),
            None => None,
        };
        let key = match stored.filter(|it| is_in_use(it, name, wish, found)) {
            Some(stored) => stored,
            None => make(&place).await?,
        };
        keys.insert(name.clone(), key);
    }
    Ok(keys)
}

/// False for a stored key that was declared before and removed since: its name gets a new key.
fn is_in_use(stored: &GeneratedKey, name: &str, wish: &RepoWish<'_>, found: &[FoundKey]) -> bool {
    let known = wish.known.generated_keys.get(name);
    let known = known.filter(|_| wish.is_known);
    let is_on_server = |it: &FoundKey| it.title == name && is_same(&it.key, &stored.key);
    known.is_some_and(|known| known.key == stored.key) || found.iter().any(is_on_server)
}

async fn make(place: &CredentialPlace<'_>) -> Result<GeneratedKey, GitServerError> {
    let made = NewDeployKey::generate();
    let made = made.map_err(|error| GitServerError::Unavailable(error.to_string()))?;
    place.write(&made.private).await?;
    Ok(made.public)
}
