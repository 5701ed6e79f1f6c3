//! Git proxy inside of the cluster: an HTTP proxy for `CONNECT`, and forwards with a fixed target for SSH.
//!
//! Each connection is a stream of a session with the hub, which checks the target. The agent itself connects nowhere.

use std::{sync::Arc, time::Duration};

use fairlead_api::{Code, Failure, Reason};
use fairlead_exchange::{
    Answer, Body, OnUpgrade, SocketTransport, Upgraded, body, serve_on, splice,
};
use fairlead_runtime::listen;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tracing::{debug, info, warn};

use crate::{config::GitProxyConfig, context::AgentContext};

/// Connections at a time. The hub has a limit of its own.
const MAX_CONNECTIONS: usize = 64;
/// Time for a session with the hub, while none serves.
const SESSION_DEADLINE: Duration = Duration::from_secs(20);
/// Time for the hub's answer: name and connection take ten seconds each at most.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);
/// Time for the first byte of a client.
const FIRST_BYTE_DEADLINE: Duration = Duration::from_secs(30);
/// Time for a stream to become raw after its answer was sent.
const UPGRADE_DEADLINE: Duration = Duration::from_secs(10);
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Limit of the hub's refusal, in bytes.
const MAX_REFUSAL_BYTES: usize = 16 * 1024;

/// Binds all listeners, and serves them until the process drains.
///
/// # Errors
/// An address cannot be bound.
pub(crate) fn start(context: &Arc<AgentContext>, config: &GitProxyConfig) -> Result<(), Failure> {
    let http = config.listen.map(|address| (address, None));
    let forwards = config.forwards.iter();
    let forwards = forwards.map(|it| (it.listen, Some(Arc::from(it.target.as_str()))));
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    for (address, target) in http.into_iter().chain(forwards) {
        let listener = listen::bind(address)?;
        if let Ok(address) = listener.local_addr() {
            info!(%address, target = target.as_deref(), "Git proxy listens");
        }
        let (serving, slots) = (Arc::clone(context), Arc::clone(&slots));
        context.process.spawn(async move {
            tokio::select! {
                () = accept(&serving, &listener, target, slots) => {}
                () = serving.process.draining() => {}
            }
        });
    }
    Ok(())
}

async fn accept(
    context: &Arc<AgentContext>,
    listener: &TcpListener,
    target: Option<Arc<str>>,
    slots: Arc<Semaphore>,
) {
    loop {
        // A client waits in the listener's queue while all places are taken.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((tcp, _)) => {
                let slot = Arc::new(slot);
                let (context, target) = (Arc::clone(context), target.clone());
                let process = context.process.clone();
                process.spawn(async move {
                    match target {
                        Some(target) => forward(&context, tcp, &target, slot).await,
                        None => serve_http(context, tcp, slot).await,
                    }
                });
            }
            Err(error) => {
                warn!(%error, "accept failed");
                sleep(ACCEPT_RETRY_INTERVAL).await;
            }
        }
    }
}

async fn forward(
    context: &AgentContext,
    tcp: TcpStream,
    target: &str,
    _slot: Arc<OwnedSemaphorePermit>,
) {
    match open(context, target).await {
        Ok(hub) => {
            let spliced = splice(tcp, hub).await;
            debug!(target, end = ?spliced.end, "forward ended");
        }
        Err(failure) => {
            warn!(target, code = %failure.code, cause = failure.cause, next = failure.next_step(), "forward refused");
        }
    }
}

async fn serve_http(context: Arc<AgentContext>, tcp: TcpStream, slot: Arc<OwnedSemaphorePermit>) {
    if !matches!(
        timeout(FIRST_BYTE_DEADLINE, tcp.readable()).await,
        Ok(Ok(()))
    ) {
        return;
    }
    let handler = move |request| {
        let (context, slot) = (Arc::clone(&context), Arc::clone(&slot));
        async move {
            match connect(&context, request, slot).await {
                Ok(()) => Response::new(body::empty()),
                Err(failure) => {
                    warn!(code = %failure.code, cause = failure.cause, next = failure.next_step(), "request to the Git proxy refused");
                    refusal(&failure)
                }
            }
        }
    };
    if let Err(error) = serve_on(SocketTransport::new(tcp), handler).await {
        debug!(%error, "client of the Git proxy broke off");
    }
}

/// Joins a client of the HTTP proxy with its target, in a task of the process.
async fn connect(
    context: &Arc<AgentContext>,
    mut request: Request<Body>,
    slot: Arc<OwnedSemaphorePermit>,
) -> Result<(), Failure> {
    if request.method() != Method::CONNECT {
        let cause = "the Git proxy takes CONNECT only; use an https:// or ssh:// URL";
        return Err(Failure::because(Code::MethodNotAllowed, cause));
    }
    let raw = request.extensions_mut().remove::<OnUpgrade>();
    let raw = raw.ok_or(Code::Internal)?;
    let target = request.uri().authority().map(ToString::to_string);
    let hub = open(context, &target.unwrap_or_default()).await?;
    context.process.spawn(async move {
        let _slot = slot;
        if let Ok(Ok(client)) = timeout(UPGRADE_DEADLINE, raw).await {
            let spliced = splice(client, hub).await;
            debug!(end = ?spliced.end, "connection through the Git proxy ended");
        }
    });
    Ok(())
}

/// Opens a stream to the hub that reaches the target.
async fn open(context: &AgentContext, target: &str) -> Result<Upgraded, Failure> {
    let no_session = || Failure::because(Code::SessionBroke, "no session with the hub serves");
    let exchanges = timeout(SESSION_DEADLINE, context.sessions.any()).await;
    let exchanges = exchanges.map_err(|_| no_session())?;
    let mut request = Request::new(body::empty());
    *request.method_mut() = Method::CONNECT;
    let authority = target.parse::<http::Uri>().map_err(|_| Code::BadRequest)?;
    *request.uri_mut() = authority;
    let host = HeaderValue::from_str(target).map_err(|_| Code::BadRequest)?;
    request.headers_mut().insert(header::HOST, host);
    let answer = timeout(ANSWER_DEADLINE, exchanges.send(request)).await;
    let answer = answer.map_err(|_| Failure::from(Code::DialTimeout))?;
    match answer.map_err(|error| Failure::because(Code::SessionBroke, error))? {
        Answer::Upgraded(_, hub) => Ok(hub),
        Answer::Response(response) => {
            let status = response.status();
            let body = body::read(response.into_body(), MAX_REFUSAL_BYTES).await;
            let reason = body
                .ok()
                .and_then(|it| serde_json::from_slice::<Reason>(&it).ok());
            Err(reason.map_or_else(
                || {
                    Failure::because(
                        Code::DialProtocol,
                        format_args!("the hub answered {status}"),
                    )
                },
                Failure::from,
            ))
        }
    }
}

/// A refusal that Git shows: status and text.
fn refusal(failure: &Failure) -> Response<Body> {
    let Failure { code, cause, .. } = failure;
    let text = format!("{code}: {cause}. {}\n", failure.next_step());
    let mut response = Response::new(body::full(text));
    let status = StatusCode::from_u16(code.http_status());
    *response.status_mut() = status.unwrap_or(StatusCode::BAD_GATEWAY);
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_names_code_and_next_step() {
        let failure = Failure::because(Code::GitProxyRefused, "git.other:22 is not in its list");
        let response = refusal(&failure);
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
    }
}
