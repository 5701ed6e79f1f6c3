//! The compared programs: how each is started, according to its documentation, and how a request reaches it.
//!
//! There is always TLS between hub and agent. A program that is missing or does not start is reported and
//! stops nothing else.

mod built;
mod copying;
mod crowd;
mod fairlead;
mod konnectivity;
mod part;
mod relayed;
mod remotedialer;

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio::time;

pub(crate) use self::{
    built::Built,
    crowd::{Crowd, number_behind},
    fairlead::HubReady,
    part::{Part, write_secret},
    relayed::{CUT, Link, SILENCE},
};
use fairlead_testkit::tls::PemFiles;

use crate::{
    launch::Launcher,
    ports,
    serve::{Ready, ready_file},
    way::{Legs, Way},
};

/// Deadline of the first request through a peer.
const READY_DEADLINE: Duration = Duration::from_secs(30);
const ATTEMPT_DEADLINE: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Direct,
    Proxy,
    Fairlead,
    Remotedialer,
    Konnectivity,
    Frp,
    Chisel,
    Rathole,
    Wstunnel,
}

impl Kind {
    pub(crate) const ALL: [Self; 9] = [
        Self::Direct,
        Self::Proxy,
        Self::Fairlead,
        Self::Remotedialer,
        Self::Konnectivity,
        Self::Frp,
        Self::Chisel,
        Self::Rathole,
        Self::Wstunnel,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Proxy => "proxy",
            Self::Fairlead => "fairlead",
            Self::Remotedialer => "remotedialer",
            Self::Konnectivity => "konnectivity",
            Self::Frp => "frp",
            Self::Chisel => "chisel",
            Self::Rathole => "rathole",
            Self::Wstunnel => "wstunnel",
        }
    }

    /// `true` if `bench/peers/build` builds it.
    pub(crate) fn is_built(self) -> bool {
        self.is_tunnel() && self != Self::Fairlead
    }

    /// `true` if a hub and an agent stand between client and upstream.
    pub(crate) fn is_tunnel(self) -> bool {
        !matches!(self, Self::Direct | Self::Proxy)
    }
}

/// Everything that the peers of a run share: the upstream, keys, paths of binaries.
pub(crate) struct Bed<'a> {
    pub(crate) launcher: &'a Launcher,
    /// Private to this user.
    dir: PathBuf,
    pub(crate) upstream: Ready,
    /// The stand-in API server.
    upstream_part: Part,
    /// Process id of the real API server that replaces the stand-in.
    real: Option<u32>,
    token_file: PathBuf,
    /// Keys of the peers' hubs and agents.
    pems: PemFiles,
    fairlead: Option<PathBuf>,
    pub(crate) built: Built,
    folders: AtomicU32,
    /// How Fairlead's agent reaches the upstream. It is started for one of the two only.
    legs: Legs,
}

impl<'a> Bed<'a> {
    /// Starts the upstream. `dir` gets keys and tokens.
    pub(crate) async fn make(
        launcher: &'a Launcher,
        dir: &Path,
        fairlead: Option<&Path>,
        built: Built,
    ) -> anyhow::Result<Self> {
        let token_file = dir.join("upstream.token");
        write_secret(&token_file, "a-token-for-the-stand-in")?;
        let spec = launcher
            .own("upstream", "upstream")
            .args(["--dir".into(), dir.to_owned().into_os_string()])
            .at_site();
        let mut upstream_part = Part::new("upstream", spec);
        upstream_part.start(launcher)?;
        let upstream = upstream_part.ready(&ready_file("upstream", dir)).await?;
        Ok(Self {
            launcher,
            dir: dir.to_owned(),
            upstream,
            upstream_part,
            real: None,
            token_file,
            pems: PemFiles::write(dir, "peers")?,
            fairlead: fairlead.map(Path::to_owned),
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

    fn upstream_watched(&self) -> anyhow::Result<String> {
        match self.real {
            Some(pid) => Ok(format!("upstream={pid}")),
            None => self.upstream_part.watched(),
        }
    }

    /// Folder of one peer's files. A peer may be started several times in a run.
    fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let number = self.folders.fetch_add(1, Relaxed);
        let folder = self.dir.join(format!("{name}-{number}"));
        std::fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(folder)
    }

    /// HOST:PORT of the upstream.
    fn upstream_address(&self, legs: Legs) -> &str {
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
    fn way(&self, legs: Legs, port: Option<u16>) -> Way {
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

/// A running peer.
pub(crate) struct Peer {
    pub(crate) kind: Kind,
    tls: Option<Way>,
    plain: Option<Way>,
    /// The process that clients connect to: a hub or a proxy.
    pub(crate) hub: Option<Part>,
    pub(crate) agent: Option<Part>,
    /// Relay between agent and hub, where the link is slowed down or broken.
    pub(crate) relay: Option<Part>,
    /// The metrics page of the hub, of Fairlead only.
    pub(crate) admin: Option<Way>,
}

impl Peer {
    /// Starts the peer and waits until a request comes through.
    ///
    /// # Errors
    /// The peer is missing or does not start. The error is a sentence for the report.
    pub(crate) async fn start(kind: Kind, bed: &Bed<'_>, link: Link) -> anyhow::Result<Self> {
        let mut peer = match kind {
            Kind::Direct => Self::bare(kind, bed),
            Kind::Proxy => Self::proxy(bed).await?,
            Kind::Fairlead => fairlead::start(bed, link).await?,
            Kind::Remotedialer => {
                let plan = remotedialer::plan;
                Self::planned(kind, bed, link, plan).await?
            }
            Kind::Konnectivity => Self::planned(kind, bed, link, konnectivity::plan).await?,
            Kind::Frp => Self::planned(kind, bed, link, copying::frp).await?,
            Kind::Chisel => Self::planned(kind, bed, link, copying::chisel).await?,
            Kind::Rathole => Self::planned(kind, bed, link, copying::rathole).await?,
            Kind::Wstunnel => Self::planned(kind, bed, link, copying::wstunnel).await?,
        };
        if kind.is_tunnel() && kind != Kind::Fairlead {
            peer.answers().await?;
        }
        Ok(peer)
    }

    fn bare(kind: Kind, bed: &Bed<'_>) -> Self {
        Self {
            kind,
            tls: Some(bed.way(Legs::Tls, None)),
            plain: Some(bed.way(Legs::Plain, None)),
            hub: None,
            agent: None,
            relay: None,
            admin: None,
        }
    }

    async fn proxy(bed: &Bed<'_>) -> anyhow::Result<Self> {
        let dir = bed.folder("proxy")?;
        let upstream = &bed.upstream;
        let spec = bed
            .launcher
            .own("proxy", "proxy")
            .args(["--dir".into(), dir.clone().into_os_string()])
            .args(["--upstream", &upstream.url, "--upstream-ca"])
            .arg(upstream.ca_file.clone())
            .args(["--plain-upstream", &upstream.plain_url]);
        let mut part = Part::new("proxy", spec);
        part.start(bed.launcher)?;
        let ready: Ready = part.ready(&ready_file("proxy", &dir)).await?;
        let mut peer = Self::bare(Kind::Proxy, bed);
        peer.tls = Some(Way {
            url: ready.url,
            ca_file: Some(ready.ca_file),
            ..bed.way(Legs::Tls, None)
        });
        peer.plain = Some(Way {
            url: ready.plain_url,
            ..bed.way(Legs::Plain, None)
        });
        peer.hub = Some(part);
        Ok(peer)
    }

    async fn planned(
        kind: Kind,
        bed: &Bed<'_>,
        link: Link,
        plan: fn(&Bed<'_>, &Ports) -> anyhow::Result<Plan>,
    ) -> anyhow::Result<Self> {
        let hub_port = ports::free()?;
        let (relay, link_port) = link.stretch(bed, kind, hub_port).await?;
        let ports = Ports {
            hub: hub_port,
            link: link_port,
            tls: ports::free()?,
            plain: ports::free()?,
        };
        let plan = plan(bed, &ports)?;
        let mut hub = Part::new("hub", plan.hub);
        let mut agent = Part::new("agent", plan.agent.at_site());
        hub.start(bed.launcher)?;
        hub.listening(hub_port).await?;
        agent.start(bed.launcher)?;
        Ok(Self {
            kind,
            tls: Some(plan.tls),
            plain: Some(plan.plain),
            hub: Some(hub),
            agent: Some(agent),
            relay,
            admin: None,
        })
    }

    pub(crate) fn way(&self, legs: Legs) -> Option<&Way> {
        match legs {
            Legs::Tls => self.tls.as_ref(),
            Legs::Plain => self.plain.as_ref(),
        }
    }

    /// Processes between client and upstream, the client's side first.
    fn parts(&mut self) -> impl Iterator<Item = &mut Part> {
        [&mut self.hub, &mut self.relay, &mut self.agent]
            .into_iter()
            .flatten()
    }

    /// `ROLE=PID` of every process on the route, for the load client.
    pub(crate) fn watched(&mut self, bed: &Bed<'_>) -> anyhow::Result<Vec<String>> {
        let mut watched = self
            .parts()
            .map(|part| part.watched())
            .collect::<anyhow::Result<Vec<_>>>()?;
        watched.push(bed.upstream_watched()?);
        Ok(watched)
    }

    /// # Errors
    /// A process has ended by itself.
    pub(crate) fn alive(&mut self) -> anyhow::Result<()> {
        self.parts().try_for_each(Part::alive)
    }

    async fn answers(&mut self) -> anyhow::Result<()> {
        let way = self.way(Legs::Tls).context("there is no way")?.clone();
        let target = way.target("/readyz")?;
        let answered = time::timeout(READY_DEADLINE, async {
            loop {
                self.alive()?;
                match time::timeout(ATTEMPT_DEADLINE, target.once()).await {
                    Ok(Ok(_)) => return anyhow::Ok(()),
                    _ => time::sleep(POLL_INTERVAL).await,
                }
            }
        })
        .await;
        answered.unwrap_or_else(|_| {
            let last = self.agent.as_ref().or(self.hub.as_ref());
            let step = format!("wait until a request comes through, {READY_DEADLINE:?} long");
            Err(last.map_or_else(|| anyhow::anyhow!(step.clone()), |part| part.failed(&step)))
        })
    }

    pub(crate) async fn end(mut self) {
        for part in self.parts() {
            part.kill();
        }
    }
}

/// Ports of a peer, each on 127.0.0.1.
struct Ports {
    /// Port on which the hub accepts agents.
    hub: u16,
    /// Port that agents dial: the hub's own or a relay's.
    link: u16,
    /// Ports on which the hub accepts clients, for the upstream with TLS and without.
    tls: u16,
    plain: u16,
}

struct Plan {
    hub: crate::launch::Spec,
    agent: crate::launch::Spec,
    tls: Way,
    plain: Way,
}
