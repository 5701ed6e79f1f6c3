//! What the tests of one run share, because it takes seconds to be there: the site's namespace with its cluster. Each test
//! in its turn builds a network of its own around it.

use fairlead_e2e::{Cluster, NetNs, netns};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::folder::Folder;

/// Programs without which nothing here runs, beside those of namespaces themselves.
const PROGRAMS: [&str; 2] = ["nft", "conntrack"];

/// The site: a real cluster on the loopback of a namespace that has no way out yet.
#[derive(Debug)]
pub struct Ground {
    pub site: NetNs,
    pub cluster: Cluster,
    turn: Mutex<()>,
    _folder: Folder,
}

impl Ground {
    /// The one of this test binary, started by whoever asks first, for one test at a time.
    ///
    /// # Errors
    /// This machine cannot run it: one sentence says why. Or the cluster does not come up.
    pub async fn shared() -> anyhow::Result<(&'static Self, MutexGuard<'static, ()>)> {
        static SHARED: OnceCell<Ground> = OnceCell::const_new();
        let ground = SHARED.get_or_try_init(Self::start).await?;
        Ok((ground, ground.turn.lock().await))
    }

    async fn start() -> anyhow::Result<Self> {
        netns::check_support("the network rig", &PROGRAMS)?;
        let folder = Folder::new()?;
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
