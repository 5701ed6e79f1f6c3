//! The reported state of a cluster follows every break and every repair of the path in time.

use std::fs;
use std::time::Duration;

use anyhow::ensure;
use fairlead_e2e::NetNs;
use fairlead_e2e_net::{Fault, Stage, Toward};
use rustix::process::Signal;

/// Deadline for a break to be reported.
const BREAK_DEADLINE: Duration = Duration::from_secs(30);
/// Deadline for a repair to be reported.
const RECOVERY_DEADLINE: Duration = Duration::from_secs(15);
/// Group id of the agent alone, so that a firewall rule affects nothing else at its site.
const AGENT_GROUP: u32 = 4242;

/// Firewall of a site between the API server and the processes of a group.
struct Wall<'a>(&'a NetNs);

impl<'a> Wall<'a> {
    fn between(
        group: u32,
        port: u16,
        at: &'a NetNs,
        folder: &std::path::Path,
    ) -> anyhow::Result<Self> {
        let rules = folder.join("wall.nft");
        let chain = format!(
            "table inet apart {{\n chain out {{\n  type filter hook output priority 0\n  \
             meta skgid {group} tcp dport {port} drop\n }}\n}}\n"
        );
        fs::write(&rules, chain)?;
        at.run(&["nft".as_ref(), "-f".as_ref(), rules.as_os_str()])?;
        Ok(Self(at))
    }
}

impl Drop for Wall<'_> {
    fn drop(&mut self) {
        // The site outlives its test.
        drop(self.0.run(&["nft", "delete", "table", "inet", "apart"]));
    }
}

#[tokio::test]
async fn unreachable_api_server_is_distinguished_from_a_lost_link() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let site = stage.agent(|agent| agent.in_group(AGENT_GROUP)).await?;
    let before = site.dials().await?;
    let (port, folder) = (stage.cluster.api_port(), stage.net.folder());
    let wall = Wall::between(AGENT_GROUP, port, &stage.net.site, folder)?;
    stage.state_within("ApiUnreachable", BREAK_DEADLINE).await?;
    drop(wall);
    stage.state_within("Connected", RECOVERY_DEADLINE).await?;
    stage.get_nodes().await?;
    ensure!(
        site.dials().await? == before,
        "the link was given up for it\n{}",
        stage.said(&site)
    );
    Ok(())
}

#[tokio::test]
async fn stop_and_return_of_an_agent_are_reported() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let mut site = stage.agent(|agent| agent).await?;
    site.process.signal(Signal::STOP)?;
    stage.state_within("Lost", BREAK_DEADLINE).await?;
    site.process.signal(Signal::CONT)?;
    stage.state_within("Connected", RECOVERY_DEADLINE).await
}

#[tokio::test]
async fn loss_and_return_of_an_agents_path_are_reported() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let _site = stage.agent(|agent| agent).await?;
    stage.net.cut(Fault::Silence(Toward::Site))?;
    stage.state_within("Lost", BREAK_DEADLINE).await?;
    stage.net.heal()?;
    stage.state_within("Connected", RECOVERY_DEADLINE).await
}
