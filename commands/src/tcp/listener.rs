//! Local addresses whose connections go into a cluster. A failed connection is printed, and ends nothing else.

use std::{future::Future, net::SocketAddr, pin::pin, time::Duration};

use fairlead_api::{Code, Failure};
use fairlead_client::ResetSocket;
use fairlead_runtime::files;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::sleep,
};

use crate::output;

/// Pause after a failure to accept: without it, a process without file descriptors would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Limit of concurrent connections of one command.
const MAX_CONNECTIONS: usize = 4096;

/// Listens on a local address.
///
/// # Errors
/// `FL-5131` for an address that other machines reach, unless it is allowed; `FL-5130`.
pub(super) async fn bind(address: SocketAddr, allow_remote: bool) -> Result<TcpListener, Failure> {
    if !address.ip().is_loopback() && !allow_remote {
        return Err(Failure::because(Code::RemoteListen, address));
    }
    TcpListener::bind(address)
        .await
        .map_err(|error| Failure::because(Code::LocalAddress, format_args!("{address}: {error}")))
}

/// Raises the limit of open files: each connection has two.
pub(super) fn allow_many_connections() {
    files::open_as_many_as_allowed();
}

/// The address of a listener, with its real port.
pub(super) fn local_address(listener: &TcpListener) -> Result<SocketAddr, Failure> {
    let address = listener.local_addr();
    address.map_err(|error| Failure::because(Code::LocalAddress, error))
}

/// Serves connections for ever. Dropped, it resets all of them.
pub(super) async fn serve<F>(listener: TcpListener, serve_one: impl Fn(ResetSocket) -> F)
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((socket, _)) => {
                let _ = socket.set_nodelay(true);
                let serving = serve_one(ResetSocket::new(socket));
                connections.spawn(async move {
                    if let Err(failure) = serving.await {
                        note(&failure);
                    }
                });
            }
            Err(error) => {
                note(&Failure::because(Code::LocalAddress, error));
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Runs until Ctrl-C or SIGTERM.
///
/// # Errors
/// `FL-5101` if the system delivers no signals.
pub(super) async fn until_signal(serving: impl Future<Output = ()>) -> Result<(), Failure> {
    let internal = |error| Failure::because(Code::Internal, error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(internal)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(internal)?;
    let mut serving = pin!(serving);
    tokio::select! {
        () = serving.as_mut() => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// Prints the failure of one connection.
fn note(failure: &Failure) {
    output::note(&format!("{failure}. {}", failure.next_step()));
}
