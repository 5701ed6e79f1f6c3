//! Settings of single tenants and clusters over those of the whole file.

use std::{collections::BTreeSet, fs, path::PathBuf};

use fairlead_api::{ClusterId, TenantId};
use serde::Deserialize;
use url::Url;

use crate::{
    access::JWT,
    config::service_accounts,
    settings::{AccessSettings, ServiceAccount},
};

/// Auth method of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AuthMethod {
    /// Tokens of service accounts, checked offline with the keys that the agent reports.
    #[default]
    Jwt,
    /// Tokens of service accounts, checked by the cluster's API server.
    Kubernetes,
    /// A role id and secret ids, which people hand to the cluster.
    AppRole,
}

impl AuthMethod {
    /// Type in Vault.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            AuthMethod::Jwt => JWT,
            AuthMethod::Kubernetes => "kubernetes",
            AuthMethod::AppRole => "approle",
        }
    }
}

/// Settings of a tenant or a cluster in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OverrideTable {
    auth_method: Option<AuthMethod>,
    service_accounts: Option<Vec<String>>,
    kubernetes_host: Option<String>,
    kubernetes_ca_file: Option<PathBuf>,
}

/// Settings of a tenant or a cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrides {
    method: Option<AuthMethod>,
    service_accounts: Option<Vec<ServiceAccount>>,
    kubernetes: Option<KubernetesServer>,
}

/// API server of a cluster as Vault reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KubernetesServer {
    pub(crate) host: String,
    /// PEM; empty for the roots of Vault's machine.
    pub(crate) ca: String,
}

impl OverrideTable {
    /// # Errors
    /// The first mistake.
    pub(crate) fn read(self) -> Result<Overrides, String> {
        let accounts = self.service_accounts.as_deref().map(service_accounts);
        let ca = self.kubernetes_ca_file.map(|path| {
            let text = fs::read_to_string(&path);
            text.map_err(|error| format!("kubernetes_ca_file: {}: {error}", path.display()))
        });
        let ca = ca.transpose()?;
        let kubernetes = match (self.kubernetes_host, ca) {
            (Some(host), ca) => Some(KubernetesServer {
                host: checked_host(host)?,
                ca: ca.unwrap_or_default(),
            }),
            (None, None) => None,
            (None, Some(_)) => {
                return Err("kubernetes_ca_file: kubernetes_host is missing".to_owned());
            }
        };
        Ok(Overrides {
            method: self.auth_method,
            service_accounts: accounts.transpose()?,
            kubernetes,
        })
    }
}

fn checked_host(host: String) -> Result<String, String> {
    match host.parse::<Url>() {
        Ok(url) if url.scheme() == "https" && url.has_host() => Ok(host),
        _ => Err("kubernetes_host: expected https://host[:port]".to_owned()),
    }
}

/// Settings of one cluster.
pub(crate) struct ClusterSettings<'a> {
    pub(crate) method: AuthMethod,
    pub(crate) service_accounts: &'a [ServiceAccount],
    pub(crate) kubernetes: Option<&'a KubernetesServer>,
}

impl AccessSettings {
    /// Settings of the cluster over those of its tenant, over those of the file.
    pub(crate) fn of(&self, tenant: &TenantId, cluster: &ClusterId) -> ClusterSettings<'_> {
        let layers = [self.clusters.get(cluster), self.tenants.get(tenant)];
        let layers = || layers.into_iter().flatten();
        let accounts = layers().find_map(|it| it.service_accounts.as_deref());
        ClusterSettings {
            method: layers().find_map(|it| it.method).unwrap_or(self.method),
            service_accounts: accounts.unwrap_or(&self.service_accounts),
            kubernetes: layers().find_map(|it| it.kubernetes.as_ref()),
        }
    }
}

/// Names and namespaces for the method `kubernetes`, which takes each name in each namespace.
///
/// # Errors
/// It would let other accounts log in.
pub(crate) fn crossed(
    accounts: &[ServiceAccount],
) -> Result<(BTreeSet<&str>, BTreeSet<&str>), String> {
    let names: BTreeSet<_> = accounts.iter().map(|it| it.name.as_str()).collect();
    let namespaces: BTreeSet<_> = accounts.iter().map(|it| it.namespace.as_str()).collect();
    let all: BTreeSet<_> = accounts
        .iter()
        .map(|it| (&it.namespace, &it.name))
        .collect();
    match all.len() == names.len() * namespaces.len() {
        true => Ok((names, namespaces)),
        false => Err("service_accounts: with the auth method kubernetes each name counts in each namespace; name all pairs, or use jwt".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(texts: &[&str]) -> Vec<ServiceAccount> {
        let texts: Vec<String> = texts.iter().map(|it| (*it).to_owned()).collect();
        service_accounts(&texts).unwrap()
    }

    #[test]
    fn accounts_that_would_admit_others_are_refused() {
        for (texts, is_good) in [
            (&["a/x"][..], true),
            (&["a/x", "a/y"], true),
            (&["a/x", "b/x"], true),
            (&["a/x", "b/y"], false),
            (&["a/x", "a/y", "b/x", "b/y"], true),
        ] {
            assert_eq!(crossed(&accounts(texts)).is_ok(), is_good, "{texts:?}");
        }
    }
}
