//! The socket: private to the user, and each peer is checked.

use std::{
    fs, future::Future, io, os::unix::fs::PermissionsExt, path::Path, pin::pin, sync::Arc,
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use crate::{
    config::Config,
    contact::Contacts,
    memory,
    routes::Routes,
    status::Cause,
    table::Table,
    work::{PrivateFolder, WorkRoot, random_name},
};

const SOCKET_MODE: u32 = 0o600;
const MAX_CONNECTIONS: usize = 16;
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);
/// Time for programs to end after SIGTERM of the runner. A pod has 30 s in all.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(20);
/// Time for programs to end after SIGKILL.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// Serves agents until `shutdown` completes, then ends all programs.
///
/// Programs must be started by the thread that lives longest: the kernel sends their death signal when that thread ends.
/// So the runtime has one thread.
///
/// # Errors
/// The socket or the work folder cannot be made, or another runner uses it.
pub async fn serve(config: Config, shutdown: impl Future<Output = ()>) -> io::Result<()> {
    let parent = config.socket.parent().unwrap_or(Path::new("."));
    let socket_folder = PrivateFolder::open(parent)?;
    let root = WorkRoot::open(&config.work)?;
    let listener = listen(&config.socket)?;
    info!(socket = %config.socket.display(), "runner serves");
    let routes = Arc::new(Routes {
        table: Arc::new(Table::new(config, root)),
        contacts: Contacts::new(),
        instance: random_name()?,
    });
    {
        let mut serving = pin!(accept(&listener, &routes));
        let mut shutdown = pin!(shutdown);
        tokio::select! {
            () = &mut serving => {}
            () = watch_contacts(&routes) => info!("no agent, ending"),
            () = memory::watch(&routes.table) => {}
            () = &mut shutdown => {}
        }
        // Agents may read results meanwhile.
        tokio::select! {
            () = &mut serving => {}
            () = end_programs(&routes.table) => {}
        }
    }
    let removed = remove(&routes.table.config().socket);
    drop(socket_folder);
    removed
}

fn remove(socket: &Path) -> io::Result<()> {
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn listen(socket: &Path) -> io::Result<UnixListener> {
    // The folder's lock is held, so no other runner serves this socket.
    remove(socket)?;
    let listener = UnixListener::bind(socket)?;
    fs::set_permissions(socket, fs::Permissions::from_mode(SOCKET_MODE))?;
    Ok(listener)
}

async fn accept(listener: &UnixListener, routes: &Arc<Routes>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let routes = Arc::clone(routes);
                tokio::spawn(async move {
                    connection(stream, routes).await;
                    drop(place);
                });
            }
            Err(error) => {
                warn!(%error, "accept failed");
                sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
}

async fn connection(stream: UnixStream, routes: Arc<Routes>) {
    let user = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == user => {}
        peer => {
            warn!(uid = ?peer.ok().map(|peer| peer.uid()), "peer of another user rejected");
            return;
        }
    }
    let service = service_fn(move |request| {
        let routes = Arc::clone(&routes);
        async move { Ok::<_, std::convert::Infallible>(routes.answer(request).await) }
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT);
    // A broken connection is the agent's: it connects again.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

/// Ends programs without an agent; completes if the runner ends with them.
async fn watch_contacts(routes: &Routes) {
    let config = routes.table.config();
    let absence = config.limits.agent_absence;
    let mut running = routes.table.running();
    loop {
        if !config.end_without_agent && running.wait_for(|running| *running > 0).await.is_err() {
            return;
        }
        routes.contacts.absent_for(absence).await;
        if *running.borrow() > 0 {
            warn!("no contact of an agent, ending programs");
            routes.table.stop_all(Cause::AgentGone, false);
            let ended = running.wait_for(|running| *running == 0);
            drop(ended.await);
        }
        if config.end_without_agent {
            return;
        }
    }
}

async fn end_programs(table: &Table) {
    table.close();
    let mut running = table.running();
    for (hard, time) in [(false, SHUTDOWN_GRACE), (true, KILL_GRACE)] {
        table.stop_all(Cause::RunnerEnded, hard);
        if timeout(time, running.wait_for(|running| *running == 0))
            .await
            .is_ok()
        {
            return;
        }
    }
}
