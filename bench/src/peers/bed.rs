//! Shared parts of all peers of a run, and the plan of one peer.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use anyhow::Context as _;
use fairlead_testkit::tls::PemFiles;

use super::{
    built::Built,
    part::{PeerPart, write_secret},
};
use crate::{
    launch::{Launcher, Spec},
    serve::{Ready, ready_file},
    upstream::RawReady,
    way::{Legs, Way},
};

/// Everything that the peers of a run share: the upstream, keys, paths of binaries.
pub(crate) struct Bed<'a> {
    pub(crate) launcher: &'a Launcher,
    /// Private to this user.
    dir: PathBuf,
    pub(crate) upstream: Ready,
    /// Raw TCP services of the upstream.
    pub(super) raw: RawReady,
    /// The stand-in API server.
    upstream_part: PeerPart,
    /// Process id of the real API server that replaces the stand-in.
    real: Option<u32>,
    pub(super) token_file: PathBuf,
    /// Keys of the peers' hubs and agents.
    pub(super) pems: PemFiles,
    pub(crate) built: Built,
    folders: AtomicU32,
    /// How Fairlead's agent reaches the upstream. It is started for one of the two only.
    pub(super) legs: Legs,
}

impl<'a> Bed<'a> {
    /// Starts the upstream. `dir` gets keys and tokens.
    pub(crate) async fn make(
        launcher: &'a Launcher,
        dir: &Path,
        built: Built,
    ) -> anyhow::Result<Self> {
        let token_file = dir.join("upstream.token");
        write_secret(&token_file, "a-token-for-the-stand-in")?;
        let spec = launcher
            .own("upstream", "upstream")
            .args(["--dir".into(), dir.to_owned().into_os_string()])
            .at_site();
        let mut upstream_part = PeerPart::new("upstream", spec);
        upstream_part.start(launcher)?;
        let upstream = upstream_part.ready(&ready_file("upstream", dir)).await?;
        Ok(Self {
            launcher,
            dir: dir.to_owned(),
            upstream,
            raw: RawReady::read(dir)?,
            upstream_part,
            real: None,
            token_file,
            pems: PemFiles::write(dir, "peers")?,
            built,
            folders: AtomicU32::new(0),
            legs: Legs::Tls,
        })
    }

    /// Measures clients and upstream without TLS.
    pub(crate) fn with_legs(mut self, legs: Legs) -> Self {
        self.legs = legs;
        self
    }

    /// Uses a real API server as upstream. Requests without TLS still go to the stand-in.
    pub(crate) fn before(mut self, server: Server) -> Self {
        self.upstream.url = server.url;
        self.upstream.ca_file = server.ca_file;
        self.token_file = server.token_file;
        self.real = Some(server.pid);
        self
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn upstream_watched(&self) -> anyhow::Result<String> {
        match self.real {
            Some(pid) => Ok(format!("upstream={pid}")),
            None => self.upstream_part.watched(),
        }
    }

    /// Folder of one peer's files. A peer may be started several times in a run.
    pub(super) fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let number = self.folders.fetch_add(1, Relaxed);
        let folder = self.dir.join(format!("{name}-{number}"));
        std::fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(folder)
    }

    /// HOST:PORT of the upstream.
    pub(super) fn upstream_address(&self, legs: Legs) -> &str {
        let url = match legs {
            Legs::Tls => &self.upstream.url,
            Legs::Plain => &self.upstream.plain_url,
        };
        url.split_once("//").map_or(url, |(_, address)| address)
    }

    /// Ports with TLS and without.
    pub(crate) fn upstream_ports(&self) -> anyhow::Result<[u16; 2]> {
        let port = |legs| {
            let address = self.upstream_address(legs);
            let (_, port) = address.rsplit_once(':').context("host:port")?;
            anyhow::Ok(port.parse()?)
        };
        Ok([port(Legs::Tls)?, port(Legs::Plain)?])
    }

    /// Route to the upstream itself, or to a port that copies bytes to and from it.
    pub(super) fn way(&self, legs: Legs, port: Option<u16>) -> Way {
        let own = self.upstream_address(legs).to_owned();
        let address = port.map_or(own, |port| format!("127.0.0.1:{port}"));
        let (scheme, ca_file) = match legs {
            Legs::Tls => ("https", Some(self.upstream.ca_file.clone())),
            Legs::Plain => ("http", None),
        };
        Way {
            url: format!("{scheme}://{address}"),
            ca_file,
            token_file: self.token_file.clone(),
            server_name: None,
            via: None,
        }
    }
}

/// An API server and a token of its administrator.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) ca_file: PathBuf,
    pub(crate) token_file: PathBuf,
    pub(crate) pid: u32,
}

/// Ports of a peer, each on 127.0.0.1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    /// Port on which the hub accepts agents.
    pub(super) hub: u16,
    /// Port that agents dial: the hub's own or a relay's.
    pub(super) link: u16,
    /// Ports on which the hub accepts clients, for the upstream with TLS and without.
    pub(super) tls: u16,
    pub(super) plain: u16,
    /// Port on which the hub accepts clients of raw TCP, of peers that have one.
    pub(super) raw: u16,
}

pub(super) struct Plan {
    pub(super) hub: Spec,
    pub(super) agent: Spec,
    pub(super) tls: Way,
    pub(super) plain: Way,
}
