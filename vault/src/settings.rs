//! Settings of the access, and the names that follow from them.

use fairlead_api::{ClusterId, TenantId, resources::VaultNames};
use serde_json::{Map, Value, json};

use crate::{
    access::DesiredAccess,
    jwk::{self, KeysError},
};

/// Settings of all clusters' access.
#[derive(Debug, Clone)]
pub(crate) struct AccessSettings {
    /// Prefix of auth methods and policies.
    pub(crate) prefix: String,
    /// Path of the KV engine.
    pub(crate) kv: String,
    /// Path in it, with `{tenant}` and `{cluster}`.
    pub(crate) path: String,
    pub(crate) role: String,
    /// Each as `NAMESPACE/NAME`.
    pub(crate) service_accounts: Vec<ServiceAccount>,
    pub(crate) audience: String,
    /// Seconds.
    pub(crate) token_ttl: u64,
    /// Seconds.
    pub(crate) token_max_ttl: u64,
}

/// A service account that may log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceAccount {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl AccessSettings {
    pub(crate) fn names(&self, tenant: &TenantId, cluster: &ClusterId) -> VaultNames {
        let name = format!("{}-{tenant}-{cluster}", self.prefix);
        let path = self.path.replace("{tenant}", tenant.as_str());
        VaultNames {
            owner: format!("{cluster} of {tenant}"),
            mount: name.clone(),
            policy: name,
            kv: self.kv.clone(),
            path: path.replace("{cluster}", cluster.as_str()),
        }
    }

    /// # Errors
    /// [`KeysError`]
    pub(crate) fn desired(
        &self,
        tenant: &TenantId,
        cluster: &ClusterId,
        keys: &Value,
    ) -> Result<DesiredAccess, KeysError> {
        let names = self.names(tenant, cluster);
        let keys = jwk::read(keys)?;
        let mut config = Map::new();
        config.insert("jwt_validation_pubkeys".to_owned(), json!(keys.pem));
        config.insert("bound_issuer".to_owned(), json!(keys.issuer));
        let policy = policy(&names);
        let role = self.role_fields(&names);
        Ok(DesiredAccess {
            names,
            policy,
            config,
            role,
        })
    }

    fn role_fields(&self, names: &VaultNames) -> Map<String, Value> {
        let subjects = self.service_accounts.iter();
        let subjects: Vec<_> = subjects
            .map(|it| format!("system:serviceaccount:{}:{}", it.namespace, it.name))
            .collect();
        let role = json!({
            "role_type": "jwt",
            "user_claim": "sub",
            "bound_audiences": [self.audience],
            "bound_claims_type": "string",
            "bound_claims": { "sub": subjects },
            "token_policies": [names.policy],
            "token_ttl": self.token_ttl,
            "token_max_ttl": self.token_max_ttl,
        });
        match role {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }
}

/// First line of a policy, and the description of an auth method.
pub(crate) fn owner_mark(names: &VaultNames) -> String {
    format!("Fairlead: {}", names.owner)
}

/// Reads the own path only.
fn policy(names: &VaultNames) -> String {
    let VaultNames { kv, path, .. } = names;
    let mark = owner_mark(names);
    let mut text = format!("# {mark}\n");
    for (path, capabilities) in [
        (format!("{kv}/data/{path}"), "\"read\""),
        (format!("{kv}/data/{path}/*"), "\"read\""),
        (format!("{kv}/metadata/{path}"), "\"read\", \"list\""),
        (format!("{kv}/metadata/{path}/*"), "\"read\", \"list\""),
    ] {
        text.push_str(&format!(
            "path \"{path}\" {{\n  capabilities = [{capabilities}]\n}}\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> AccessSettings {
        AccessSettings {
            prefix: "fairlead".to_owned(),
            kv: "clusters/kv".to_owned(),
            path: "{tenant}/{cluster}".to_owned(),
            role: "cluster".to_owned(),
            service_accounts: vec![ServiceAccount {
                namespace: "syn".to_owned(),
                name: "secrets".to_owned(),
            }],
            audience: "vault".to_owned(),
            token_ttl: 900,
            token_max_ttl: 3600,
        }
    }

    #[test]
    fn a_policy_reads_the_own_path_only() {
        let names = settings().names(&"t-acme".parse().unwrap(), &"c-edge".parse().unwrap());
        assert_eq!(names.mount, "fairlead-t-acme-c-edge");
        let text = policy(&names);
        assert!(text.starts_with("# Fairlead: c-edge of t-acme\n"), "{text}");
        let paths = text.lines().filter(|line| line.starts_with("path "));
        for line in paths {
            let is_own = line.contains("/t-acme/c-edge\"") || line.contains("/t-acme/c-edge/*\"");
            assert!(is_own, "{line}");
        }
        assert!(!text.contains("update") && !text.contains("sudo"), "{text}");
    }

    #[test]
    fn a_role_is_bound_to_subjects_and_audience() {
        let settings = settings();
        let names = settings.names(&"t-acme".parse().unwrap(), &"c-edge".parse().unwrap());
        let role = settings.role_fields(&names);
        assert_eq!(
            role["bound_claims"],
            json!({ "sub": ["system:serviceaccount:syn:secrets"] })
        );
        assert_eq!(role["bound_audiences"], json!(["vault"]));
        assert_eq!(role["token_policies"], json!([names.policy]));
    }
}
