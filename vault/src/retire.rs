//! End of a cluster's access. The auth method goes first: with it all tokens end that it has issued.

use fairlead_api::resources::VaultNames;
use tracing::warn;

use crate::{
    access::SecretsEnd,
    calls::VaultCalls,
    error::VaultError,
    reconcile::{is_own_mount, is_own_policy, policy_of},
    settings::owner_mark,
};

/// Limit of the requests for the secrets of one cluster.
const MAX_SECRET_CALLS: usize = 10_000;

/// Removes the parts of a cluster. Parts of somebody else stay.
pub(crate) async fn retire(
    calls: &VaultCalls,
    names: &VaultNames,
    secrets: SecretsEnd,
) -> Result<(), VaultError> {
    let mark = owner_mark(names);
    let mount = format!("sys/auth/{}", names.mount);
    match calls.read(&mount).await? {
        Some(found) if is_own_mount(&found, &mark) => calls.delete(&mount).await?,
        Some(_) => warn!(mount = names.mount, "auth method of somebody else kept"),
        None => {}
    }
    let policy = format!("sys/policies/acl/{}", names.policy);
    let found = calls.read(&policy).await?;
    match found.as_ref().and_then(policy_of) {
        Some(text) if is_own_policy(text, &mark) => calls.delete(&policy).await?,
        Some(_) => warn!(policy = names.policy, "policy of somebody else kept"),
        None => {}
    }
    match secrets {
        SecretsEnd::Keep => Ok(()),
        SecretsEnd::Delete => end_secrets(calls, names, "data").await,
        SecretsEnd::Destroy => end_secrets(calls, names, "metadata").await,
    }
}

/// Deletes all secrets below the path of the cluster by their names. Deleting `data` of a secret
/// ends its latest version, deleting `metadata` all of them.
async fn end_secrets(calls: &VaultCalls, names: &VaultNames, kind: &str) -> Result<(), VaultError> {
    let VaultNames { kv, path, .. } = names;
    let mut folders = vec![format!("{path}/")];
    let mut secrets = vec![path.clone()];
    for _ in 0..MAX_SECRET_CALLS {
        if let Some(secret) = secrets.pop() {
            calls.delete(&format!("{kv}/{kind}/{secret}")).await?;
        } else if let Some(folder) = folders.pop() {
            let below = calls.list(&format!("{kv}/metadata/{folder}")).await?;
            for name in below {
                let of = if name.ends_with('/') {
                    &mut folders
                } else {
                    &mut secrets
                };
                of.push(format!("{folder}{}", encoded(&name)));
            }
        } else {
            return Ok(());
        }
    }
    let cause =
        format!("{kv}/{path} has more than {MAX_SECRET_CALLS} secrets; delete some yourself");
    Err(VaultError::Refused(cause))
}

/// A name in a path of a URL; the slash of a folder stays.
fn encoded(name: &str) -> String {
    let (name, slash) = match name.strip_suffix('/') {
        Some(name) => (name, "/"),
        None => (name, ""),
    };
    format!("{}{slash}", fairlead_api::percent::encode(name))
}
