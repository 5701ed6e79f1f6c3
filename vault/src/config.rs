//! Configuration file of the hub's Vault.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

use fairlead_api::{ClusterId, Code, Failure, TenantId, TimeSpan, error_chain};
use http::HeaderValue;
use reqwest::{Client, redirect};
use serde::Deserialize;
use url::{Host, Url};

use crate::{
    calls::VaultCalls,
    login::{HubLogin, RoleCredentials},
    overrides::{AuthMethod, OverrideTable, Overrides},
    settings::{AccessSettings, ServiceAccount},
    vault::Vault,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    address: String,
    token_file: Option<PathBuf>,
    approle: Option<AppRoleTable>,
    kubernetes: Option<KubernetesTable>,
    ca_file: Option<PathBuf>,
    namespace: Option<String>,
    #[serde(default = "default_prefix")]
    prefix: String,
    #[serde(default = "default_kv")]
    kv_mount: String,
    #[serde(default = "default_path")]
    path: String,
    #[serde(default = "default_role")]
    role: String,
    service_accounts: Vec<String>,
    #[serde(default = "default_audience")]
    audience: String,
    #[serde(default = "default_ttl")]
    token_ttl: String,
    #[serde(default = "default_max_ttl")]
    token_max_ttl: String,
    #[serde(default)]
    delete_secrets: bool,
    #[serde(default)]
    auth_method: AuthMethod,
    #[serde(default)]
    tenants: BTreeMap<TenantId, OverrideTable>,
    #[serde(default)]
    clusters: BTreeMap<ClusterId, OverrideTable>,
}

/// Login of the hub by AppRole.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AppRoleTable {
    role_id_file: PathBuf,
    secret_id_file: PathBuf,
    #[serde(default = "default_approle_mount")]
    mount: String,
}

/// Login of the hub by its ServiceAccount.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KubernetesTable {
    role: String,
    #[serde(default = "default_kubernetes_mount")]
    mount: String,
    #[serde(default = "default_account_token")]
    token_file: PathBuf,
}

fn default_approle_mount() -> String {
    "approle".to_owned()
}

fn default_kubernetes_mount() -> String {
    "kubernetes".to_owned()
}

fn default_account_token() -> PathBuf {
    PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount/token")
}

fn default_prefix() -> String {
    "fairlead".to_owned()
}

/// Engine of Project Syn.
fn default_kv() -> String {
    "clusters/kv".to_owned()
}

fn default_path() -> String {
    "{tenant}/{cluster}".to_owned()
}

fn default_role() -> String {
    "cluster".to_owned()
}

fn default_audience() -> String {
    "vault".to_owned()
}

fn default_ttl() -> String {
    "15m".to_owned()
}

fn default_max_ttl() -> String {
    "1h".to_owned()
}

/// Reads the configuration file.
///
/// # Errors
/// `FL-4101` with the first mistake.
pub fn open(path: &Path) -> Result<Vault, Failure> {
    let at = |cause: String| {
        let cause = format!("{}: {cause}", path.display());
        Failure::because(Code::BadConfig, cause)
    };
    let text = fs::read_to_string(path).map_err(|error| at(error.to_string()))?;
    let file: ConfigFile = toml::from_str(&text).map_err(|error| at(error.to_string()))?;
    file.build().map_err(at)
}

impl ConfigFile {
    fn build(self) -> Result<Vault, String> {
        let address = address(&self.address)?;
        let login = login(self.token_file, self.approle, self.kubernetes)?;
        login.check()?;
        let http = client(self.ca_file.as_deref())?;
        let namespace = self.namespace.as_deref().map(HeaderValue::from_str);
        let namespace = namespace.transpose();
        let namespace = namespace.map_err(|_| "namespace: invalid characters".to_owned())?;
        let settings = AccessSettings {
            prefix: one_segment("prefix", &self.prefix)?,
            kv: segments("kv_mount", &self.kv_mount)?,
            path: path_template(&self.path)?,
            role: one_segment("role", &self.role)?,
            service_accounts: service_accounts(&self.service_accounts)?,
            audience: match self.audience.trim() {
                "" => return Err("audience: empty".to_owned()),
                audience => audience.to_owned(),
            },
            token_ttl: seconds("token_ttl", &self.token_ttl)?,
            token_max_ttl: seconds("token_max_ttl", &self.token_max_ttl)?,
            method: self.auth_method,
            tenants: overrides("tenants", self.tenants)?,
            clusters: overrides("clusters", self.clusters)?,
        };
        if settings.token_ttl > settings.token_max_ttl {
            return Err("token_ttl: longer than token_max_ttl".to_owned());
        }
        Ok(Vault {
            calls: VaultCalls {
                http,
                address,
                namespace,
                login,
            },
            settings,
            deletes_secrets: self.delete_secrets,
            renewed: Mutex::new(None),
        })
    }
}

/// One login, and no other.
fn login(
    file: Option<PathBuf>,
    approle: Option<AppRoleTable>,
    kubernetes: Option<KubernetesTable>,
) -> Result<HubLogin, String> {
    let role = |mount: String, credentials| {
        let mount = segments("mount", &mount)?;
        let token = tokio::sync::Mutex::new(None);
        Ok(HubLogin::Role {
            mount,
            credentials,
            token,
        })
    };
    match (file, approle, kubernetes) {
        (Some(file), None, None) => Ok(HubLogin::File(file)),
        (None, Some(table), None) => {
            let credentials = RoleCredentials::AppRole {
                role_id_file: table.role_id_file,
                secret_id_file: table.secret_id_file,
            };
            role(table.mount, credentials)
        }
        (None, None, Some(table)) => {
            let credentials = RoleCredentials::Kubernetes {
                role: one_segment("kubernetes.role", &table.role)?,
                token_file: table.token_file,
            };
            role(table.mount, credentials)
        }
        _ => Err("expected exactly one of token_file, [approle] and [kubernetes]".to_owned()),
    }
}

fn overrides<K: Ord + std::fmt::Display>(
    field: &str,
    tables: BTreeMap<K, OverrideTable>,
) -> Result<BTreeMap<K, Overrides>, String> {
    let read = |(id, table): (K, OverrideTable)| match table.read() {
        Ok(overrides) => Ok((id, overrides)),
        Err(error) => Err(format!("{field}.{id}: {error}")),
    };
    tables.into_iter().map(read).collect()
}

/// The token goes there, so only loopback may be without TLS.
fn address(text: &str) -> Result<Url, String> {
    let form = "address: expected https://host[:port], without user and query".to_owned();
    let Ok(url) = text.parse::<Url>() else {
        return Err(form);
    };
    let is_loopback = match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => return Err(form),
    };
    let is_plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    match url.scheme() {
        _ if !is_plain => Err(form),
        "https" => Ok(url),
        "http" if is_loopback => Ok(url),
        "http" => Err("address: http would send the token in clear text; use https".to_owned()),
        _ => Err(form),
    }
}

fn is_word(text: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    !text.is_empty() && !text.starts_with('.') && text.chars().all(is_plain)
}

fn one_segment(field: &str, text: &str) -> Result<String, String> {
    match is_word(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("{field}: expected letters, digits, -, _ and .")),
    }
}

fn segments(field: &str, text: &str) -> Result<String, String> {
    match text.split('/').all(is_word) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{field}: expected words of letters, digits, -, _ and ., with slashes between them"
        )),
    }
}

/// Each cluster has a path of its own, so the last part names the cluster.
fn path_template(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let is_placeholder = |part: &str| matches!(part, "{tenant}" | "{cluster}");
    let is_valid = parts
        .iter()
        .all(|part| is_placeholder(part) || is_word(part));
    match is_valid && parts.last() == Some(&"{cluster}") {
        true => Ok(text.to_owned()),
        false => Err("path: expected words and {tenant}, with slashes between them, and {cluster} at the end".to_owned()),
    }
}

pub(crate) fn service_accounts(texts: &[String]) -> Result<Vec<ServiceAccount>, String> {
    if texts.is_empty() {
        return Err("service_accounts: expected at least one NAMESPACE/NAME".to_owned());
    }
    let accounts = texts.iter().map(|text| {
        let parts = text.split_once('/');
        let parts = parts.filter(|(namespace, name)| is_word(namespace) && is_word(name));
        let (namespace, name) =
            parts.ok_or_else(|| format!("service_accounts: {text:?}: expected NAMESPACE/NAME"))?;
        Ok(ServiceAccount {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    });
    accounts.collect()
}

fn seconds(field: &str, text: &str) -> Result<u64, String> {
    let span: TimeSpan = text.parse().map_err(|error| format!("{field}: {error}"))?;
    match span.0.as_secs() {
        0 => Err(format!("{field}: shorter than a second")),
        seconds => Ok(seconds),
    }
}

fn client(ca_file: Option<&Path>) -> Result<Client, String> {
    let read = |path: &Path| {
        let text = fs::read_to_string(path);
        text.map_err(|error| format!("ca_file: {}: {error}", path.display()))
    };
    let ca = ca_file.map(read).transpose()?;
    let tls = fairlead_certs::outer_client(ca.as_deref(), None)
        .map_err(|error| format!("ca_file: {}", error_chain(&error)))?;
    let client = Client::builder()
        .tls_backend_preconfigured((*tls).clone())
        // A redirect could carry the token to another server.
        .redirect(redirect::Policy::none())
        .build();
    client.map_err(|error| error_chain(&error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const COMPLETE: &str = "address = \"https://vault.example:8200\"\ntoken_file = \"TOKEN\"\nservice_accounts = [\"syn/secrets\"]\n";

    fn opened(text: &str) -> Result<Vault, String> {
        let home = tempfile::tempdir().unwrap();
        let token = home.path().join("token");
        fs::write(&token, "hvs.secret").unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        let path = home.path().join("vault.toml");
        fs::write(&path, text.replace("TOKEN", &token.display().to_string())).unwrap();
        open(&path).map_err(|failure| failure.cause)
    }

    #[test]
    fn defaults_follow_project_syn() {
        let vault = opened(COMPLETE).unwrap();
        let (tenant, cluster) = ("t-acme".parse().unwrap(), "c-edge".parse().unwrap());
        let names = vault.settings.names(&tenant, &cluster);
        assert_eq!(
            (names.kv, names.path),
            ("clusters/kv".to_owned(), "t-acme/c-edge".to_owned())
        );
        assert!(
            !vault.deletes_secrets,
            "secrets stay unless the file says otherwise"
        );
    }

    #[test]
    fn mistakes_name_the_field() {
        for (text, expected) in [
            (COMPLETE.replace("https", "http"), "clear text"),
            (
                COMPLETE.replace("vault.example", "me@vault.example"),
                "address",
            ),
            (COMPLETE.replace("TOKEN", "/missing"), "token_file"),
            (COMPLETE.replace("syn/secrets", "secrets"), "NAMESPACE/NAME"),
            (
                COMPLETE.replace("[\"syn/secrets\"]", "[]"),
                "service_accounts",
            ),
            (
                format!("{COMPLETE}path = \"{{tenant}}\"\n"),
                "{cluster} at the end",
            ),
            (format!("{COMPLETE}path = \"*/{{cluster}}\"\n"), "path"),
            (format!("{COMPLETE}kv_mount = \"/kv\"\n"), "kv_mount"),
            (format!("{COMPLETE}token_ttl = \"2h\"\n"), "token_ttl"),
            (format!("{COMPLETE}token_ttl = \"soon\"\n"), "token_ttl"),
            (format!("{COMPLETE}token = \"hvs\"\n"), "unknown field"),
            (
                format!("{COMPLETE}[kubernetes]\nrole = \"hub\"\n"),
                "exactly one of token_file",
            ),
            (
                COMPLETE.replace("token_file = \"TOKEN\"", ""),
                "exactly one of token_file",
            ),
            (
                format!("{COMPLETE}[clusters.c-edge]\nkubernetes_host = \"http://x\"\n"),
                "clusters.c-edge: kubernetes_host",
            ),
            (
                format!("{COMPLETE}[tenants.t-acme]\nauth_method = \"ldap\"\n"),
                "unknown variant",
            ),
        ] {
            let Err(cause) = opened(&text) else {
                panic!("{text}");
            };
            assert!(cause.contains(expected), "{text}: {cause}");
        }
    }
}
