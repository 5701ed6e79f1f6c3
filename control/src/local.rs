//! Access for the platform operator on the hub's own machine: `hub.sock` in the data folder, open
//! to the hub's user and root. It creates tokens for an operator without a valid one.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc, time::Duration};

use axum::{Json, Router, extract::State, routing::post};
use bytes::Bytes;
use fairlead_api::{
    Code, Failure, Reason,
    resources::{CreateToken, CreatedToken},
};
use fairlead_issuers::Issuers;
use fairlead_registry::{mint, refuse_reserved};
use fairlead_routes::reply::{Rejected, Secret};
use fairlead_runtime::Process;
use fairlead_store::{Actor, Clock, Store};
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{
    net::{UnixListener, UnixStream},
    time::timeout,
};
use tracing::warn;

pub(crate) const SOCKET: &str = "hub.sock";
const PATH: &str = "/tokens";
/// A write to an unreachable database takes some seconds.
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// Serves the socket until the process drains. If it cannot be opened, the hub runs without it.
pub(crate) fn serve(
    store: Store,
    clock: Clock,
    issuers: Arc<Issuers>,
    dir: &Path,
    process: &Process,
) {
    let path = dir.join(SOCKET);
    let listener = match listen(&path) {
        Ok(listener) => listener,
        Err(error) => {
            warn!(path = %path.display(), %error, "local socket not opened; `fairlead token create --data` requires a stopped hub");
            return;
        }
    };
    let router = Router::new()
        .route(PATH, post(create))
        .with_state((store, clock, issuers));
    let draining = process.clone();
    process.spawn(async move {
        let drained = async move { draining.draining().await };
        let served = axum::serve(listener, router).with_graceful_shutdown(drained);
        // Never an error, according to its documentation.
        let _ = served.await;
        let _ = fs::remove_file(path);
    });
}

/// Binds the socket. The caller holds the folder's lock, so an existing socket is stale.
fn listen(path: &Path) -> std::io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn create(
    State((store, clock, issuers)): State<(Store, Clock, Arc<Issuers>)>,
    Json(asked): Json<CreateToken>,
) -> Result<Secret<CreatedToken>, Rejected> {
    refuse_reserved(issuers.as_ref(), &asked.name)?;
    Ok(Secret(mint(&store, clock.now(), Actor::Hub, asked).await?))
}

/// Requests a token from the hub running in this folder; `None` if no hub answers there.
///
/// # Errors
/// The failure reported by the hub.
pub(crate) async fn request_token(
    dir: &Path,
    asked: &CreateToken,
) -> Result<Option<CreatedToken>, Failure> {
    let Ok(socket) = UnixStream::connect(dir.join(SOCKET)).await else {
        return Ok(None);
    };
    let asked = serde_json::to_vec(asked).map_err(internal)?;
    let answered = timeout(REQUEST_DEADLINE, exchange(socket, asked)).await;
    let (status, body) = answered.map_err(internal)?.map_err(internal)?;
    if status == StatusCode::OK {
        return serde_json::from_slice(&body).map(Some).map_err(internal);
    }
    let reason: Result<Reason, _> = serde_json::from_slice(&body);
    Err(reason.map_or_else(internal, Failure::from))
}

async fn exchange(
    socket: UnixStream,
    asked: Vec<u8>,
) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error + Send + Sync>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
    let request = Request::post(PATH)
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(asked)))?;
    let answering = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        Ok((head.status, body.collect().await?.to_bytes()))
    };
    tokio::select! {
        answer = answering => answer,
        ended = connection => Err(ended.map_or_else(Into::into, |()| "the hub closed the connection".into())),
    }
}

fn internal(error: impl std::fmt::Display) -> Failure {
    Failure::because(Code::Internal, error)
}
