//! Settings of the access, and the names that follow from them.

use std::collections::BTreeMap;

use fairlead_api::{ClusterId, TenantId, resources::VaultNames};
use serde_json::{Map, Value, json};

use crate::{
    access::DesiredAccess,
    jwk::{self, KeysError},
    overrides::{AuthMethod, ClusterSettings, Overrides, crossed},
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
    pub(crate) method: AuthMethod,
    pub(crate) tenants: BTreeMap<TenantId, Overrides>,
    pub(crate) clusters: BTreeMap<ClusterId, Overrides>,
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
        let of = self.of(tenant, cluster);
        let (config, role) = match of.method {
            AuthMethod::Jwt => {
                let keys = jwk::read(keys)?;
                let config =
                    json!({ "jwt_validation_pubkeys": keys.pem, "bound_issuer": keys.issuer });
                (config, self.jwt_role(&of))
            }
            AuthMethod::Kubernetes => (kubernetes_config(&of)?, self.kubernetes_role(&of)?),
            AuthMethod::AppRole => (json!({}), json!({ "bind_secret_id": true })),
        };
        let mut role = fields(role);
        role.insert("token_policies".to_owned(), json!([names.policy]));
        role.insert("token_ttl".to_owned(), json!(self.token_ttl));
        role.insert("token_max_ttl".to_owned(), json!(self.token_max_ttl));
        Ok(DesiredAccess {
            method: of.method.as_str(),
            policy: policy(&names),
            config: fields(config),
            role,
            names,
        })
    }

    fn jwt_role(&self, of: &ClusterSettings<'_>) -> Value {
        let subjects = of.service_accounts.iter();
        let subjects: Vec<_> = subjects
            .map(|it| format!("system:serviceaccount:{}:{}", it.namespace, it.name))
            .collect();
        json!({
            "role_type": "jwt",
            "user_claim": "sub",
            "bound_audiences": [self.audience],
            "bound_claims_type": "string",
            "bound_claims": { "sub": subjects },
        })
    }

    fn kubernetes_role(&self, of: &ClusterSettings<'_>) -> Result<Value, KeysError> {
        let (names, namespaces) = crossed(of.service_accounts).map_err(KeysError::Settings)?;
        Ok(json!({
            "bound_service_account_names": names,
            "bound_service_account_namespaces": namespaces,
            "audience": self.audience,
        }))
    }
}

/// Vault asks the API server with the token of the login itself, so it keeps no credential of the cluster.
fn kubernetes_config(of: &ClusterSettings<'_>) -> Result<Value, KeysError> {
    let missing = || KeysError::Settings("kubernetes_host is missing for this cluster".to_owned());
    let server = of.kubernetes.ok_or_else(missing)?;
    Ok(json!({
        "kubernetes_host": server.host,
        "kubernetes_ca_cert": server.ca,
        "disable_local_ca_jwt": true,
    }))
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
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
            method: AuthMethod::Jwt,
            tenants: BTreeMap::new(),
            clusters: BTreeMap::new(),
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

    fn read(table: &str) -> Overrides {
        let table: crate::overrides::OverrideTable = toml::from_str(table).unwrap();
        table.read().unwrap()
    }

    fn role_of(settings: &AccessSettings, cluster: &str) -> (&'static str, Value) {
        let (tenant, cluster) = ("t-acme".parse().unwrap(), cluster.parse().unwrap());
        let keys = json!({ "issuer": "https://k", "keys": [{
            "kty": "EC", "crv": "P-256",
            "x": "lljvV-r8jPtgJ9-38koGGoad6GeTmtje2x6OsImRsTE",
            "y": "yzo194NxrMFhOnHpNCjgpzvpd-5CKKuoyHyeiTAQpfM",
        }] });
        let desired = settings.desired(&tenant, &cluster, &keys).unwrap();
        let policy = format!("fairlead-t-acme-{cluster}");
        assert_eq!(desired.role["token_policies"], json!([policy]));
        (desired.method, Value::Object(desired.role))
    }

    #[test]
    fn a_role_is_bound_to_subjects_and_audience() {
        let (method, role) = role_of(&settings(), "c-edge");
        assert_eq!(method, "jwt");
        let subjects = json!({ "sub": ["system:serviceaccount:syn:secrets"] });
        assert_eq!(role["bound_claims"], subjects);
        assert_eq!(role["bound_audiences"], json!(["vault"]));
    }

    #[test]
    fn settings_of_a_cluster_are_over_those_of_its_tenant() {
        let mut settings = settings();
        let of_tenant = read("auth_method = \"approle\"\nservice_accounts = [\"a/x\"]\n");
        settings
            .tenants
            .insert("t-acme".parse().unwrap(), of_tenant);
        let of_cluster =
            read("auth_method = \"kubernetes\"\nkubernetes_host = \"https://k.example:6443\"\n");
        settings
            .clusters
            .insert("c-edge".parse().unwrap(), of_cluster);
        let (method, role) = role_of(&settings, "c-edge");
        assert_eq!(method, "kubernetes");
        assert_eq!(role["bound_service_account_namespaces"], json!(["a"]));
        let (method, role) = role_of(&settings, "c-other");
        assert_eq!((method, &role["bind_secret_id"]), ("approle", &json!(true)));
    }

    #[test]
    fn kubernetes_without_a_host_is_no_access() {
        let mut settings = settings();
        settings.method = AuthMethod::Kubernetes;
        let (tenant, cluster) = ("t-acme".parse().unwrap(), "c-edge".parse().unwrap());
        let error = settings
            .desired(&tenant, &cluster, &Value::Null)
            .unwrap_err();
        assert!(error.to_string().contains("kubernetes_host"), "{error}");
    }
}
