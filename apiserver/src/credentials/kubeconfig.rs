//! One context of a kubeconfig, read as kubectl does: token, token file, password, client certificate or
//! credential plugin. `auth-provider`, dropped by kubectl, and `insecure-skip-tls-verify`, which would leave
//! the API server unchecked, are rejected. No proxy is ever used.

use std::path::{Path, PathBuf};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use time::OffsetDateTime;

use super::{
    endpoint::{ApiServerAddress, ClientCertificate, Trust, certificates},
    error::CredentialsError,
    exec,
    files::{bearer, read},
    kubeconfig_file::{KubeconfigCluster, KubeconfigFile, User},
    loaded::LoadedCredential,
};

pub(super) struct FromKubeconfig {
    path: PathBuf,
    context: Option<String>,
}

/// Credential of the agent.
#[derive(Default)]
struct Authentication {
    authorization: Option<HeaderValue>,
    client: Option<ClientCertificate>,
    expires: Option<OffsetDateTime>,
}

impl FromKubeconfig {
    pub(super) fn new(path: PathBuf, context: Option<String>) -> Self {
        FromKubeconfig { path, context }
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    pub(super) async fn load(&self) -> Result<LoadedCredential, CredentialsError> {
        let text = SecretString::from(read(&self.path).await?);
        // A YAML error quotes lines that may contain a token: only its position is repeated.
        let file: KubeconfigFile =
            serde_saphyr::from_str(text.expose_secret()).map_err(|error| {
                let place = error.location().map_or_else(String::new, |at| {
                    format!(" (line {}, column {})", at.line(), at.column())
                });
                let path = self.path.display();
                CredentialsError::Kubeconfig(format!("{path} does not read as a kubeconfig{place}"))
            })?;
        let dir = self.path.parent().unwrap_or(Path::new(""));
        let (cluster, user) = file
            .context(self.context.as_deref(), dir)
            .map_err(CredentialsError::Kubeconfig)?;
        check(&cluster, &user)?;
        let server = cluster.server.parse().map_err(|_| unusable("server"))?;
        let authentication = authentication(&user, &cluster).await?;
        let mut files = self.files();
        let named = [
            &cluster.certificate_authority,
            &user.client_certificate,
            &user.client_key,
            &user.token_file,
        ];
        files.extend(named.into_iter().flatten().cloned());
        Ok(LoadedCredential {
            address: ApiServerAddress {
                server,
                server_name: cluster.tls_server_name.clone(),
            },
            trust: Trust {
                ca: authority(&cluster).await?,
                client: authentication.client,
            },
            authorization: authentication.authorization,
            files,
            expires: authentication.expires,
        })
    }
}

fn check(cluster: &KubeconfigCluster, user: &User) -> Result<(), CredentialsError> {
    let refused = if cluster.insecure_skip_tls_verify {
        "insecure-skip-tls-verify is not supported; name the CA in certificate-authority"
    } else if cluster.proxy_url.is_some() {
        "proxy-url is not supported"
    } else if user.auth_provider.is_some() {
        "auth-provider is not supported; use a credential plugin"
    } else {
        return Ok(());
    };
    Err(CredentialsError::Kubeconfig(refused.to_owned()))
}

type CaCertificates = Option<Vec<rustls::pki_types::CertificateDer<'static>>>;

async fn authority(cluster: &KubeconfigCluster) -> Result<CaCertificates, CredentialsError> {
    let pem = match (
        &cluster.certificate_authority_data,
        &cluster.certificate_authority,
    ) {
        (Some(data), _) => decode(data).ok_or_else(|| unusable("certificate-authority-data"))?,
        (None, Some(path)) => read(path).await?,
        (None, None) => return Ok(None),
    };
    certificates(&pem)
        .map(Some)
        .ok_or_else(|| unusable("certificate-authority"))
}

/// Sources in kubectl's order of precedence.
async fn authentication(
    user: &User,
    cluster: &KubeconfigCluster,
) -> Result<Authentication, CredentialsError> {
    let mut authentication = Authentication {
        client: client_certificate(user).await?,
        ..Authentication::default()
    };
    if let Some(token) = &user.token {
        authentication.authorization =
            Some(bearer(token.expose_secret()).ok_or_else(|| unusable("token"))?);
    } else if let Some(path) = &user.token_file {
        let token = SecretString::from(read(path).await?);
        authentication.authorization =
            Some(bearer(token.expose_secret()).ok_or_else(|| unusable("tokenFile"))?);
    } else if let (Some(name), Some(password)) = (&user.username, &user.password) {
        let both = STANDARD.encode(format!("{name}:{}", password.expose_secret()));
        let mut value =
            HeaderValue::try_from(format!("Basic {both}")).map_err(|_| unusable("password"))?;
        value.set_sensitive(true);
        authentication.authorization = Some(value);
    } else if let Some(plugin) = &user.exec {
        let credential = exec::run(plugin, &cluster_info(cluster)).await?;
        authentication.authorization = credential.authorization;
        authentication.client = credential.client.or(authentication.client);
        authentication.expires = credential.expires;
    }
    Ok(authentication)
}

/// Description of the cluster for a plugin that requests it.
fn cluster_info(cluster: &KubeconfigCluster) -> serde_json::Value {
    let data = cluster.certificate_authority_data.clone().or_else(|| {
        let pem = std::fs::read(cluster.certificate_authority.as_ref()?).ok()?;
        Some(STANDARD.encode(pem))
    });
    let mut cluster_info = json!({ "server": cluster.server });
    if let Some(object) = cluster_info.as_object_mut() {
        object.extend(
            cluster
                .tls_server_name
                .iter()
                .map(|name| ("tls-server-name".to_owned(), json!(name))),
        );
        object.extend(data.map(|data| ("certificate-authority-data".to_owned(), json!(data))));
        object.extend(
            cluster
                .plugin_config()
                .map(|config| ("config".to_owned(), config.clone())),
        );
    }
    cluster_info
}

async fn client_certificate(user: &User) -> Result<Option<ClientCertificate>, CredentialsError> {
    let chain = match (&user.client_certificate_data, &user.client_certificate) {
        (Some(data), _) => decode(data).ok_or_else(|| unusable("client-certificate-data"))?,
        (None, Some(path)) => read(path).await?,
        (None, None) => return Ok(None),
    };
    let key = match (&user.client_key_data, &user.client_key) {
        (Some(data), _) => {
            decode(data.expose_secret()).ok_or_else(|| unusable("client-key-data"))?
        }
        (None, Some(path)) => read(path).await?,
        (None, None) => return Err(unusable("client-key is missing")),
    };
    Ok(Some(ClientCertificate {
        chain,
        key: key.into(),
    }))
}

fn decode(data: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(data.trim()).ok()?).ok()
}

fn unusable(field: &str) -> CredentialsError {
    CredentialsError::Kubeconfig(format!("unusable {field}"))
}
