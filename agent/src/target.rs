//! The API server as the agent sees it: where it is, how its TLS is checked, as whom the agent speaks. What comes from
//! files is read again when they change. No credential is ever logged or told to the hub.

use std::{
    fmt, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fairlead_api::{Code, Failure};
use http::{HeaderValue, Uri};
use rustls::{ClientConfig, pki_types::ServerName};
use time::OffsetDateTime;
use tokio::{sync::Mutex, time::Instant};
use tracing::{info, warn};

use crate::config::Target;

mod exec;
mod in_cluster;
mod kubeconfig;
mod trust;

use in_cluster::InCluster;
use kubeconfig::FromKubeconfig;
use trust::{Address, Trust};

/// Files are looked at no more often than this.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After a failure to read them, and between two readings forced by a 401.
const REST: Duration = Duration::from_secs(5);
/// What expires is renewed this long before.
const EARLY: time::Duration = time::Duration::seconds(60);

const CHECK_FILES: &str =
    "Check that `--kubeconfig` and the files named in it exist, and that this user may read them.";
const CHECK_PLUGIN: &str = "Install the credential plugin and run it in a shell, or use a kubeconfig with a token or a client certificate.";

/// Why the API server's address or the agent's credentials cannot be had. The texts hold paths, never contents.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum TargetError {
    #[error("{} cannot be read: {cause}", path.display())]
    File { path: PathBuf, cause: String },
    #[error("{} holds no usable {what}", path.display())]
    Content { path: PathBuf, what: &'static str },
    #[error("the kubeconfig cannot be used: {0}")]
    Kubeconfig(String),
    #[error("the credential plugin {command:?} failed: {cause}")]
    Plugin { command: String, cause: String },
    #[error("the API server's address or TLS cannot be set up: {0}")]
    Tls(String),
}

impl TargetError {
    fn file(path: &Path, cause: &io::Error) -> Self {
        TargetError::File {
            path: path.to_owned(),
            cause: cause.to_string(),
        }
    }
}

/// Of a person's kubeconfig; a pod's own account is no matter of its start.
impl From<TargetError> for Failure {
    fn from(error: TargetError) -> Self {
        let failure = match &error {
            // It says so itself.
            TargetError::Kubeconfig(_) => {
                Failure::with_cause(Code::BadKubeconfig, error.to_string())
            }
            _ => Failure::because(Code::BadKubeconfig, &error),
        };
        match error {
            TargetError::File { .. } => failure.next(CHECK_FILES),
            TargetError::Plugin { .. } => failure.next(CHECK_PLUGIN),
            _ => failure,
        }
    }
}

/// How to connect. One value lives as long as nothing in it changes, so that connections can be told apart by it.
pub(crate) struct Endpoint {
    /// Scheme, host and port; nothing behind them.
    pub(crate) uri: Uri,
    /// The Host header.
    pub(crate) host: HeaderValue,
    /// Put before every path; empty, or `/...` without a slash at its end.
    pub(crate) base_path: String,
    pub(crate) server_name: ServerName<'static>,
    /// None: plain HTTP, where a kubeconfig says so.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// An endpoint with the credential that goes into each request.
pub(crate) struct Access {
    pub(crate) endpoint: Arc<Endpoint>,
    /// Marked as sensitive. None where a client certificate speaks for the agent.
    pub(crate) authorization: Option<HeaderValue>,
}

/// What a source gives when it is read.
struct Loaded {
    address: Address,
    trust: Trust,
    authorization: Option<HeaderValue>,
    /// Where it came from; it is read again when one of them changes.
    files: Vec<PathBuf>,
    expires: Option<OffsetDateTime>,
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

/// What tells one version of a file from the next; a swapped symlink shows as another inode.
#[derive(PartialEq, Eq)]
struct Stamp {
    inode: u64,
    len: u64,
    modified: (i64, i64),
}

async fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let mut stamps = Vec::with_capacity(files.len());
    for file in files {
        let about = tokio::fs::metadata(file).await.ok();
        stamps.push(about.map_or(
            Stamp {
                inode: 0,
                len: 0,
                modified: (0, 0),
            },
            |about| Stamp {
                inode: about.ino(),
                len: about.len(),
                modified: (about.mtime(), about.mtime_nsec()),
            },
        ));
    }
    stamps
}

async fn read(path: &Path) -> Result<String, TargetError> {
    tokio::fs::read_to_string(path)
        .await
        .map_err(|error| TargetError::file(path, &error))
}

/// `Bearer <token>`, hidden in logs.
fn bearer(token: &str) -> Option<HeaderValue> {
    let token = token.trim();
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))
        .ok()
        .filter(|_| !token.is_empty())?;
    value.set_sensitive(true);
    Some(value)
}

/// For the log: where requests go and as whom, without credentials.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::InCluster { host, port, .. } => {
                write!(f, "{host}:{port}, as this pod's service account")
            }
            Target::Kubeconfig {
                path,
                context: None,
            } => write!(f, "the current context of {}", path.display()),
            Target::Kubeconfig {
                path,
                context: Some(context),
            } => {
                write!(f, "context {context:?} of {}", path.display())
            }
        }
    }
}

#[cfg(test)]
mod tests;
