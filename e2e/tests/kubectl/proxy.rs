//! `kubectl proxy`, and other kubectls through it.

use std::fs;

use anyhow::Context;
use fairlead_e2e::{Kubectl, RunningKubectl};

use crate::world::{CallRoute, KubectlWorld};
use crate::{BOTH, STEP_DEADLINE};

/// Starts `kubectl proxy` and returns a kubectl that knows only its address.
async fn proxy(
    world: &KubectlWorld,
    way: CallRoute,
    flags: &[&str],
) -> anyhow::Result<(RunningKubectl, Kubectl)> {
    // By default it rejects exec and attach.
    let proxy = world
        .kubectl(way)
        .args(["proxy", "--port=0", "--reject-paths=^$"]);
    let mut proxy = proxy.args(flags).deadline(STEP_DEADLINE).spawn()?;
    let line = proxy.next_line().await?.unwrap_or_default();
    let address = line.strip_prefix("Starting to serve on ");
    let address = address.with_context(|| format!("{line:?}: {}", proxy.stderr()))?;
    let kubeconfig = world
        .hub
        .dir()
        .join(format!("proxy-{}.kubeconfig", way.tag()));
    fs::write(
        &kubeconfig,
        format!(
            "{{apiVersion: v1, kind: Config, current-context: x, contexts: [{{name: x, context: {{cluster: x}}}}], clusters: [{{name: x, cluster: {{server: 'http://{address}'}}}}]}}"
        ),
    )?;
    Ok((proxy, world.cluster.kubectl().kubeconfig(kubeconfig)))
}

async fn get_and_exec_through(
    world: &KubectlWorld,
    way: CallRoute,
    flags: &[&str],
) -> anyhow::Result<()> {
    let (_proxy, kubectl) = proxy(world, way, flags).await?;
    let nodes = kubectl
        .clone()
        .args(["get", "nodes", "-o", "name"])
        .run()
        .await?;
    assert_eq!(
        nodes.success()?,
        "node/node-0\nnode/node-1\nnode/node-2\n",
        "{way:?}"
    );
    for over in BOTH {
        let script = "cat; echo err >&2; exit 7";
        let exec = kubectl.clone().transport(over).stdin("out\n");
        let exec = exec.args(["exec", "-i", world.pod(0), "--", "sh", "-c", script]);
        let output = exec.run().await?;
        assert_eq!(
            output.status.code(),
            Some(7),
            "{way:?} {over:?}: {output:?}"
        );
        assert_eq!(output.text(), "out\n", "{way:?} {over:?}");
        assert!(
            output.stderr.starts_with("err\n"),
            "{way:?} {over:?}: {output:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn proxy_works_directly_and_by_name() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    get_and_exec_through(world, CallRoute::Direct, &[]).await?;
    get_and_exec_through(world, CallRoute::Name, &[]).await
}

/// It drops the path of the server's URL by default. The hub's error then names the requested path.
#[tokio::test]
async fn proxy_works_by_path_if_it_keeps_the_path() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    get_and_exec_through(world, CallRoute::Path, &["--append-server-path"]).await?;
    let (_proxy, kubectl) = proxy(world, CallRoute::Path, &[]).await?;
    let output = kubectl
        .args(["get", "--raw", "/api/v1/nodes"])
        .run()
        .await?;
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stderr.contains("FL-1305"), "{output:?}");
    Ok(())
}
