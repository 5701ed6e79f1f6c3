//! Behaviour of a fake API server, and a record of its requests.

use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize},
    },
};

use bytes::Bytes;
use fairlead_exchange::BodyError;
use http::HeaderMap;
use http_body::Frame;
use tokio::sync::{mpsc, watch};

/// One step of a streamed body: a frame, or the error that ends it.
pub type BodyStep = Result<Frame<Bytes>, BodyError>;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// Path without the query.
    pub path: String,
    /// All headers.
    pub headers: HeaderMap,
}

impl ReceivedRequest {
    /// Values of a header, in order.
    ///
    /// # Panics
    /// A value is not ASCII.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<&str> {
        let values = self.headers.get_all(name).iter();
        values.map(|value| value.to_str().unwrap()).collect()
    }
}

/// Behaviour of a fake API server, and a record of its requests.
pub struct ApiScript {
    /// Requests, in order.
    pub received: Mutex<Vec<ReceivedRequest>>,
    /// `/readyz` fails.
    pub unready: AtomicBool,
    /// Requests are not answered.
    pub hangs: AtomicBool,
    /// Requests with another token get 401.
    pub token: Mutex<Option<String>>,
    /// Number of running watches.
    pub watches: AtomicUsize,
    /// Number of connections to targets that speak HTTP.
    pub http_connections: AtomicUsize,
    /// Input of each upgraded stream until its end.
    pub stream_inputs: Mutex<Vec<String>>,
    /// UID of the namespace `kube-system`; without one it answers 503.
    pub uid: Mutex<Option<String>>,
    /// The one Secret with its version.
    pub secret: Mutex<Option<serde_json::Value>>,
    /// The Deployment of the agent.
    pub deployment: Mutex<Option<serde_json::Value>>,
    /// Answers by path and query, before any other rule.
    pub answers: Mutex<HashMap<String, (u16, serde_json::Value)>>,
    /// Status and headers of the answer to `/redirect`.
    pub redirect: Mutex<(u16, Vec<(&'static str, String)>)>,
    /// Next event for every watch; `end` ends them.
    pub events: watch::Sender<String>,
    /// Bodies for `/stream`, in order.
    pub(super) streams: Mutex<Vec<mpsc::Receiver<BodyStep>>>,
}

impl Default for ApiScript {
    fn default() -> Self {
        Self {
            received: Mutex::default(),
            unready: AtomicBool::new(false),
            hangs: AtomicBool::new(false),
            token: Mutex::default(),
            watches: AtomicUsize::new(0),
            http_connections: AtomicUsize::new(0),
            stream_inputs: Mutex::default(),
            uid: Mutex::new(Some("uid-of-this-cluster".to_owned())),
            secret: Mutex::default(),
            deployment: Mutex::default(),
            answers: Mutex::default(),
            redirect: Mutex::new((307, Vec::new())),
            events: watch::Sender::default(),
            streams: Mutex::default(),
        }
    }
}

impl ApiScript {
    /// The next request for `/stream` is answered with the steps sent here.
    ///
    /// # Panics
    /// Another test has panicked.
    pub fn next_stream(&self) -> mpsc::Sender<BodyStep> {
        let (sender, receiver) = mpsc::channel(16);
        self.streams.lock().unwrap().push(receiver);
        sender
    }
}
