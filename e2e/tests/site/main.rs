//! The agent in a pod: the hub's install manifest with its RBAC, the service account's folder, and no flag.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod adoption;
mod clean_end;
mod git_proxy;
mod roles;
mod world;

use anyhow::{Context, ensure};
use fairlead_e2e::eventually;
use serde_json::Value;
use tokio::time::Instant;

use world::{ROBOT, STEP_DEADLINE, SiteWorld};

#[tokio::test]
async fn agent_in_a_pod_enrols_works_and_comes_back_from_its_secret() -> anyhow::Result<()> {
    let world = SiteWorld::start().await?;
    let join = world.join().await?;
    ensure!(
        join == world.joining.join,
        "the Secret holds another join string"
    );
    ensure!(
        world.manifest.matches(&join).count() == 1,
        "the join string is there once"
    );
    let mut agent = world.agent(&join)?;
    world.hub.wait_state("pod", "Connected").await?;
    let first = world.identity().await?;
    ensure!(first.starts_with("identity.json "), "{first}");

    // Through the tunnel, with only the rights of the manifest.
    let kubectl = world.kubectl().await?;
    let get = kubectl
        .clone()
        .args(["get", "namespaces", "-o", "name"])
        .run();
    ensure!(get.await?.success()?.contains("namespace/fairlead\n"));
    let whoami = kubectl.clone().args(["auth", "whoami", "-o", "json"]).run();
    let whoami: Value = serde_json::from_str(&whoami.await?.success()?)?;
    let info = &whoami["status"]["userInfo"];
    ensure!(info["username"] == "fairlead:admin", "{info}");
    let groups = info["groups"].to_string();
    ensure!(groups.contains("\"fairlead:admin\""), "{groups}");
    let direct = world
        .cluster
        .kubectl()
        .args(["auth", "can-i", "--list", "--as", ROBOT, "-n", "default"]);
    let rights = direct.run().await?.success()?;
    ensure!(!rights.contains("secrets"), "{rights}");
    let event = eventually(
        STEP_DEADLINE,
        "an event of the impersonated user",
        async || {
            let events = world.cluster.audit().ok()?;
            events.into_iter().find(|event| {
                event["impersonatedUser"]["username"] == "fairlead:admin"
                    && event["objectRef"]["resource"] == "namespaces"
            })
        },
    )
    .await?;
    ensure!(event["user"]["username"] == ROBOT, "{event}");

    // It returns without a join string under the same identity.
    let watch = kubectl
        .clone()
        .args(["get", "namespaces", "-w", "-o", "name"]);
    let mut watch = watch.spawn()?;
    watch.next_line().await?.context("the watch has ended")?;
    // A watch without a first answer would move to the next session.
    let seen = kubectl.clone().args(["create", "namespace", "seen"]).run();
    seen.await?.success()?;
    while watch.next_line().await?.context("the watch has ended")? != "namespace/seen" {}
    agent
        .process
        .wait_for_log("enrolled", STEP_DEADLINE)
        .await?;
    agent.process.kill_9()?;
    world.hub.wait_state("pod", "Lost").await?;
    agent.restart()?;
    world.hub.wait_state("pod", "Connected").await?;
    // Sessions of the ended process are not kept, since the same pod has a new process now.
    let ended = async {
        while watch.next_line().await?.is_some() {}
        anyhow::Ok(())
    };
    tokio::time::timeout(STEP_DEADLINE, ended)
        .await
        .context("the watch goes on")??;
    ensure!(
        world.identity().await? == first,
        "the identity was made anew"
    );
    let get = kubectl.clone().args(["get", "namespaces"]).run();
    get.await?.success()?;
    let log = agent.process.log()?;
    ensure!(log.matches("enrolled").count() == 1, "{log}");
    ensure!(!log.contains(&join), "the join string is in the log");
    Ok(())
}

#[tokio::test]
async fn rotated_token_is_read_afresh() -> anyhow::Result<()> {
    let world = SiteWorld::start().await?;
    let agent = world.agent(&world.join().await?)?;
    world.hub.wait_state("pod", "Connected").await?;
    let kubectl = world.kubectl().await?;
    let get = async || kubectl.clone().args(["get", "namespaces"]).run().await;

    // With an invalid token nothing works any more, which proves that the file was read again.
    world.pod.write_token("not-a-token")?;
    let refused = eventually(STEP_DEADLINE, "the bad token in use", async || {
        let output = get().await.ok()?;
        (!output.status.success()).then_some(output.stderr)
    })
    .await?;
    eprintln!("with a bad token: {refused:?}");
    world.hub.wait_state("pod", "ApiUnreachable").await?;

    let fresh = world.pod.rotate_token().await?;
    eventually(STEP_DEADLINE, "the new token in use", async || {
        get().await.ok()?.status.success().then_some(())
    })
    .await?;
    world.hub.wait_state("pod", "Connected").await?;
    let log = agent.process.log()?;
    ensure!(
        !log.contains(&fresh) && !log.contains("not-a-token"),
        "{log}"
    );
    Ok(())
}

#[tokio::test]
async fn deleting_the_cluster_ends_the_session_and_the_agent_stays_up() -> anyhow::Result<()> {
    let world = SiteWorld::start().await?;
    let mut agent = world.agent(&world.join().await?)?;
    world.hub.wait_state("pod", "Connected").await?;
    let watch = world
        .kubectl()
        .await?
        .args(["get", "namespaces", "-w", "-o", "name"]);
    let mut watch = watch.spawn()?;
    watch.next_line().await?.context("the watch has ended")?;

    let deleted = world.hub.cli(["cluster", "delete", "pod", "--yes"]).await?;
    let since = Instant::now();
    let said = deleted.success()?;
    ensure!(said.starts_with(&format!("Deleted {}.\n", world.joining.id)));
    ensure!(said.contains("fairlead agent uninstall"), "{said}");
    eventually(STEP_DEADLINE, "the end of the session", async || {
        let metrics = world.hub.metrics().await.ok()?;
        (metrics.sum("fairlead_sessions", &[]) == 0.0).then_some(())
    })
    .await?;
    let took = since.elapsed();
    eprintln!("the session ended {took:?} after the deletion");
    watch.wait().await?;
    agent.process.wait_for_log("FL-2109", STEP_DEADLINE).await?;
    eventually(STEP_DEADLINE, "the gauge back at 0", async || {
        let metrics = agent.metrics().await.ok()?;
        (metrics.sum("fairlead_agent_connected", &[]) == 0.0).then_some(())
    })
    .await?;
    let health = agent.admin_get("/healthz").await?;
    ensure!(health == "ok\n", "{health}");
    eventually(STEP_DEADLINE, "an agent that is not ready", async || {
        agent.admin_get("/readyz").await.is_err().then_some(())
    })
    .await
}

#[tokio::test]
async fn uninstall_removes_everything_of_manifest_and_agent_and_lists_the_rest()
-> anyhow::Result<()> {
    let world = SiteWorld::start().await?;
    let agent = world.agent(&world.join().await?)?;
    world.hub.wait_state("pod", "Connected").await?;
    drop(agent);
    let kubectl = |words: &str| {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        world.cluster.kubectl().args(words).run()
    };
    kubectl("create clusterrolebinding mine --clusterrole=edit --group=fairlead:operator")
        .await?
        .success()?;
    kubectl("create clusterrole fairlead-of-mine --verb=list --resource=nodes")
        .await?
        .success()?;
    let kubeconfig = world.cluster.kubeconfig();
    let uninstall = async |more: &[&str]| {
        let kubeconfig = kubeconfig.display().to_string();
        let args = ["agent", "uninstall", "--kubeconfig", &kubeconfig];
        world.hub.cli(args.iter().chain(more)).await
    };
    let asked = uninstall(&[]).await?;
    ensure!(asked.stderr.contains("FL-4118"), "{asked:?}");
    let all = [
        "Deployment fairlead/fairlead-agent",
        "Secret fairlead/fairlead-join",
        "Secret fairlead/fairlead-identity",
        "ClusterRoleBinding fairlead-admin",
        "ClusterRole fairlead-facts-helm",
        "Namespace fairlead, with all that is in it",
    ];
    for object in all {
        ensure!(asked.stderr.contains(object), "no {object} in {asked:?}");
    }
    ensure!(
        kubectl("get clusterrole fairlead-agent")
            .await?
            .status
            .success()
    );

    let done = uninstall(&["--yes"]).await?;
    for object in all {
        let line = format!("Deleted {object}.\n");
        ensure!(done.text().contains(&line), "no {line} in {done:?}");
    }
    ensure!(
        done.stderr
            .contains("left: ClusterRoleBinding mine: it binds fairlead:operator"),
        "{done:?}"
    );
    done.success()?;
    let rest = kubectl("get clusterroles,clusterrolebindings -o name")
        .await?
        .success()?;
    let rest: Vec<&str> = rest
        .lines()
        .filter(|line| line.contains("fairlead"))
        .collect();
    ensure!(
        rest == ["clusterrole.rbac.authorization.k8s.io/fairlead-of-mine"],
        "{rest:?}"
    );
    let secrets = kubectl("get secrets,deployments -n fairlead -o name")
        .await?
        .success()?;
    ensure!(secrets.is_empty(), "{secrets}");

    let again = uninstall(&["--yes"]).await?.success()?;
    ensure!(again.starts_with("Nothing of Fairlead's"), "{again}");
    Ok(())
}
