//! Calls that change nothing.

use crate::STEP_DEADLINE;
use crate::row::{check, row};
use crate::world::KubectlWorld;

#[tokio::test]
async fn objects_are_equal_on_every_route() -> anyhow::Result<()> {
    let rows = [
        row("get nodes").has_ages().says("node-0"),
        row("get pods -l app=demo").has_ages().says("Running"),
        row("get all -n default")
            .has_ages()
            .says("deployment.apps/demo"),
        row("get nodes -o name").says("node/"),
        row("get pod {pod} -o yaml").says("fairlead.test/demo"),
        row("get pod {pod} -o json").says("fairlead.test/demo"),
        row("get pods -o jsonpath={.items[*].spec.nodeName}").says("node-"),
        // Kinds that no other test or controller changes, about half a megabyte.
        row("get -A -o yaml clusterroles,clusterrolebindings,services,priorityclasses,apiservices")
            .says("name: fairlead-admin"),
        row("get clusterroles -o name --chunk-size=5")
            .says("clusterrole.rbac.authorization.k8s.io/view"),
        // One of them, since the control plane adds others by itself.
        row("get configmap kube-root-ca.crt -n kube-system -o name")
            .says("configmap/kube-root-ca.crt"),
        row("describe clusterrole view").says("PolicyRule:"),
        row("rollout status deployment/demo").says("successfully rolled out"),
        row("get --raw /version").says("v1.37.1"),
        row("get --raw /readyz?verbose").says("readyz check passed"),
        // Four megabytes, compressed in transit.
        row("get --raw /openapi/v2").says("io.k8s.api.core.v1.Pod"),
    ];
    let world = KubectlWorld::shared().await?;
    // The control plane makes it some time after the start.
    let made = "wait --for=create configmap/kube-root-ca.crt -n kube-system --timeout=30s";
    let made = world
        .cluster
        .kubectl()
        .args(made.split(' '))
        .deadline(2 * STEP_DEADLINE);
    made.run().await?.success()?;
    check(world, &rows).await
}

#[tokio::test]
async fn api_discovery_is_equal_on_every_route() -> anyhow::Result<()> {
    let rows = [
        row("api-resources").says("deployments"),
        row("api-resources -o wide --sort-by=kind").says("create,delete"),
        row("api-versions").says("apps/v1"),
        row("explain pods.spec.containers").says("FIELDS:"),
        row("explain deployments --recursive").says("minReadySeconds"),
        row("version -o yaml").says("gitVersion: v1.37.1"),
        row("cluster-info").names_the_server().says("SERVER"),
    ];
    check(KubectlWorld::shared().await?, &rows).await
}

#[tokio::test]
async fn api_errors_are_equal_on_every_route() -> anyhow::Result<()> {
    let rows = [
        row("get pod nosuch")
            .exits(1)
            .says("pods \"nosuch\" not found"),
        row("get nosuch")
            .exits(1)
            .says("the server doesn't have a resource type"),
        row("get --raw /nosuch").exits(1).says("NotFound"),
        row("explain nosuch").exits(1).says("nosuch"),
        row("get pods --field-selector=nosuch=1")
            .exits(1)
            .says("BadRequest"),
        row("logs nosuch").exits(1).says("not found"),
        row("exec nosuch -- true").exits(1).says("not found"),
        row("rollout status deployment/nosuch")
            .exits(1)
            .says("not found"),
        // No metrics API is installed.
        row("top nodes").exits(1).says("Metrics API not available"),
        row("top pods").exits(1).says("Metrics API not available"),
    ];
    check(KubectlWorld::shared().await?, &rows).await
}
