//! Configuration file: a table `[[server]]` for each Git server, the first that serves a repository
//! is responsible for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use fairlead_api::{Code, Failure, error_chain};
use fairlead_repositories::{GitServer, GitServers};
use reqwest::{Client, redirect};
use serde::Deserialize;
use tokio::sync::OnceCell;
use url::{Host, Url};

use crate::{
    address::CloneAddress, api_calls::RateLimit, credentials::TokenFiles, detect::ProviderKind,
    groups::TenantGroups, kubernetes_secrets::KubernetesSecrets, server::ProvidedServer,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    #[serde(default)]
    server: Vec<ServerSettings>,
}

/// Settings of one Git server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    /// Name in reasons and logs.
    pub name: String,
    /// Address of its website, like `https://git.example`.
    pub endpoint: String,
    /// `None` is found by a request to the endpoint.
    #[serde(default)]
    pub provider: Option<ProviderKind>,
    /// File with the token of its API.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// Folder with tokens by `apiSecretRef`: `NAMESPACE/NAME`.
    #[serde(default)]
    pub credentials_dir: Option<PathBuf>,
    /// Whether `apiSecretRef` names Secrets of the cluster in which the hub runs.
    #[serde(default)]
    pub kubernetes_secrets: bool,
    /// Host of its SSH server; that of the endpoint if empty.
    #[serde(default)]
    pub ssh_host: Option<String>,
    /// Port of its SSH server.
    #[serde(default)]
    pub ssh_port: Option<u16>,
    /// Host keys of its SSH server, in the format of `known_hosts`.
    #[serde(default)]
    pub host_keys: Option<String>,
    /// Whether missing groups and organisations are created.
    #[serde(default)]
    pub create_groups: bool,
    /// CA of the endpoint, PEM, in addition to the system's CAs.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Groups by tenant: `acme`, or `acme/*` for all below. Without an entry all are free.
    #[serde(default)]
    pub tenants: BTreeMap<String, Vec<String>>,
}

/// Reads the configuration file.
///
/// # Errors
/// `FL-4101` with the first mistake.
pub fn open(path: &Path) -> Result<GitServers, Failure> {
    let shared = |server| Arc::new(server) as Arc<dyn GitServer>;
    Ok(GitServers::new(
        open_each(path)?.into_iter().map(shared).collect(),
    ))
}

/// As [`open`], for callers that check each server.
///
/// # Errors
/// As [`open`].
pub fn open_each(path: &Path) -> Result<Vec<ProvidedServer>, Failure> {
    let at = |cause: String| bad(format!("{}: {cause}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| at(error.to_string()))?;
    let file: ConfigFile = toml::from_str(&text).map_err(|error| at(error.to_string()))?;
    if file.server.is_empty() {
        return Err(at("no table [[server]]".to_owned()));
    }
    let mut names = BTreeSet::new();
    let mut servers = Vec::new();
    for settings in file.server {
        if !names.insert(settings.name.clone()) {
            return Err(at(format!("two servers have the name {:?}", settings.name)));
        }
        servers.push(settings.build().map_err(at)?);
    }
    Ok(servers)
}

fn bad(cause: String) -> Failure {
    Failure::because(Code::BadConfig, cause)
}

impl ServerSettings {
    /// Checks the settings and makes the client.
    ///
    /// # Errors
    /// `FL-4101` with the first mistake.
    pub fn open(self) -> Result<ProvidedServer, Failure> {
        self.build().map_err(bad)
    }

    /// As [`ServerSettings::open`], with the mistake as text.
    fn build(self) -> Result<ProvidedServer, String> {
        let name = self.name.trim().to_owned();
        if name.is_empty() {
            return Err("[[server]] name: empty".to_owned());
        }
        let wrong = |cause: String| format!("server {name}: {cause}");
        let endpoint = endpoint(&self.endpoint).map_err(&wrong)?;
        let tokens = TokenFiles {
            file: self.token_file,
            folder: self.credentials_dir,
        };
        let secrets = match self.kubernetes_secrets {
            true => Some(KubernetesSecrets::of_pod(client)),
            false => None,
        };
        let secrets = secrets.transpose();
        let secrets = secrets.map_err(|cause| wrong(format!("kubernetes_secrets: {cause}")))?;
        match (&tokens.file, &tokens.folder) {
            (_, Some(_)) if secrets.is_some() => {
                let cause = "credentials_dir and kubernetes_secrets exclude each other";
                return Err(wrong(cause.to_owned()));
            }
            (None, None) if secrets.is_none() => {
                let cause = "token_file, credentials_dir or kubernetes_secrets is missing";
                return Err(wrong(cause.to_owned()));
            }
            (Some(_), _) => {
                let token = tokens.read(None);
                token.map_err(|error| wrong(error.to_string()))?;
            }
            (None, Some(folder)) if !folder.is_dir() => {
                return Err(wrong("credentials_dir: no such folder".to_owned()));
            }
            _ => {}
        }
        let host_keys = self.host_keys.as_deref().map(host_keys).transpose();
        let host_keys = host_keys.map_err(&wrong)?;
        let groups = TenantGroups::new(self.tenants).map_err(&wrong)?;
        let http = client(self.ca_file.as_deref()).map_err(&wrong)?;
        let host = endpoint.host_str().unwrap_or_default().to_owned();
        let kind = match self.provider {
            Some(kind) => OnceCell::new_with(Some(kind)),
            None => OnceCell::new(),
        };
        Ok(ProvidedServer {
            address: CloneAddress {
                web: endpoint.clone(),
                ssh_host: self.ssh_host.unwrap_or(host),
                ssh_port: self.ssh_port,
            },
            name,
            endpoint,
            http,
            tokens,
            secrets,
            host_keys,
            creates_groups: self.create_groups,
            groups,
            kind,
            limit: Arc::new(RateLimit::default()),
        })
    }
}

/// The token goes there, so only loopback may be without TLS.
fn endpoint(text: &str) -> Result<Url, String> {
    let form = "endpoint: expected https://host[/path], without user and query".to_owned();
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
        "http" => Err("endpoint: http would send the token in clear text; use https".to_owned()),
        _ => Err(form),
    }
}

/// Lines of `known_hosts`, each with host, type and key.
fn host_keys(text: &str) -> Result<String, String> {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .collect();
    let is_key = |line: &&str| line.starts_with('#') || line.split_ascii_whitespace().count() >= 3;
    match lines.iter().position(|line| !is_key(line)) {
        Some(index) => {
            let number = index + 1;
            Err(format!(
                "host_keys, line {number}: expected HOST TYPE KEY, as ssh-keyscan prints"
            ))
        }
        None => Ok(lines.join("\n") + "\n"),
    }
}

pub(crate) fn client(ca_file: Option<&Path>) -> Result<Client, String> {
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

    fn opened(text: &str) -> Result<GitServers, String> {
        let home = tempfile::tempdir().unwrap();
        let token = home.path().join("token");
        fs::write(&token, "glpat-1").unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        let path = home.path().join("git.toml");
        let text = text.replace("TOKEN", &token.display().to_string());
        fs::write(&path, text).unwrap();
        open(&path).map_err(|failure| failure.cause)
    }

    #[test]
    fn servers_are_read_in_their_order() {
        let servers = opened(
            "[[server]]\nname = \"b\"\nendpoint = \"https://b.example\"\nprovider = \"forgejo\"\ntoken_file = \"TOKEN\"\n\
             [[server]]\nname = \"a\"\nendpoint = \"http://127.0.0.1:3000\"\ntoken_file = \"TOKEN\"\nssh_port = 2222\n",
        );
        assert_eq!(format!("{:?}", servers.unwrap()), "[\"b\", \"a\"]");
    }

    #[test]
    fn mistakes_name_the_server_and_the_field() {
        let server = |rest: &str| format!("[[server]]\nname = \"one\"\n{rest}");
        for (text, expected) in [
            (String::new(), "no table [[server]]"),
            (
                server("endpoint = \"https://a.example\""),
                "server one: token_file, credentials_dir or kubernetes_secrets",
            ),
            (
                server("endpoint = \"http://a.example\"\ntoken_file = \"TOKEN\""),
                "clear text",
            ),
            (
                server("endpoint = \"https://me@a.example\"\ntoken_file = \"TOKEN\""),
                "server one: endpoint",
            ),
            (
                server("endpoint = \"https://a.example\"\ntoken_file = \"/missing\""),
                "server one: token of token_file",
            ),
            (
                server(
                    "endpoint = \"https://a.example\"\ntoken_file = \"TOKEN\"\nhost_keys = \"ssh-rsa\"",
                ),
                "host_keys, line 1",
            ),
            (
                server("endpoint = \"https://a.example\"\nkubernetes_secrets = true"),
                "server one: kubernetes_secrets: ca_file: /var/run/secrets",
            ),
            (
                server("endpoint = \"https://a.example\"\ntoken = \"glpat\""),
                "unknown field",
            ),
            (
                server(
                    "endpoint = \"https://a.example\"\nprovider = \"svn\"\ntoken_file = \"TOKEN\"",
                ),
                "unknown variant",
            ),
        ] {
            let cause = opened(&text).unwrap_err();
            assert!(cause.contains(expected), "{text}: {cause}");
        }
    }
}
