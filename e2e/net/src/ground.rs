//! Parts that all tests of a run share because they take seconds to start: the site's namespace and its
//! cluster. Each test builds its own network around them.

use fairlead_e2e::{Cluster, NetNs, netns};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::folder::RigFolder;

/// Programs that every test needs, besides those for namespaces.
const PROGRAMS: [&str; 2] = ["nft", "conntrack"];

/// The site: a real cluster on the loopback of a namespace that has no links yet.
#[derive(Debug)]
pub struct Ground {
    /// Network namespace of the site.
    pub site: NetNs,
    /// Kubernetes cluster inside the namespace.
    pub cluster: Cluster,
    turn: Mutex<()>,
    _folder: RigFolder,
}

impl Ground {
    /// The site of this test binary, started on first use, for one test at a time.
    ///
    /// # Errors
    /// This machine does not support it, which one sentence explains, or the cluster does not start.
    pub async fn shared() -> anyhow::Result<(&'static Self, MutexGuard<'static, ()>)> {
        static SHARED: OnceCell<Ground> = OnceCell::const_new();
        let ground = SHARED.get_or_try_init(Self::start).await?;
        Ok((ground, ground.turn.lock().await))
    }

    async fn start() -> anyhow::Result<Self> {
        netns::check_support("the network rig", &PROGRAMS)?;
        let folder = RigFolder::new()?;
        let site = NetNs::new("site", folder.path()).await?;
        let cluster = Cluster::start_in(&site).await?;
        Ok(Self {
            site,
            cluster,
            turn: Mutex::new(()),
            _folder: folder,
        })
    }
}
