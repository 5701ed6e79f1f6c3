//! Policy of recordings: the sessions that get one, and those that may not pass without.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    config::{AuditConfig, RecordingConfig},
    request_info::RequestInfo,
    segment::create_private_dir,
};

/// Recordings at the same time; each occupies a thread.
const MAX_RECORDINGS: usize = 256;
/// Subprotocols whose messages begin with the number of a channel.
const KNOWN_PROTOCOLS: [&str; 2] = ["v4.channel.k8s.io", "v5.channel.k8s.io"];

/// The policy requires a recording, and there can be none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the session must be recorded: {0}")]
pub struct Unrecordable(pub(crate) String);

/// Makes recordings according to a policy; clones share the limits.
#[derive(Clone)]
pub struct Recorder(pub(crate) Arc<RecorderInner>);

pub(crate) struct RecorderInner {
    pub(crate) config: RecordingConfig,
    pub(crate) dir: PathBuf,
    places: Arc<Semaphore>,
}

/// Facts of a session that the policy looks at.
#[derive(Debug, Clone, Copy)]
pub struct SessionFacts<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Path on the API server.
    pub path: &'a str,
    /// Cluster of the session.
    pub cluster: &'a str,
    /// Tenant of the cluster.
    pub tenant: &'a str,
    /// Role of the caller in the cluster.
    pub role: &'a str,
    /// True for a WebSocket, false for SPDY.
    pub is_websocket: bool,
    /// Offered subprotocols, separated by commas.
    pub protocols: &'a str,
}

/// A permitted recording that has not begun.
pub struct Recording {
    pub(crate) recorder: Recorder,
    pub(crate) permit: OwnedSemaphorePermit,
}

impl AuditConfig {
    /// Prepares recordings below the folder of the log; `None` without a policy.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn recorder(&self, dir: &Path) -> io::Result<Option<Recorder>> {
        let config = self.recording.clone();
        config
            .map(|config| Recorder::new(config, dir.join("recordings")))
            .transpose()
    }
}

impl RecordingConfig {
    pub(crate) fn covers(&self, session: &SessionFacts<'_>) -> bool {
        let has =
            |list: &[String], value: &str| list.is_empty() || list.iter().any(|it| it == value);
        has(&self.clusters, session.cluster)
            && has(&self.tenants, session.tenant)
            && has(&self.roles, session.role)
    }
}

impl Recorder {
    pub(crate) fn new(config: RecordingConfig, dir: PathBuf) -> io::Result<Self> {
        create_private_dir(&dir)?;
        Ok(Recorder(Arc::new(RecorderInner {
            config,
            dir,
            places: Arc::new(Semaphore::new(MAX_RECORDINGS)),
        })))
    }

    /// Permits a request, with a recording if the policy wants one.
    ///
    /// # Errors
    /// [`Unrecordable`] if the policy requires a recording that is not possible.
    pub fn check(&self, session: SessionFacts<'_>) -> Result<Option<Recording>, Unrecordable> {
        let config = &self.0.config;
        if !is_terminal(&session) || !config.covers(&session) {
            return Ok(None);
        }
        let protocols = session.protocols.split(',').map(str::trim);
        let is_known = session.is_websocket
            && protocols.clone().any(|it| !it.is_empty())
            && protocols.clone().all(|it| KNOWN_PROTOCOLS.contains(&it));
        let permit = Arc::clone(&self.0.places).try_acquire_owned();
        let cause = match permit {
            Ok(permit) if is_known => {
                let recorder = self.clone();
                return Ok(Some(Recording { recorder, permit }));
            }
            Ok(_) => "only WebSockets with v4 or v5.channel.k8s.io can be recorded",
            Err(_) => "too many sessions are recorded now",
        };
        match config.required {
            true => Err(Unrecordable(cause.to_owned())),
            false => Ok(None),
        }
    }
}

/// True for `exec` and `attach` of pods.
fn is_terminal(session: &SessionFacts<'_>) -> bool {
    let info = RequestInfo::parse(session.method, session.path, None);
    let resource = info.resource.unwrap_or_default();
    resource.resource == "pods" && matches!(resource.subresource.as_str(), "exec" | "attach")
}

impl Recording {
    /// True if the session must end when it cannot be recorded any more.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.recorder.0.config.required
    }
}
