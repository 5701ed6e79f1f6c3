//! Calls that change objects. Each route has a namespace of its own, so that all three find the same objects.

use crate::row::{CommandRow, check, row};
use crate::world::{CallRoute, KubectlWorld};

const ONE: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {colour: blue}}";
const OTHER: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {colour: red}}";

async fn namespaces(world: &KubectlWorld, name: &str) -> anyhow::Result<()> {
    for way in CallRoute::ALL {
        world.namespace(&format!("{name}-{}", way.tag())).await?;
    }
    Ok(())
}

/// Adds its namespace to each call. Every call that shows an object shows stamps.
fn within(namespace: &str, rows: impl IntoIterator<Item = CommandRow>) -> Vec<CommandRow> {
    let namespace = format!("--namespace={namespace}-{{tag}}");
    rows.into_iter().map(|row| row.first(&namespace)).collect()
}

#[tokio::test]
async fn objects_are_written_equally_on_every_route() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    namespaces(world, "write").await?;
    let show = || row("get configmap one -o yaml").has_stamps();
    let rows = [
        row("apply -f -").stdin(ONE).says("configmap/one created"),
        row("apply -f -").stdin(ONE).says("configmap/one unchanged"),
        show().says("colour: blue"),
        row("diff -f -").stdin(ONE),
        row("diff -f -").stdin(OTHER).names_folders().exits(1).says("+  colour: red"),
        row("apply -f - --dry-run=server").stdin(OTHER).says("(server dry run)"),
        row("apply -f -").stdin(OTHER).says("configmap/one configured"),
        row("edit configmap one").editor("sed -i s/red/green/").says("configmap/one edited"),
        row("edit configmap one").editor("true").says("no changes made"),
        show().says("colour: green"),
        row("patch configmap one -p {\"data\":{\"colour\":null,\"size\":\"1\"}}").says("patched"),
        row("patch configmap one --type=json -p [{\"op\":\"add\",\"path\":\"/data/x\",\"value\":\"y\"}]")
            .says("patched"),
        row("patch configmap one --type=json -p [{\"op\":\"test\",\"path\":\"/data/x\",\"value\":\"z\"}]")
            .exits(1)
            .says("invalid"),
        row("label configmap one a=b").says("labeled"),
        row("annotate configmap one a=b").says("annotated"),
        row("create configmap one").exits(1).says("already exists"),
        show().says("size: \"1\""),
        row("delete configmap one").has_stamps().says("deleted"),
        row("delete configmap one").exits(1).says("NotFound"),
    ];
    check(world, &within("write", rows)).await
}

#[tokio::test]
async fn server_side_apply_is_equal_on_every_route() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    namespaces(world, "apply").await?;
    // Larger than every buffer on the path.
    let big = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: big}}, data: {{x: {}}}}}",
        "0123456789abcdef".repeat(50_000)
    );
    let apply = || row("apply --server-side -f -");
    let rows = [
        apply().stdin(ONE).says("configmap/one serverside-applied"),
        apply().stdin(ONE).says("configmap/one serverside-applied"),
        apply()
            .word("--field-manager=robot")
            .stdin(OTHER)
            .exits(1)
            .says("conflict"),
        apply()
            .word("--field-manager=robot")
            .word("--force-conflicts")
            .stdin(OTHER)
            .says("applied"),
        row("diff --server-side --force-conflicts -f -")
            .stdin(ONE)
            .names_folders()
            .exits(1)
            .says("+  colour: blue"),
        row("get configmap one -o yaml --show-managed-fields")
            .has_stamps()
            .says("manager: robot"),
        apply().stdin(&big).says("configmap/big serverside-applied"),
        row("get configmap big -o yaml")
            .has_stamps()
            .says("cdef0123"),
        row("apply -f -")
            .stdin("{apiVersion: v1, kind: ConfigMap}")
            .exits(1)
            .says("error"),
        row("apply -f -")
            .stdin("{apiVersion: v1, kind: Nosuch, metadata: {name: x}}")
            .exits(1)
            .says("Nosuch"),
        row("delete configmap one big").says("\"big\" deleted"),
        row("get configmap big").exits(1).says("NotFound"),
    ];
    check(world, &within("apply", rows)).await
}
