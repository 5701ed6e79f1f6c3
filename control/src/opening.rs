//! Opens the store with its keys, and registers the hub on it.

use fairlead_api::{Failure, HubUrl};
use fairlead_registry::RESTARTED;
use fairlead_store::{AgentAddress, Clock, DataDir, Place, Presented, Store, claim::Claim};
use time::OffsetDateTime;

use crate::{
    config::Config,
    files::STORE_FILE,
    keys::{SealingKey, share},
    loss::{refuse_lost_keys, refuse_lost_store},
};

/// Opens the store and the keys shared by its hubs. Lost parts are not replaced by new ones.
pub(crate) async fn open_store(
    config: &Config,
    data_dir: &DataDir,
    clock: &Clock,
) -> Result<(Place, Claim, Store, Option<SealingKey>), Failure> {
    let file = || Place::File(data_dir.join(STORE_FILE));
    let place = config.store.clone().unwrap_or_else(file);
    let sealing = config.store_key.as_ref().map(SealingKey::read);
    let sealing = sealing.transpose()?;
    let accepted = config.accept_data_loss;
    refuse_lost_store(data_dir, &place, accepted).await?;
    let claim = Claim::of(&place)?;
    let store = Store::open(&place, clock.clone()).await?;
    store.set_quotas(config.registry.quotas);
    let keys = async {
        refuse_lost_keys(data_dir, &store, accepted).await?;
        match &sealing {
            Some(sealing) => Ok(share(&store, data_dir, sealing).await?),
            None => Ok(()),
        }
    };
    if let Err(failure) = keys.await {
        store.close().await;
        return Err(failure);
    }
    Ok((place, claim, store, sealing))
}

/// Registers this hub and returns the number of clusters lost with its predecessor in this folder.
/// That hub has ended, since this one holds its folder.
pub(crate) async fn begin_membership(
    store: &Store,
    data_dir: &DataDir,
    (url, address, agents): (&HubUrl, &HubUrl, &AgentAddress),
    now: OffsetDateTime,
) -> Result<usize, Failure> {
    let presented = Presented {
        url: url.clone(),
        address: address.clone(),
        agents: agents.clone(),
        instead_of: data_dir.renamed(store.name())?,
    };
    let begun = store.begin(presented, now, RESTARTED).await;
    Ok(begun?)
}

pub(crate) fn front_names(config: &Config) -> Vec<String> {
    let mut names = vec![
        config.public_url.host().to_owned(),
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
        format!("*.{}", config.cluster_domain),
    ];
    let mut unique = std::collections::HashSet::new();
    names.retain(|name| unique.insert(name.clone()));
    names
}
