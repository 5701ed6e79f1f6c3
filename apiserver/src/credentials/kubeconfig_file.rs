//! Kubeconfig file in kubectl's format, with the relevant fields. Paths are relative to its directory.

use std::path::{Path, PathBuf};

use secrecy::SecretString;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct KubeconfigFile {
    #[serde(default, deserialize_with = "null_is_empty")]
    clusters: Vec<NamedCluster>,
    #[serde(default, deserialize_with = "null_is_empty")]
    contexts: Vec<NamedContext>,
    #[serde(default, deserialize_with = "null_is_empty")]
    users: Vec<NamedUser>,
    current_context: Option<String>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: KubeconfigCluster,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    #[serde(default)]
    user: Option<User>,
}

#[derive(Deserialize)]
struct Context {
    cluster: String,
    user: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct KubeconfigCluster {
    pub(super) server: String,
    #[serde(default)]
    pub(super) insecure_skip_tls_verify: bool,
    pub(super) certificate_authority: Option<PathBuf>,
    pub(super) certificate_authority_data: Option<String>,
    pub(super) tls_server_name: Option<String>,
    pub(super) proxy_url: Option<String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    extensions: Vec<Extension>,
}

#[derive(Deserialize)]
struct Extension {
    name: String,
    extension: serde_json::Value,
}

impl KubeconfigCluster {
    /// Configuration for plugins from the cluster's extensions.
    pub(super) fn plugin_config(&self) -> Option<&serde_json::Value> {
        let ours = self
            .extensions
            .iter()
            .find(|extension| extension.name == "client.authentication.k8s.io/exec");
        ours.map(|extension| &extension.extension)
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub(super) struct User {
    pub(super) token: Option<SecretString>,
    // The only field in camel case.
    #[serde(rename = "tokenFile")]
    pub(super) token_file: Option<PathBuf>,
    pub(super) username: Option<String>,
    pub(super) password: Option<SecretString>,
    pub(super) client_certificate: Option<PathBuf>,
    pub(super) client_certificate_data: Option<String>,
    pub(super) client_key: Option<PathBuf>,
    pub(super) client_key_data: Option<SecretString>,
    pub(super) exec: Option<Plugin>,
    pub(super) auth_provider: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plugin {
    pub(super) api_version: Option<String>,
    pub(super) command: PathBuf,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub(super) args: Vec<String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub(super) env: Vec<Variable>,
    #[serde(default)]
    pub(super) provide_cluster_info: bool,
}

#[derive(Deserialize)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) value: SecretString,
}

impl KubeconfigFile {
    /// Cluster and user of one context; None: the current context.
    pub(super) fn context(
        self,
        name: Option<&str>,
        dir: &Path,
    ) -> Result<(KubeconfigCluster, User), String> {
        let KubeconfigFile {
            clusters,
            contexts,
            users,
            current_context,
        } = self;
        let current = current_context.filter(|name| !name.is_empty());
        let name = name
            .or(current.as_deref())
            .ok_or("it has no current context; name one")?;
        let context = contexts.into_iter().find(|named| named.name == name);
        let context = context
            .ok_or_else(|| format!("it has no context {name:?}"))?
            .context;
        let cluster = clusters
            .into_iter()
            .find(|named| named.name == context.cluster);
        let mut cluster = cluster
            .ok_or_else(|| format!("it has no cluster {:?}", context.cluster))?
            .cluster;
        absolute(dir, [&mut cluster.certificate_authority]);
        let Some(name) = context.user.filter(|user| !user.is_empty()) else {
            return Ok((cluster, User::default()));
        };
        let user = users.into_iter().find(|named| named.name == name);
        let mut user = user
            .ok_or_else(|| format!("it has no user {name:?}"))?
            .user
            .unwrap_or_default();
        absolute(
            dir,
            [
                &mut user.token_file,
                &mut user.client_certificate,
                &mut user.client_key,
            ],
        );
        if let Some(plugin) = &mut user.exec
            && plugin.command.components().count() > 1
        {
            plugin.command = dir.join(&plugin.command);
        }
        Ok((cluster, user))
    }
}

fn absolute<const N: usize>(dir: &Path, paths: [&mut Option<PathBuf>; N]) {
    for path in paths {
        *path = path
            .take()
            .filter(|path| !path.as_os_str().is_empty())
            .map(|path| dir.join(path));
    }
}

/// Reads `null` as an empty list, as kubectl writes it.
fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default())
}
