//! The API server as the agent sees it: where it is, how its TLS is checked, as whom the agent speaks. What comes from
//! files is read again when they change. No credential is ever logged or told to the hub.

use std::{path::PathBuf, sync::Arc, time::Duration};

use http::HeaderValue;
use time::OffsetDateTime;
use tokio::{sync::Mutex, time::Instant};
use tracing::{info, warn};

use crate::config::Target;

pub(crate) mod endpoint;
pub(crate) mod error;
mod exec;
mod files;
mod in_cluster;
mod kubeconfig;
mod kubeconfig_file;
mod loaded;

use endpoint::Endpoint;
use error::TargetError;
use files::{Stamp, stamps};
use in_cluster::InCluster;
use kubeconfig::FromKubeconfig;
use loaded::Loaded;

/// Files are looked at no more often than this.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After a failure to read them, and between two readings forced by a 401.
const REST: Duration = Duration::from_secs(5);
/// What expires is renewed this long before.
const EARLY: time::Duration = time::Duration::seconds(60);

/// An endpoint with the credential that goes into each request.
pub(crate) struct Access {
    pub(crate) endpoint: Arc<Endpoint>,
    /// Marked as sensitive. None where a client certificate speaks for the agent.
    pub(crate) authorization: Option<HeaderValue>,
}

enum Source {
    InCluster(InCluster),
    Kubeconfig(FromKubeconfig),
}

impl Source {
    /// What is known of its files before it was read.
    fn files(&self) -> Vec<PathBuf> {
        match self {
            Source::InCluster(source) => source.files(),
            Source::Kubeconfig(source) => source.files(),
        }
    }

    async fn load(&self) -> Result<Loaded, TargetError> {
        match self {
            Source::InCluster(source) => source.load().await,
            Source::Kubeconfig(source) => source.load().await,
        }
    }
}

/// The agent's credentials for its API server, always fresh.
pub(crate) struct Credentials {
    source: Source,
    cached: Mutex<Cached>,
}

#[derive(Default)]
struct Cached {
    current: Option<Current>,
    /// Why there is none, or why what there is could not be read again.
    failed: Option<TargetError>,
    look_at: Option<Instant>,
    forced_at: Option<Instant>,
}

struct Current {
    loaded: Loaded,
    access: Arc<Access>,
    stamps: Vec<Stamp>,
}

impl Credentials {
    pub(crate) fn new(target: &Target) -> Self {
        let source = match target {
            Target::InCluster { host, port, dir } => {
                Source::InCluster(InCluster::new(host, *port, dir))
            }
            Target::Kubeconfig { path, context } => {
                Source::Kubeconfig(FromKubeconfig::new(path.clone(), context.clone()))
            }
        };
        Credentials {
            source,
            cached: Mutex::default(),
        }
    }

    /// What to use for the next request.
    ///
    /// # Errors
    /// [`TargetError`] as long as nothing could be read; what was read once stays in use until something newer can be.
    pub(crate) async fn access(&self) -> Result<Arc<Access>, TargetError> {
        let mut cached = self.cached.lock().await;
        let now = Instant::now();
        if cached.look_at.is_none_or(|at| at <= now) {
            self.look(&mut cached).await;
        }
        match (&cached.current, &cached.failed) {
            (Some(current), _) => Ok(current.access.clone()),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Err(TargetError::Tls("nothing was read".to_owned())),
        }
    }

    /// The API server said 401 to what `used` holds: read it again, whether it looks changed or not.
    pub(crate) async fn refused(&self, used: &Arc<Access>) {
        let mut cached = self.cached.lock().await;
        let now = Instant::now();
        let ours = cached
            .current
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(&current.access, used));
        if ours && cached.forced_at.is_none_or(|at| now >= at + REST) {
            warn!("the API server refuses the agent's credential; reading it again");
            cached.forced_at = Some(now);
            self.reload(&mut cached).await;
        }
    }

    async fn look(&self, cached: &mut Cached) {
        if let Some(current) = &cached.current {
            let stamps = stamps(&current.loaded.files).await;
            let expired = current
                .loaded
                .expires
                .is_some_and(|at| at - EARLY <= OffsetDateTime::now_utc());
            if stamps == current.stamps && !expired && cached.failed.is_none() {
                cached.look_at = Some(Instant::now() + LOOK_EVERY);
                return;
            }
        }
        self.reload(cached).await;
    }

    async fn reload(&self, cached: &mut Cached) {
        // Stamped before reading: a change in between is seen at the next look.
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
        let endpoint = match &cached.current {
            Some(current)
                if current.loaded.address == loaded.address
                    && current.loaded.trust.same(&loaded.trust) =>
            {
                current.access.endpoint.clone()
            }
            _ => match loaded.address.endpoint(&loaded.trust) {
                Ok(endpoint) => Arc::new(endpoint),
                Err(error) => return cached.fail(error),
            },
        };
        if cached.failed.take().is_some() || cached.current.is_some() {
            info!("the credential for the API server was read again");
        }
        let access = Arc::new(Access {
            endpoint,
            authorization: loaded.authorization.clone(),
        });
        cached.current = Some(Current {
            loaded,
            access,
            stamps,
        });
        cached.look_at = Some(Instant::now() + LOOK_EVERY);
    }
}

impl Cached {
    fn fail(&mut self, error: TargetError) {
        warn!(cause = %error, kept = self.current.is_some(), "the credential for the API server cannot be read");
        self.failed = Some(error);
        // The first answer is wanted as soon as there can be one; what is there already can wait.
        let rest = if self.current.is_some() {
            REST
        } else {
            LOOK_EVERY
        };
        self.look_at = Some(Instant::now() + rest);
    }
}

#[cfg(test)]
mod tests;
