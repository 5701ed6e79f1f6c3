//! Calls that wait for future events: each event must arrive by itself, not together with the next one.

use std::fs;
use std::time::Duration;

use fairlead_e2e::Output;
use rustix::process::Signal;
use tokio::time::Instant;

use crate::STEP_DEADLINE;
use crate::row::{check, row};
use crate::world::{CallRoute, KubectlWorld};

const MAP: &str = r#"{apiVersion: v1, kind: ConfigMap, metadata: {name: watched, labels: {watched: "yes"}}, data: {step: '0'}}"#;

/// Runs kubectl as the administrator, past the tunnel.
async fn directly(world: &KubectlWorld, args: &str) -> anyhow::Result<Output> {
    world.cluster.kubectl().args(args.split(' ')).run().await
}

#[tokio::test]
async fn watch_prints_each_event_as_it_happens() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    for way in CallRoute::ALL {
        let namespace = format!("watch-{}", way.tag());
        world.namespace(&namespace).await?;
        let create = world
            .cluster
            .kubectl()
            .args(["create", "-n", &namespace, "-f", "-"]);
        create.stdin(MAP).run().await?.success()?;
        // For a watch of a single object kubectl discards the first event, which may matter.
        let watch = ["get", "configmaps", "-l", "watched=yes", "-n", &namespace];
        let watch = world.kubectl(way).args(watch);
        let fields = "jsonpath={.type} {.object.data.step}{'\\n'}";
        let watch = watch.args(["-w", "--output-watch-events", "-o", fields]);
        let mut watch = watch.deadline(STEP_DEADLINE).spawn()?;
        let mut event = async || anyhow::Ok(watch.next_line().await?.unwrap_or_default());
        assert_eq!(event().await?, "ADDED 0", "{way:?}");
        for step in 1..=5 {
            let patch = format!(
                "patch configmap watched -n {namespace} -p {{\"data\":{{\"step\":\"{step}\"}}}}"
            );
            directly(world, &patch).await?.success()?;
            assert_eq!(event().await?, format!("MODIFIED {step}"), "{way:?}");
        }
        directly(world, &format!("delete configmap watched -n {namespace}"))
            .await?
            .success()?;
        assert_eq!(event().await?, "DELETED 5", "{way:?}");
        watch.signal(Signal::INT)?;
        watch.wait().await?;
    }
    Ok(())
}

#[tokio::test]
async fn wait_on_a_quiet_watch_ends_on_time() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    world.namespace("quiet").await?;
    directly(world, "create configmap quiet -n quiet")
        .await?
        .success()?;
    let wait = "wait -n quiet configmap/quiet --for=jsonpath={.data.done}=yes --timeout=2s";
    let since = Instant::now();
    check(
        world,
        &[row(wait)
            .exits(1)
            .says("timed out waiting for the condition")],
    )
    .await?;
    let took = since.elapsed();
    assert!(took >= Duration::from_secs(2), "{took:?}");
    // A watch that does not end runs for minutes, and into kubectl's own deadline.
    Ok(())
}

#[tokio::test]
async fn wait_ends_with_its_condition() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    for way in CallRoute::ALL {
        let namespace = format!("wait-{}", way.tag());
        world.namespace(&namespace).await?;
        let within = |args: &str| format!("{args} -n {namespace}");
        directly(world, &within("create configmap it"))
            .await?
            .success()?;
        let wait = within("wait configmap/it --for=jsonpath={.data.done}=yes --timeout=30s -v=6");
        let mut wait = world
            .kubectl(way)
            .args(wait.split(' '))
            .deadline(STEP_DEADLINE)
            .spawn()?;
        // Its watch starts before there is anything to report.
        fairlead_e2e::eventually(STEP_DEADLINE, "the watch", async || {
            wait.stderr().contains("watch=true").then_some(())
        })
        .await?;
        directly(
            world,
            &within("patch configmap it -p {\"data\":{\"done\":\"yes\"}}"),
        )
        .await?
        .success()?;
        assert_eq!(
            wait.next_line().await?.as_deref(),
            Some("configmap/it condition met")
        );
        assert!(wait.wait().await?.success(), "{way:?}");
    }
    Ok(())
}

#[tokio::test]
async fn rollout_is_followed_to_its_end() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    for way in CallRoute::ALL {
        let namespace = format!("roll-{}", way.tag());
        world.namespace(&namespace).await?;
        let within = |args: &str| format!("{args} -n {namespace}");
        let call = async |args: &str| {
            let args = within(args);
            world
                .kubectl(way)
                .args(args.split(' '))
                .deadline(2 * STEP_DEADLINE)
                .run()
                .await?
                .success()
        };
        call("create deployment app --image=fairlead.test/one --replicas=2").await?;
        for revision in ["one", "two"] {
            call(&format!(
                "set image deployment/app *=fairlead.test/{revision}"
            ))
            .await?;
            let text = call("rollout status deployment/app --timeout=50s").await?;
            let last = text.lines().last();
            assert_eq!(
                last,
                Some("deployment \"app\" successfully rolled out"),
                "{way:?}: {text}"
            );
        }
        call("delete deployment app").await?;
    }
    Ok(())
}

#[tokio::test]
async fn logs_are_shown_and_followed_line_by_line() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    let pod = world.pod(1);
    let print = |line: &str| {
        world
            .cluster
            .print_in_container("default", pod, "demo", line)
    };
    for way in CallRoute::ALL {
        print("first")?;
        let mut follow = world
            .kubectl(way)
            .args(["logs", "-f", pod])
            .deadline(STEP_DEADLINE)
            .spawn()?;
        assert_eq!(
            follow.next_line().await?.as_deref(),
            Some("first"),
            "{way:?}"
        );
        for number in 1..=5 {
            let line = format!("line {number}");
            print(&line)?;
            assert_eq!(follow.next_line().await?, Some(line), "{way:?}");
        }
        if way == CallRoute::Name {
            let rows = [
                row(&format!("logs {pod}")).says("first\nline 1\n"),
                row(&format!("logs {pod} --tail=1 --timestamps")).says("Z line 5\n"),
                row(&format!("logs {pod} -c nosuch"))
                    .exits(1)
                    .says("container nosuch is not valid"),
                row(&format!("logs {pod} --limit-bytes=3")).says("fir"),
            ];
            check(world, &rows).await?;
        }
        fs::remove_file(world.cluster.container_log("default", pod, "demo"))?;
        assert_eq!(follow.next_line().await?, None, "{way:?}");
        assert!(follow.wait().await?.success(), "{way:?}");
    }
    Ok(())
}
