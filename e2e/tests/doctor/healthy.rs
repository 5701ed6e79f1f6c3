//! A path without a fault, before and after the enrolment, and the hold.

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::world::{DoctorWorld, stages};

fn result<'a>(stages: &'a [Value], name: &str) -> anyhow::Result<&'a Value> {
    let mut of_name = stages.iter().filter(|it| it["stage"] == name);
    of_name.next().with_context(|| format!("no {name}"))
}

#[tokio::test]
async fn healthy_path_passes_and_the_token_is_not_spent() -> anyhow::Result<()> {
    let world = DoctorWorld::start().await?;
    let fault = world.fault("healthy", ("", ""), &[]).await?;
    for _ in 0..2 {
        let (status, checkup) = world.doctor(&fault, &["--hold", "1"]).await?;
        ensure!(status == 0, "{checkup}");
        let stages = stages(&checkup);
        for stage in [
            "dns",
            "tcp",
            "tls",
            "upgrade",
            "link",
            "inner-tls",
            "identity",
            "clock",
            "hold",
            "api-server",
            "rights",
        ] {
            ensure!(result(&stages, stage)?["result"] == "ok", "{checkup}");
        }
        ensure!(result(&stages, "proxy")?["result"] == "notNeeded");
        let detail = result(&stages, "identity")?["detail"].to_string();
        ensure!(detail.contains("join string"), "{detail}");
    }
    let shown = world.hub.cluster("healthy").await?;
    ensure!(shown["status"]["state"] == "Never", "{shown}");

    let mut agent = world.agent(&fault)?;
    world.hub.wait_state("healthy", "Connected").await?;
    let (status, checkup) = world.doctor(&fault, &[]).await?;
    ensure!(status == 0, "{checkup}");
    let detail = result(&stages(&checkup), "identity")?["detail"].to_string();
    ensure!(detail.contains("certificate of c-"), "{detail}");
    // The doctor's session serves nothing and replaces none.
    let sessions = world.hub.metrics().await?;
    let shown = world.hub.cluster("healthy").await?;
    ensure!(shown["status"]["state"] == "Connected", "{shown}");
    ensure!(sessions.sum("fairlead_sessions", &[]) >= 1.0);
    agent.term()?;
    Ok(())
}

#[tokio::test]
async fn mistake_in_the_command_line_is_no_fault() -> anyhow::Result<()> {
    let hub = fairlead_e2e::Hub::start().await?;
    for args in [
        &["doctor", "--kubeconfig", "/nowhere", "--hold", "x"][..],
        &["doctor", "--join", "fl1.broken", "--kubeconfig", "/nowhere"],
        &["doctor", "--hub", "--data", "/nowhere"],
    ] {
        let output = hub.cli(args).await?;
        ensure!(output.status.code() == Some(2), "{args:?}: {output:?}");
        ensure!(output.stderr.contains("next: "), "{output:?}");
    }
    Ok(())
}
