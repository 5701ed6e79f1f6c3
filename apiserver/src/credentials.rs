//! API server of the site: address, TLS trust and the agent's credential. Changed files are read again. No
//! credential is ever logged or sent to the hub.

use std::{path::PathBuf, sync::Arc, time::Duration};

use fairlead_dialer::sync::lock;
use http::HeaderValue;
use time::OffsetDateTime;
use tokio::{sync::Mutex, time::Instant};
use tracing::{info, warn};

use crate::config::ApiServerConfig;

pub(crate) mod endpoint;
pub(crate) mod error;
mod exec;
mod files;
mod in_cluster;
mod kubeconfig;
mod kubeconfig_file;
mod loaded;
pub(crate) mod location;

use endpoint::{Endpoint, Trust};
use error::CredentialsError;
use files::{Stamp, stamps};
use in_cluster::InCluster;
use kubeconfig::FromKubeconfig;
use loaded::LoadedCredential;
use location::ApiLocation;

/// Minimum time between two checks of the files.
const FILE_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Delay after a failed read, and minimum time between two reads forced by a 401.
const RELOAD_RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// An expiring credential is renewed this long before its end.
const RENEW_BEFORE_EXPIRY: time::Duration = time::Duration::seconds(60);

/// Endpoint with the credential for each request.
pub(crate) struct ApiAccess {
    pub(crate) endpoint: Arc<Endpoint>,
    /// The same endpoint without client certificate, for other tokens: the API server prefers a certificate to a token.
    pub(crate) without_certificate: Arc<Endpoint>,
    /// Marked as sensitive. None if a client certificate authenticates the agent.
    pub(crate) authorization: Option<HeaderValue>,
}

enum CredentialSource {
    InCluster(InCluster),
    Kubeconfig(FromKubeconfig),
}

impl CredentialSource {
    /// Files known before the first read.
    fn files(&self) -> Vec<PathBuf> {
        match self {
            CredentialSource::InCluster(source) => source.files(),
            CredentialSource::Kubeconfig(source) => source.files(),
        }
    }

    async fn load(&self) -> Result<LoadedCredential, CredentialsError> {
        match self {
            CredentialSource::InCluster(source) => source.load().await,
            CredentialSource::Kubeconfig(source) => source.load().await,
        }
    }
}

/// Credentials for the API server, always current.
pub struct ApiCredentials {
    source: CredentialSource,
    cached: Mutex<CredentialCache>,
    /// Access until the next check of the files. Changed under the lock of `cached` only.
    fresh: std::sync::Mutex<Option<FreshAccess>>,
}

struct FreshAccess {
    access: Arc<ApiAccess>,
    until: Instant,
}

#[derive(Default)]
struct CredentialCache {
    current: Option<CurrentCredential>,
    /// Cause of the last failed read.
    failed: Option<CredentialsError>,
    next_check: Option<Instant>,
    last_forced: Option<Instant>,
}

struct CurrentCredential {
    loaded: LoadedCredential,
    access: Arc<ApiAccess>,
    stamps: Vec<Stamp>,
}

impl ApiCredentials {
    /// Credentials of this API server; the first request reads them.
    #[must_use]
    pub fn new(target: &ApiServerConfig) -> Self {
        let source = match target {
            ApiServerConfig::InCluster { host, port, dir } => {
                CredentialSource::InCluster(InCluster::new(host, *port, dir))
            }
            ApiServerConfig::Kubeconfig { path, context } => {
                CredentialSource::Kubeconfig(FromKubeconfig::new(path.clone(), context.clone()))
            }
        };
        ApiCredentials {
            source,
            cached: Mutex::default(),
            fresh: std::sync::Mutex::default(),
        }
    }

    /// Access for the next request.
    ///
    /// # Errors
    ///
    /// [`CredentialsError`] until the first read succeeds. Later failures keep the last credential in use.
    pub(crate) async fn access(&self) -> Result<Arc<ApiAccess>, CredentialsError> {
        let now = Instant::now();
        if let Some(fresh) = &*lock(&self.fresh)
            && now < fresh.until
        {
            return Ok(fresh.access.clone());
        }
        let mut cached = self.cached.lock().await;
        if cached.next_check.is_none_or(|at| at <= Instant::now()) {
            self.refresh_if_changed(&mut cached).await;
        }
        match (&cached.current, &cached.failed) {
            (Some(current), _) => {
                *lock(&self.fresh) = cached.next_check.map(|until| FreshAccess {
                    access: current.access.clone(),
                    until,
                });
                Ok(current.access.clone())
            }
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Err(CredentialsError::Tls("nothing was read".to_owned())),
        }
    }

    /// Address and trust, for programs that bring a token of their own.
    ///
    /// # Errors
    ///
    /// As for [`ApiCredentials::access`].
    pub(crate) async fn location(&self) -> Result<ApiLocation, CredentialsError> {
        self.access().await?;
        let cached = self.cached.lock().await;
        let current = cached.current.as_ref();
        let current =
            current.ok_or_else(|| CredentialsError::Tls("nothing was read".to_owned()))?;
        Ok(ApiLocation::of(&current.loaded))
    }

    /// Reads again after the API server rejected `used` with 401, whether the files changed or not.
    pub(crate) async fn report_unauthorized(&self, used: &Arc<ApiAccess>) {
        let mut cached = self.cached.lock().await;
        let now = Instant::now();
        let ours = cached
            .current
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(&current.access, used));
        if ours
            && cached
                .last_forced
                .is_none_or(|at| now >= at + RELOAD_RETRY_INTERVAL)
        {
            warn!("API server rejected the agent's credential; reading it again");
            *lock(&self.fresh) = None;
            cached.last_forced = Some(now);
            self.reload(&mut cached).await;
        }
    }

    async fn refresh_if_changed(&self, cached: &mut CredentialCache) {
        if let Some(current) = &cached.current {
            let stamps = stamps(&current.loaded.files).await;
            let expired = current
                .loaded
                .expires
                .is_some_and(|at| at - RENEW_BEFORE_EXPIRY <= OffsetDateTime::now_utc());
            if stamps == current.stamps && !expired && cached.failed.is_none() {
                cached.next_check = Some(Instant::now() + FILE_POLL_INTERVAL);
                return;
            }
        }
        self.reload(cached).await;
    }

    async fn reload(&self, cached: &mut CredentialCache) {
        // Stamps come before the read, so that the next check detects a change in between.
        let known = cached.current.as_ref().map_or_else(
            || self.source.files(),
            |current| current.loaded.files.clone(),
        );
        let before = stamps(&known).await;
        let loaded = match self.source.load().await {
            Ok(loaded) => loaded,
            Err(error) => return cached.fail(error),
        };
        let stamps = if loaded.files == known {
            before
        } else {
            stamps(&loaded.files).await
        };
        let (endpoint, without_certificate) = match &cached.current {
            Some(current)
                if current.loaded.address == loaded.address
                    && current.loaded.trust.same(&loaded.trust) =>
            {
                let access = &current.access;
                (access.endpoint.clone(), access.without_certificate.clone())
            }
            _ => match endpoints(&loaded) {
                Ok(endpoints) => endpoints,
                Err(error) => return cached.fail(error),
            },
        };
        if cached.failed.take().is_some() || cached.current.is_some() {
            info!("API server credential reloaded");
        }
        let access = Arc::new(ApiAccess {
            endpoint,
            without_certificate,
            authorization: loaded.authorization.clone(),
        });
        cached.current = Some(CurrentCredential {
            loaded,
            access,
            stamps,
        });
        cached.next_check = Some(Instant::now() + FILE_POLL_INTERVAL);
    }
}

/// Endpoint with the client certificate of the credential, and the same one without.
fn endpoints(
    loaded: &LoadedCredential,
) -> Result<(Arc<Endpoint>, Arc<Endpoint>), CredentialsError> {
    let own = Arc::new(loaded.address.endpoint(&loaded.trust)?);
    if loaded.trust.client.is_none() {
        return Ok((own.clone(), own));
    }
    let trust = Trust {
        ca: loaded.trust.ca.clone(),
        client: None,
    };
    Ok((own, Arc::new(loaded.address.endpoint(&trust)?)))
}

impl CredentialCache {
    fn fail(&mut self, error: CredentialsError) {
        warn!(cause = %error, kept = self.current.is_some(), "API server credential cannot be read");
        self.failed = Some(error);
        // Without a credential the next attempt is soon; with one it can wait.
        let rest = if self.current.is_some() {
            RELOAD_RETRY_INTERVAL
        } else {
            FILE_POLL_INTERVAL
        };
        self.next_check = Some(Instant::now() + rest);
    }
}

#[cfg(test)]
mod tests;
