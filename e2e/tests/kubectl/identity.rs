//! Who somebody is in the cluster: what the API server tells them, and what it records.

use crate::row::{check, row};
use crate::world::{GROUPS, USER, Way, World};

#[tokio::test]
async fn rights_are_those_of_the_mapped_user_every_way() -> anyhow::Result<()> {
    let rows = [
        row("auth whoami").says("fairlead:tenant:t-default:admin"),
        row("auth whoami -o yaml")
            .has_stamps()
            .says("username: fairlead:admin"),
        row("auth can-i create pods").says("yes"),
        row("auth can-i delete nodes --quiet"),
        row("auth can-i * *").says("yes"),
        row("auth can-i nosuchverb pods").says("yes"),
        row("auth can-i --list").says("*.*"),
        row("auth can-i --list -n kube-system").says("*.*"),
    ];
    check(World::shared().await?, &rows).await
}

#[tokio::test]
async fn the_audit_log_names_the_mapped_user() -> anyhow::Result<()> {
    let world = World::shared().await?;
    check(world, &[row("auth whoami").says(USER)]).await?;
    let events = world
        .audited(2, |event| {
            event["objectRef"]["resource"] == "selfsubjectreviews"
        })
        .await?;
    for event in events {
        let as_whom = &event["impersonatedUser"];
        assert_eq!(as_whom["username"], USER, "{event}");
        let groups = as_whom["groups"].as_array().into_iter().flatten();
        let groups: Vec<_> = groups.filter_map(|group| group.as_str()).collect();
        let [role, tenant] = GROUPS;
        assert_eq!(groups, [role, tenant, "system:authenticated"], "{event}");
        assert_eq!(event["responseStatus"]["code"], 201, "{event}");
    }
    Ok(())
}

#[tokio::test]
async fn who_asks_to_be_somebody_else_is_refused() -> anyhow::Result<()> {
    let world = World::shared().await?;
    for way in Way::TUNNELLED {
        for flags in [
            &["--as=system:admin"][..],
            &["--as=x", "--as-group=system:masters"],
        ] {
            let get = world.kubectl(way).args(["get", "nodes"]);
            let output = get.args(flags).run().await?;
            assert_eq!(output.status.code(), Some(1), "{way:?}: {output:?}");
            assert_eq!(output.text(), "", "{way:?}");
            assert!(output.stderr.contains("FL-1202"), "{way:?}: {output:?}");
        }
    }
    Ok(())
}
