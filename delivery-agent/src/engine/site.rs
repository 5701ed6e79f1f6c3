//! Limits of the site: the ConfigMap `fairlead-delivery`. It narrows what the hub may deliver, and never widens it.

use std::collections::BTreeSet;

use fairlead_api::Code;
use fairlead_manifests::ObjectKey;
use serde_json::Value;

use super::failure::{FailureClass, RunFailure};
use crate::fence::{AccountName, DELIVERY_NAMESPACE};

/// Runs of manifests at the same time.
const DEFAULT_CONCURRENCY: usize = 4;
/// Largest number of runs at the same time.
const MAX_CONCURRENCY: usize = 16;

/// Limits of the site. Missing lists allow everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteLimits {
    /// Kinds, as `KIND` or `KIND.GROUP`, like `Deployment.apps`.
    pub kinds: Option<BTreeSet<String>>,
    /// Namespaces; with a list, objects of the cluster are forbidden unless `*cluster` is in it.
    pub namespaces: Option<BTreeSet<String>>,
    /// ServiceAccounts, as `NAME` or `NAMESPACE/NAME`.
    pub accounts: Option<BTreeSet<String>>,
    /// Runs at the same time.
    pub concurrency: usize,
    /// True: no run begins.
    pub is_paused: bool,
}

impl Default for SiteLimits {
    fn default() -> Self {
        Self {
            kinds: None,
            namespaces: None,
            accounts: None,
            concurrency: DEFAULT_CONCURRENCY,
            is_paused: false,
        }
    }
}

/// Entry of the namespaces that allows objects of the cluster.
const CLUSTER_ENTRY: &str = "*cluster";

impl SiteLimits {
    /// Reads the ConfigMap. A value that cannot be read pauses delivery: a limit must not be lost by a typing error.
    #[must_use]
    pub fn of(config_map: Option<&Value>) -> Self {
        let Some(data) = config_map.and_then(|it| it.get("data")) else {
            return Self::default();
        };
        let text = |key: &str| data.get(key).and_then(Value::as_str).map(str::trim);
        let list = |key: &str| {
            let items = text(key)?.split([',', '\n', ' ']).map(str::trim);
            let items = items.filter(|item| !item.is_empty());
            Some(items.map(str::to_owned).collect())
        };
        let concurrency = text("concurrency").map(str::parse::<usize>);
        let is_paused = !matches!(text("pause"), None | Some("" | "false"));
        Self {
            kinds: list("kinds"),
            namespaces: list("namespaces"),
            accounts: list("serviceAccounts"),
            concurrency: match &concurrency {
                Some(Ok(number)) => (*number).clamp(1, MAX_CONCURRENCY),
                _ => DEFAULT_CONCURRENCY,
            },
            is_paused: is_paused || matches!(concurrency, Some(Err(_))),
        }
    }

    /// Checks the account of a run.
    ///
    /// # Errors
    /// The site does not allow it.
    pub fn check_account(&self, account: &AccountName) -> Result<(), RunFailure> {
        let Some(accounts) = &self.accounts else {
            return Ok(());
        };
        let is_local = account.is_local() && accounts.contains(account.name());
        if is_local || accounts.contains(&account.to_string()) {
            return Ok(());
        }
        Err(forbidden(format!("ServiceAccount {account}")))
    }

    /// Checks an object.
    ///
    /// # Errors
    /// The site does not allow its kind or its namespace.
    pub fn check_object(&self, key: &ObjectKey) -> Result<(), RunFailure> {
        if let Some(kinds) = &self.kinds
            && !kinds.contains(&key.kind)
            && !kinds.contains(&format!("{}.{}", key.kind, key.group))
        {
            return Err(forbidden(format!("the kind of {key}")));
        }
        let namespace = key.namespace.as_deref().unwrap_or(CLUSTER_ENTRY);
        // The namespace of locks and journals is closed to all bundles.
        let is_own = namespace == DELIVERY_NAMESPACE;
        let is_listed = |namespaces: &BTreeSet<String>| namespaces.contains(namespace);
        if is_own || self.namespaces.as_ref().is_some_and(|it| !is_listed(it)) {
            return Err(forbidden(format!("the place of {key}")));
        }
        Ok(())
    }
}

fn forbidden(subject: String) -> RunFailure {
    let sentence = format!("the site does not allow {subject}");
    RunFailure::new(FailureClass::Permanent, Code::SiteForbids, sentence)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(kind: &str, namespace: Option<&str>) -> ObjectKey {
        ObjectKey {
            group: "apps".to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: "a".to_owned(),
        }
    }

    #[test]
    fn missing_config_map_allows_all_but_the_agents_own_namespace() {
        let site = SiteLimits::of(None);
        assert!(site.check_object(&key("Deployment", Some("shop"))).is_ok());
        assert!(site.check_object(&key("Thing", None)).is_ok());
        let own = site.check_object(&key("Deployment", Some(DELIVERY_NAMESPACE)));
        assert_eq!(own.unwrap_err().code, Code::SiteForbids);
    }

    #[test]
    fn lists_narrow_kinds_namespaces_and_accounts() {
        let data = json!({"data": {
            "kinds": "Deployment.apps, ConfigMap",
            "namespaces": "shop\nweb",
            "serviceAccounts": "deployer",
            "concurrency": "2",
        }});
        let site = SiteLimits::of(Some(&data));
        assert!(site.check_object(&key("Deployment", Some("web"))).is_ok());
        assert!(
            site.check_object(&key("Deployment", Some("other")))
                .is_err()
        );
        assert!(site.check_object(&key("StatefulSet", Some("web"))).is_err());
        assert!(site.check_object(&key("Deployment", None)).is_err());
        assert!(
            site.check_account(&AccountName::parse("deployer").unwrap())
                .is_ok()
        );
        assert!(
            site.check_account(&AccountName::parse("web/deployer").unwrap())
                .is_err()
        );
        assert_eq!((site.concurrency, site.is_paused), (2, false));
    }

    #[test]
    fn unreadable_value_pauses() {
        for data in [json!({"concurrency": "many"}), json!({"pause": "yes"})] {
            assert!(SiteLimits::of(Some(&json!({"data": data}))).is_paused);
        }
    }
}
