//! One network: user, edge, hub, corp and site, and the links between them.
//!
//! ```text
//! user 100.64.0.2 ── 100.64.0.1 edge 203.0.113.1 ── 203.0.113.2 hub
//!                               198.51.100.1
//!                                    │ the emulated link, one TUN device each side
//!                               198.51.100.2
//! site 10.1.0.2 ──── 10.1.0.1  corp, with NAT
//! ```

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fairlead_e2e::link::{LinkControl, LinkShape, Toward};
use fairlead_e2e::{Launch, NetNs, Process};
use tokio::sync::MutexGuard;

use crate::HUB;
use crate::fault::{self, Fault};
use crate::folder::RigFolder;
use crate::ground::Ground;
use crate::left::NetSecrets;

/// Address of corp on the site's side, IPv6.
pub const CORP_V6: &str = "fd00:1::1";
/// Address of the hub, IPv6.
pub const HUB_V6: &str = "fd00:113::2";
/// Address of the site.
pub const SITE: &str = "10.1.0.2";
/// Address of corp on the site's side: its gateway and its squid.
pub const CORP: &str = "10.1.0.1";
/// Address of edge on the world's side: its load balancers.
pub const EDGE: &str = "198.51.100.1";
/// Address of the hub itself.
pub const HUB_ADDRESS: &str = "203.0.113.2";

const START_DEADLINE: Duration = Duration::from_secs(10);
/// Fixed, so that a run can be repeated.
const LINK_SEED: &str = "1";

/// Everything between a user's kubectl and the site. Dropping it removes all of it except the site.
#[derive(Debug)]
pub struct Net {
    /// Namespace of kubectl.
    pub user: NetNs,
    /// Namespace of load balancers in front of the hub.
    pub edge: NetNs,
    /// Namespace of the hub.
    pub hub: NetNs,
    /// Namespace of the company's gateway and its proxy.
    pub corp: NetNs,
    /// Namespace of the agent and its cluster.
    pub site: NetNs,
    /// Site shared by all tests of the process.
    pub ground: &'static Ground,
    /// Secrets of boxes and tests.
    pub secrets: NetSecrets,
    control: LinkControl,
    shape: Mutex<LinkShape>,
    ports: Mutex<bool>,
    /// Link emulator between corp and the world.
    pub emulator: Process,
    folder: RigFolder,
    _turn: MutexGuard<'static, ()>,
}

impl Net {
    /// Builds a network around the shared site: an ideal link, no faults, direct access to the hub.
    ///
    /// # Errors
    /// This machine does not support it, or a program fails. The error names it.
    pub async fn build() -> anyhow::Result<Self> {
        let (ground, turn) = Ground::shared().await?;
        let folder = RigFolder::new()?;
        let at = folder.path();
        let (user, edge, hub, corp) = tokio::try_join!(
            NetNs::new("user", at),
            NetNs::new("edge", at),
            NetNs::new("hub", at),
            NetNs::new("corp", at),
        )?;
        let socket = at.join("link.sock");
        let mut emulator = Launch::built("fairlead-e2e-link")?
            .args([socket.as_os_str()])
            .args([LINK_SEED, "tosite", "tohub"])
            .inside(&corp)
            .spawn(at.join("link.log"))?;
        emulator.wait_for_log("ready", START_DEADLINE).await?;
        let net = Self {
            user,
            edge,
            hub,
            corp,
            site: ground.site.clone(),
            ground,
            secrets: NetSecrets::default(),
            control: LinkControl::new(socket),
            shape: Mutex::new(LinkShape::default()),
            ports: Mutex::new(false),
            emulator,
            folder,
            _turn: turn,
        };
        net.wire()?;
        net.direct()?;
        Ok(net)
    }

    fn wire(&self) -> anyhow::Result<()> {
        // Left over from a previous network that is still being removed.
        drop(self.site.run(&["ip", "link", "del", "corp"]));
        cable(
            (&self.site, "corp", "10.1.0.2/24"),
            (&self.corp, "site", "10.1.0.1/24"),
        )?;
        cable(
            (&self.hub, "edge", "203.0.113.2/24"),
            (&self.edge, "hub", "203.0.113.1/24"),
        )?;
        cable(
            (&self.user, "edge", "100.64.0.2/24"),
            (&self.edge, "user", "100.64.0.1/24"),
        )?;
        let edge = self.edge.pid().to_string();
        // The emulator created both devices here and stays attached to them.
        self.corp
            .run(&["ip", "link", "set", "tosite", "name", "wan"])?;
        self.corp
            .run(&["ip", "link", "set", "tohub", "netns", &edge, "name", "wan"])?;
        up(&self.corp, "wan", "198.51.100.2/24")?;
        up(&self.edge, "wan", "198.51.100.1/24")?;
        for (from, via) in [
            (&self.site, CORP),
            (&self.corp, EDGE),
            (&self.hub, "203.0.113.1"),
            (&self.user, "100.64.0.1"),
        ] {
            from.run(&["ip", "route", "add", "default", "via", via])?;
        }
        for router in [&self.corp, &self.edge] {
            router.run(&["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])?;
        }
        self.translate()
    }

    /// Gives all namespaces IPv6 addresses, and routes between them.
    ///
    /// # Errors
    /// A program fails, or this kernel has no IPv6.
    pub fn add_ipv6(&self) -> anyhow::Result<()> {
        for (at, device, address) in [
            (&self.site, "corp", "fd00:1::2/64"),
            (&self.corp, "site", "fd00:1::1/64"),
            (&self.corp, "wan", "fd00:51::2/64"),
            (&self.edge, "wan", "fd00:51::1/64"),
            (&self.edge, "hub", "fd00:113::1/64"),
            (&self.hub, "edge", "fd00:113::2/64"),
            (&self.edge, "user", "fd00:64::1/64"),
            (&self.user, "edge", "fd00:64::2/64"),
        ] {
            // Without a search for duplicates, so that they serve at once.
            let add = [
                "ip", "-6", "address", "add", address, "dev", device, "nodad",
            ];
            at.run(&add)?;
        }
        for router in [&self.corp, &self.edge] {
            let forward = "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding";
            router.run(&["sh", "-c", forward])?;
        }
        for (at, to, via) in [
            (&self.site, "default", CORP_V6),
            (&self.corp, "default", "fd00:51::1"),
            (&self.edge, "fd00:1::/64", "fd00:51::2"),
            (&self.hub, "default", "fd00:113::1"),
            (&self.user, "default", "fd00:64::1"),
        ] {
            at.run(&["ip", "-6", "route", "add", to, "via", via])?;
        }
        Ok(())
    }

    /// Takes the IPv4 addresses of site and users away.
    ///
    /// # Errors
    /// A program fails.
    pub fn remove_ipv4(&self) -> anyhow::Result<()> {
        for (at, device) in [(&self.site, "corp"), (&self.user, "edge")] {
            at.run(&["ip", "-4", "address", "flush", "dev", device])?;
        }
        Ok(())
    }

    /// Lets corp drop all IPv6 of the link, silently.
    ///
    /// # Errors
    /// nft fails.
    pub fn drop_ipv6(&self) -> anyhow::Result<()> {
        self.rules(&self.corp, fault::NO_IPV6_RULES)
    }

    /// Installs corp's NAT, with other ports at each call.
    fn translate(&self) -> anyhow::Result<()> {
        let mut second = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let ports = if *second {
            "40000-59999"
        } else {
            "20000-39999"
        };
        *second = !*second;
        self.rules(&self.corp, &fault::nat(ports))
    }

    fn rules(&self, at: &NetNs, rules: &str) -> anyhow::Result<()> {
        let file = self.folder.path().join("rules.nft");
        std::fs::write(&file, rules)?;
        at.run(&["nft".as_ref(), "-f".as_ref(), file.as_os_str()])?;
        Ok(())
    }

    /// Resolves the hub's name to the hub itself, for everyone.
    ///
    /// # Errors
    /// A hosts file cannot be written.
    pub fn direct(&self) -> anyhow::Result<()> {
        for at in [&self.user, &self.corp, &self.site] {
            at.set_hosts(&[(HUB, HUB_ADDRESS)])?;
        }
        Ok(())
    }

    /// Resolves the hub's name to [`EDGE`] at the site; users still reach the hub itself.
    ///
    /// # Errors
    /// As [`Net::direct`].
    pub fn site_by_edge(&self) -> anyhow::Result<()> {
        for at in [&self.corp, &self.site] {
            at.set_hosts(&[(HUB, EDGE)])?;
        }
        Ok(())
    }

    /// Resolves the hub's name to edge for users, too.
    ///
    /// # Errors
    /// As [`Net::direct`].
    pub fn user_by_edge(&self) -> anyhow::Result<()> {
        self.user.set_hosts(&[(HUB, EDGE)])
    }

    /// Lets the site out only through corp's proxy.
    ///
    /// # Errors
    /// nft fails.
    pub fn by_proxy_only(&self) -> anyhow::Result<()> {
        self.rules(&self.corp, fault::PROXY_ONLY_RULES)
    }

    /// Changes the properties of the link between corp and edge in both directions.
    ///
    /// # Errors
    /// The emulator has ended.
    pub fn link(&self, shape: LinkShape) -> anyhow::Result<()> {
        self.control.set(Toward::Both, shape)?;
        *self.shape.lock().unwrap_or_else(PoisonError::into_inner) = shape;
        Ok(())
    }

    /// Sets the TCP congestion control of hub, load balancers, proxy and site: `cubic`, or `bbr` where the
    /// kernel has it.
    ///
    /// # Errors
    /// The kernel does not have it.
    pub fn congestion_control(&self, name: &str) -> anyhow::Result<()> {
        let set = "echo \"$1\" > /proc/sys/net/ipv4/tcp_congestion_control";
        for at in [&self.hub, &self.edge, &self.corp, &self.site] {
            at.run(&["sh", "-c", set, "sh", name])?;
        }
        Ok(())
    }

    /// Breaks the path between site and hub until [`Net::heal`].
    ///
    /// # Errors
    /// A program fails.
    pub fn cut(&self, fault: Fault) -> anyhow::Result<()> {
        match fault {
            Fault::Drop | Fault::Reset | Fault::Loss(_) => self.rules(&self.corp, &fault.rules()),
            Fault::Silence(toward) => {
                let shape = *self.shape.lock().unwrap_or_else(PoisonError::into_inner);
                self.control.set(toward, shape.silent())
            }
            Fault::NatLoss => {
                self.translate()?;
                self.corp.run(&["conntrack", "-F"])?;
                Ok(())
            }
        }
    }

    /// Packets that the current nft fault has matched.
    ///
    /// # Errors
    /// There is no such fault.
    pub fn hits(&self) -> anyhow::Result<u64> {
        let list = ["nft", "list", "counter", "inet", "fault", "hits"];
        fault::packets(&self.corp.run(&list)?)
    }

    /// Repairs the path. A NAT does not recover forgotten connections.
    ///
    /// # Errors
    /// A program fails.
    pub fn heal(&self) -> anyhow::Result<()> {
        self.rules(&self.corp, fault::NO_FAULT_RULES)?;
        let shape = *self.shape.lock().unwrap_or_else(PoisonError::into_inner);
        self.control.set(Toward::Both, shape)
    }

    /// Folder for files of this network's proxies.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // The site stays for the next network. Everything else ends with its namespace.
        drop(self.site.run(&["ip", "link", "del", "corp"]));
    }
}

/// One end of a cable: namespace, device name, address.
type End<'a> = (&'a NetNs, &'a str, &'a str);

fn cable(one: End<'_>, other: End<'_>) -> anyhow::Result<()> {
    let pid = other.0.pid().to_string();
    let veth = [
        "ip", "link", "add", one.1, "type", "veth", "peer", "name", other.1, "netns", &pid,
    ];
    one.0.run(&veth)?;
    for (at, device, address) in [one, other] {
        up(at, device, address)?;
    }
    Ok(())
}

fn up(at: &NetNs, device: &str, address: &str) -> anyhow::Result<()> {
    at.run(&["ip", "address", "add", address, "dev", device])?;
    // Queue for packets that arrive while the emulator is not scheduled.
    at.run(&["ip", "link", "set", device, "txqueuelen", "10000", "up"])?;
    Ok(())
}
