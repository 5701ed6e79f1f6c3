//! Way through a proxy to a hub with an IPv6 address in its URL.
//!
//! reqwest takes the brackets of such an address for a part of the TLS name and refuses it, though only behind a proxy. So it
//! connects to a Unix socket of this process instead, whose connections go through the proxy. TLS with the hub stays in
//! reqwest.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::{fs::DirBuilderExt, net::UnixListener as StdListener},
    path::PathBuf,
    sync::Arc,
    thread,
    time::Duration,
};

use aws_lc_rs::rand;
use fairlead_api::{Code, Failure, HubUrl, hex};
use fairlead_dialer::ProxyRules;
use fairlead_runtime::workers;
use rustls::ClientConfig;
use tokio::{
    io::copy_bidirectional,
    net::{UnixListener, UnixStream},
    sync::oneshot,
    task::JoinSet,
};

/// Deadline of each step of a connection through the proxy.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
const SOCKET: &str = "hub";

/// Unix socket whose connections go through a proxy. They and the socket end when this is dropped.
#[derive(Debug)]
pub(crate) struct ProxyTunnel {
    /// Private to this user, because connections use the credentials for the proxy.
    folder: PathBuf,
    _end: oneshot::Sender<()>,
}

impl ProxyTunnel {
    /// Opens the socket. `tls` is that towards a proxy with TLS.
    ///
    /// # Errors
    ///
    /// `FL-4112`: the folder for temporary files is not writable.
    pub(crate) fn open(
        hub: &HubUrl,
        rules: &ProxyRules,
        tls: &Arc<ClientConfig>,
    ) -> Result<Self, Failure> {
        let mut name = [0; 16];
        rand::fill(&mut name).map_err(|error| Failure::because(Code::Internal, error))?;
        let folder = std::env::temp_dir().join(format!("fairlead-{}", hex::encode(&name)));
        let (end, ended) = oneshot::channel();
        let way = Way {
            hub: hub.clone(),
            rules: rules.clone(),
            tls: Arc::clone(tls),
        };
        let opened = DirBuilder::new().mode(0o700).create(&folder);
        opened
            .and_then(|()| serve(StdListener::bind(folder.join(SOCKET))?, way, ended))
            .map_err(|error| {
                drop(fs::remove_dir_all(&folder));
                let detail = format_args!("{}: {error}", folder.display());
                Failure::because(Code::CannotWrite, detail)
            })?;
        Ok(ProxyTunnel { folder, _end: end })
    }

    /// Path of the socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }
}

impl Drop for ProxyTunnel {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Target and rules of all connections.
struct Way {
    hub: HubUrl,
    rules: ProxyRules,
    tls: Arc<ClientConfig>,
}

/// Serves the socket on a thread of its own: a client may be made outside of a runtime.
fn serve(listener: StdListener, way: Way, ended: oneshot::Receiver<()>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = workers::single()?;
    let way = Arc::new(way);
    let serving = async move || -> io::Result<()> {
        let mut connections = JoinSet::new();
        let listener = UnixListener::from_std(listener)?;
        loop {
            let (client, _) = listener.accept().await?;
            // The client notices its end, and asks for the cause by a connection of its own.
            connections.spawn(forward(client, Arc::clone(&way)));
            while connections.try_join_next().is_some() {}
        }
    };
    thread::Builder::new().spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = ended => {}
                // The errors of accept are those of a machine without file descriptors.
                _ = serving() => {}
            }
        });
    })?;
    Ok(())
}

async fn forward(mut client: UnixStream, way: Arc<Way>) {
    let Way { hub, rules, tls } = &*way;
    let connected = rules.connect_by(hub, CONNECT_DEADLINE, tls).await;
    if let Ok(connected) = connected {
        let mut stream = connected.into_stream();
        // Either side may end it.
        let _ = copy_bidirectional(&mut client, &mut stream).await;
    }
}
