//! Policy of recordings: the sessions that get one, and those that may not pass without.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    config::{AuditConfig, RecordingConfig},
    request_info::{RequestInfo, decoded},
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
    /// Files that are being written.
    pub(crate) running: Mutex<BTreeSet<String>>,
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
    /// Protocol of the upgrade; `None` for a request without one.
    pub upgrade: Option<&'a str>,
    /// Offered subprotocols of a WebSocket, separated by commas.
    pub protocols: &'a str,
}

/// A permitted recording that has not begun.
pub struct Recording {
    pub(crate) recorder: Recorder,
    pub(crate) permit: OwnedSemaphorePermit,
    pub(crate) form: StreamForm,
}

/// Form of the streams of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamForm {
    /// Messages of a WebSocket that begin with the number of a channel.
    WebSocket,
    /// Streams of SPDY/3.1, named by their headers.
    Spdy,
}

impl StreamForm {
    /// Form of the session; `None` if it is unknown.
    fn of(session: &SessionFacts<'_>) -> Option<Self> {
        let upgrade = session.upgrade?;
        if upgrade.eq_ignore_ascii_case("SPDY/3.1") {
            return Some(StreamForm::Spdy);
        }
        let mut protocols = session.protocols.split(',').map(str::trim);
        let is_known = upgrade.eq_ignore_ascii_case("websocket")
            && protocols.all(|it| KNOWN_PROTOCOLS.contains(&it));
        is_known.then_some(StreamForm::WebSocket)
    }
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
            running: Mutex::default(),
        })))
    }

    /// Permits a request, with a recording if the policy wants one.
    ///
    /// # Errors
    /// [`Unrecordable`] if the policy requires a recording that is not possible.
    pub fn check(&self, session: SessionFacts<'_>) -> Result<Option<Recording>, Unrecordable> {
        let config = &self.0.config;
        let Some(terminal) = terminal(&session).filter(|_| config.covers(&session)) else {
            return Ok(None);
        };
        let form = StreamForm::of(&session);
        let permit = Arc::clone(&self.0.places).try_acquire_owned();
        let cause = match (permit, form) {
            (Ok(permit), Some(form)) if terminal == Terminal::Pod => {
                let recorder = self.clone();
                return Ok(Some(Recording {
                    recorder,
                    permit,
                    form,
                }));
            }
            (Ok(_), _) if terminal == Terminal::Kubelet => {
                "a terminal through nodes/proxy cannot be recorded"
            }
            (Ok(_), _) => {
                "only SPDY/3.1 and WebSockets with v4 or v5.channel.k8s.io can be recorded"
            }
            (Err(_), _) => "too many sessions are recorded now",
        };
        match config.required {
            true => Err(Unrecordable(cause.to_owned())),
            false => Ok(None),
        }
    }
}

/// Path to a terminal in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Terminal {
    /// `exec` and `attach` of a pod.
    Pod,
    /// `exec`, `attach` and `run` of a node's own server, through the subresource `proxy` of the node.
    Kubelet,
}

fn terminal(session: &SessionFacts<'_>) -> Option<Terminal> {
    let info = RequestInfo::parse(session.method, session.path, None);
    let resource = info.resource?;
    match (&*resource.resource, &*resource.subresource) {
        ("pods", "exec" | "attach") => Some(Terminal::Pod),
        ("nodes", "proxy") => {
            let inside = decoded(session.path);
            let (_, inside) = inside.split_once("/proxy/")?;
            let first = inside.split('/').find(|part| !part.is_empty())?;
            matches!(first, "exec" | "attach" | "run" | "cri").then_some(Terminal::Kubelet)
        }
        _ => None,
    }
}

impl Recording {
    /// True if the session must end when it cannot be recorded any more.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.recorder.0.config.required
    }
}
