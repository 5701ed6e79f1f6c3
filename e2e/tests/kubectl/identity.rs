//! Identity of a user in the cluster: the API server's answer and its audit log.

use fairlead_e2e::eventually;

use crate::STEP_DEADLINE;
use crate::row::{check, row};
use crate::world::{CallRoute, GROUPS, KubectlWorld, LISTED, USER};

#[tokio::test]
async fn rights_are_those_of_the_mapped_user_on_every_route() -> anyhow::Result<()> {
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
    check(KubectlWorld::shared().await?, &rows).await
}

#[tokio::test]
async fn audit_log_names_the_mapped_user() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    check(world, &[row("auth whoami").says(USER)]).await?;
    let events = world
        .audited(2, |event| {
            let reviews = event["objectRef"]["resource"] == "selfsubjectreviews";
            reviews && event["impersonatedUser"]["username"] != LISTED
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
async fn impersonation_by_the_caller_is_rejected() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    for way in CallRoute::TUNNELLED {
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

#[tokio::test]
async fn admin_becomes_a_user_that_the_site_lists_and_both_names_are_recorded() -> anyhow::Result<()>
{
    let world = KubectlWorld::shared().await?;
    for way in CallRoute::TUNNELLED {
        let whoami = ["auth", "whoami", "-o", "yaml", "--as", LISTED];
        let who = world.kubectl(way).args(whoami).run().await?.success()?;
        assert!(
            who.contains(&format!("username: {LISTED}")),
            "{way:?}: {who}"
        );
        assert!(
            !who.contains("fairlead:admin"),
            "no group of the admin: {who}"
        );
        let other = ["get", "nodes", "--as", "fairlead:other"];
        let refused = world.kubectl(way).args(other).run().await?;
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let told = &refused.stderr;
        assert!(
            told.contains("FL-1202") && told.contains("--allow-as"),
            "{told}"
        );
    }
    let events = world
        .audited(2, |event| {
            let reviews = event["objectRef"]["resource"] == "selfsubjectreviews";
            reviews && event["impersonatedUser"]["username"] == LISTED
        })
        .await?;
    for event in events {
        let groups = &event["impersonatedUser"]["groups"];
        assert_eq!(
            groups,
            &serde_json::json!(["system:authenticated"]),
            "{event}"
        );
    }
    // The hub logs a request when it has ended.
    let log = world.hub.dir().join("hub.log");
    let line = eventually(STEP_DEADLINE, "the line of the request", async || {
        let log = std::fs::read_to_string(&log).ok()?;
        let both = |line: &&str| line.contains(LISTED) && line.contains("selfsubjectreviews");
        log.lines().find(both).map(str::to_owned)
    });
    let line = line.await?;
    assert!(line.contains("caller") && line.contains("admin"), "{line}");

    let operator = [
        "token",
        "create",
        "op",
        "--role",
        "operator",
        "-o",
        "jsonpath={.token}",
    ];
    let operator = world.hub.cli(operator).await?.success()?;
    let flags = [
        format!("--token={}", operator.trim()),
        format!("--as={LISTED}"),
    ];
    let refused = world
        .kubectl(CallRoute::Path)
        .args(["get", "pods"])
        .args(flags);
    let refused = refused.run().await?;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("FL-1202"), "{refused:?}");
    Ok(())
}
