//! Service account of a pod: `token` and `ca.crt` in one directory. The kubelet swaps it as a whole by a
//! symlink, about once an hour.

use std::path::{Path, PathBuf};

use http::Uri;

use super::{
    endpoint::{ApiServerAddress, Trust, certificates},
    error::CredentialsError,
    files::{bearer, read},
    loaded::LoadedCredential,
};

pub(super) struct InCluster {
    server: String,
    token: PathBuf,
    ca: PathBuf,
}

impl InCluster {
    pub(super) fn new(host: &str, port: u16, dir: &Path) -> Self {
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        InCluster {
            server: format!("https://{host}:{port}"),
            token: dir.join("token"),
            ca: dir.join("ca.crt"),
        }
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        vec![self.token.clone(), self.ca.clone()]
    }

    pub(super) async fn load(&self) -> Result<LoadedCredential, CredentialsError> {
        let server: Uri = self
            .server
            .parse()
            .map_err(|_| CredentialsError::Tls(format!("{} is not a URL", self.server)))?;
        let content = |path: &Path, kind| CredentialsError::Content {
            path: path.to_owned(),
            kind,
        };
        let token = read(&self.token).await?;
        let ca = read(&self.ca).await?;
        Ok(LoadedCredential {
            address: ApiServerAddress {
                server,
                server_name: None,
            },
            trust: Trust {
                ca: Some(certificates(&ca).ok_or_else(|| content(&self.ca, "CA certificate"))?),
                client: None,
            },
            authorization: Some(bearer(&token).ok_or_else(|| content(&self.token, "token"))?),
            files: self.files(),
            expires: None,
        })
    }
}
