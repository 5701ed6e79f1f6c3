//! Rights of the hub's roles in a cluster with the objects of the install manifest.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use fairlead_e2e::{Kubectl, eventually};

use super::world::{NAMESPACE, STEP_DEADLINE, SiteWorld};

/// Namespace in which operators may write.
const SHOP: &str = "shop";
/// Pod with the agent's account, which may impersonate.
const ROBOT_POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"thief"},"spec":{"serviceAccountName":"fairlead-agent","containers":[{"name":"c","image":"none","securityContext":{"allowPrivilegeEscalation":false,"runAsNonRoot":true,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}}]}}"#;

async fn world(more: &str) -> anyhow::Result<SiteWorld> {
    let choices = format!("&operatorNamespaces={SHOP}{more}");
    SiteWorld::with(&choices, &[SHOP]).await
}

async fn kubectl_of(world: &SiteWorld, role: &str) -> anyhow::Result<Kubectl> {
    let create = [
        "token",
        "create",
        role,
        "--role",
        role,
        "-o",
        "jsonpath={.token}",
    ];
    let token = world.hub.cli(create).await?.success()?;
    let flag = format!("--token={}", token.trim());
    Ok(world.kubectl().await?.args([flag]))
}

async fn refused(kubectl: &Kubectl, words: &str, reason: &str) -> anyhow::Result<()> {
    let output = kubectl.clone().args(words.split(' ')).run().await?;
    ensure!(!output.status.success(), "{words} is allowed: {output:?}");
    ensure!(output.stderr.contains(reason), "{words}: {output:?}");
    Ok(())
}

async fn allowed(kubectl: &Kubectl, words: &str) -> anyhow::Result<String> {
    let output = kubectl.clone().args(words.split(' ')).run().await?;
    output.success().with_context(|| words.to_owned())
}

async fn create_robot_pod(kubectl: &Kubectl, namespace: &str) -> anyhow::Result<String> {
    let create = kubectl.clone().args(["create", "-n", namespace, "-f", "-"]);
    let output = create.stdin(ROBOT_POD).run().await?;
    ensure!(
        !output.status.success(),
        "a pod with the agent's account: {output:?}"
    );
    Ok(output.stderr)
}

#[tokio::test]
async fn operators_get_nothing_of_the_agent() -> anyhow::Result<()> {
    let world = world("").await?;
    let _agent = world.agent(&world.join().await?)?;
    world.hub.wait_state("pod", "Connected").await?;
    let operator = kubectl_of(&world, "operator").await?;
    for words in [
        "get secret fairlead-identity -n fairlead",
        "get --raw /api/v1/namespaces/fair%6cead/secrets/fairlead-identity",
        "get secrets -A",
        "create token fairlead-agent -n fairlead",
        "get pods -n fairlead",
        "delete namespace fairlead",
    ] {
        refused(&operator, words, "reserved to admins of the hub").await?;
    }
    let of_agent = create_robot_pod(&operator, NAMESPACE).await?;
    ensure!(
        of_agent.contains("reserved to admins of the hub"),
        "{of_agent}"
    );
    let elsewhere = create_robot_pod(&operator, SHOP).await?;
    ensure!(
        elsewhere.contains("serviceaccount \"fairlead-agent\" not found"),
        "{elsewhere}"
    );
    refused(&operator, "get pods --as=kubernetes-admin", "FL-1202").await?;
    refused(
        &operator,
        "get nodes --as-group=system:masters --as=x",
        "FL-1202",
    )
    .await?;

    allowed(&operator, "create configmap mine -n shop").await?;
    refused(&operator, "create configmap mine -n default", "forbidden").await?;
    let grant = "create rolebinding mine -n shop --clusterrole=admin --group=fairlead:operator";
    refused(&operator, grant, "forbidden").await?;
    allowed(&operator, "get namespace fairlead").await?;
    let admin = world.kubectl().await?;
    allowed(&admin, "get secret fairlead-identity -n fairlead").await?;
    allowed(&admin, "create configmap mine -n fairlead").await?;
    Ok(())
}

/// The agent is not asked: an account of the cluster plays its part. The site operator has bound operators everywhere.
#[tokio::test]
async fn admission_guards_the_namespace_behind_the_agent() -> anyhow::Result<()> {
    let world = world("").await?;
    let site = world.cluster.kubectl();
    allowed(
        &site,
        "create clusterrolebinding mine --clusterrole=edit --group=fairlead:operator",
    )
    .await?;
    let user = ["--as=fairlead:ann", "--as-group=fairlead:operator"];
    let operator = site.clone().args(user);
    let reason = "reserved to admins of the hub";
    // An API server loads a new policy within a moment.
    eventually(STEP_DEADLINE, "the policy in force", async || {
        let create = "create configmap mine -n fairlead --dry-run=server";
        refused(&operator, create, reason).await.ok()
    })
    .await?;
    let pod = create_robot_pod(&operator, NAMESPACE).await?;
    ensure!(pod.contains(reason), "{pod}");
    refused(&operator, "create token fairlead-agent -n fairlead", reason).await?;
    let bare = ROBOT_POD.replace("thief", "agent");
    let create = site
        .clone()
        .args(["create", "-n", NAMESPACE, "-f", "-"])
        .stdin(bare);
    create.run().await?.success()?;
    refused(&operator, "exec -n fairlead agent -- sh", reason).await?;
    refused(&operator, "delete pod -n fairlead agent", reason).await?;
    let admin = site
        .clone()
        .args(["--as=fairlead:ann", "--as-group=fairlead:admin"]);
    allowed(
        &admin,
        "delete pod -n fairlead agent --grace-period=0 --force",
    )
    .await?;
    allowed(&operator, "create configmap mine -n default").await?;
    Ok(())
}

#[tokio::test]
async fn constrained_impersonation_serves_and_impersonates_no_node() -> anyhow::Result<()> {
    let world = world("&impersonation=constrained").await?;
    let _agent = world.agent(&world.join().await?)?;
    world.hub.wait_state("pod", "Connected").await?;
    let operator = kubectl_of(&world, "operator").await?;
    allowed(&operator, "create configmap mine -n shop").await?;
    allowed(&operator, "get pods -A").await?;
    allowed(&operator, "get --raw /version").await?;
    refused(&operator, "create configmap mine -n default", "forbidden").await?;
    let rights =
        world
            .cluster
            .kubectl()
            .args(["auth", "can-i", "--list", "--as", super::world::ROBOT]);
    let rights = rights.run().await?.success()?;
    ensure!(!rights.contains("[impersonate]"), "{rights}");
    ensure!(!rights.contains("arbitrary-node"), "{rights}");
    Ok(())
}

/// Verbs of a user for a resource, from the lines of `kubectl auth can-i --list`.
fn verbs(rights: &str, resource: &str) -> String {
    let mut verbs = BTreeSet::new();
    for line in rights.lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let last = line
            .rsplit_once('[')
            .map(|(_, verbs)| verbs.trim_end_matches(']'));
        if name == resource || name == "*.*" {
            verbs.extend(last.unwrap_or_default().split_whitespace());
        }
    }
    match verbs.len() {
        0 => "none".to_owned(),
        _ if verbs.contains("*") => "all".to_owned(),
        _ => Vec::from_iter(verbs).join(", "),
    }
}

#[tokio::test]
async fn table_of_rights_in_the_documents_is_true() -> anyhow::Result<()> {
    let world = world("").await?;
    let _agent = world.agent(&world.join().await?)?;
    world.hub.wait_state("pod", "Connected").await?;
    let mut lists = Vec::new();
    for (role, namespace) in [
        ("admin", SHOP),
        ("operator", SHOP),
        ("operator", "default"),
        ("viewer", SHOP),
    ] {
        let kubectl = kubectl_of(&world, role).await?;
        lists.push(allowed(&kubectl, &format!("auth can-i --list -n {namespace}")).await?);
    }
    let mut table = "| resource | `admin` | `operator` in its namespaces | `operator` elsewhere | `viewer` |\n|---|---|---|---|---|\n".to_owned();
    for resource in [
        "pods",
        "pods/log",
        "pods/exec",
        "deployments.apps",
        "configmaps",
        "secrets",
        "serviceaccounts",
        "serviceaccounts/token",
        "rolebindings.rbac.authorization.k8s.io",
        "nodes",
        "users",
    ] {
        let cells: Vec<String> = lists.iter().map(|rights| verbs(rights, resource)).collect();
        table += &format!("| `{resource}` | {} |\n", cells.join(" | "));
    }
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/access.md");
    let document = std::fs::read_to_string(document)?;
    ensure!(
        document.contains(&table),
        "docs/access.md lacks this table:\n{table}"
    );
    Ok(())
}
