//! `fairlead doctor --hub`: a healthy hub, one that does not answer, and one without its keys.

use anyhow::{Context, ensure};
use fairlead_e2e::{Hub, Output};
use serde_json::Value;

use crate::world::stages;

async fn doctor(hub: &Hub, url: &str) -> anyhow::Result<(Output, Value)> {
    let data = hub.data().display().to_string();
    let args = ["doctor", "--hub", "--data", &data, "--public-url", url];
    let output = hub.cli([&args[..], &["-o", "json"]].concat()).await?;
    let json = serde_json::from_slice(&output.stdout);
    let json = json.with_context(|| format!("{output:?}"))?;
    Ok((output, json))
}

fn failed(checkup: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let stages = stages(checkup);
    let failed = stages.iter().filter(|it| it["result"] == "failed");
    failed
        .map(|it| (text(&it["stage"]), text(&it["code"])))
        .collect()
}

#[tokio::test]
async fn running_hub_passes_all_checks() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let (output, checkup) = doctor(&hub, &hub.ready().url.clone()).await?;
    ensure!(output.status.success(), "{checkup}");
    for stage in [
        "store",
        "data-space",
        "audit-space",
        "signing",
        "dns",
        "tcp",
        "tls",
        "upgrade",
        "link",
        "inner-tls",
        "certificate",
    ] {
        let stages = stages(&checkup);
        let found = stages.iter().find(|it| it["stage"] == stage);
        ensure!(
            found.is_some_and(|it| it["result"] == "ok"),
            "{stage}: {checkup}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn faults_of_a_hub_are_named() -> anyhow::Result<()> {
    let mut hub = Hub::start().await?;
    let url = hub.ready().url.clone();
    let wrong = url.replace("127.0.0.1", "127.0.0.2");
    let (output, checkup) = doctor(&hub, &wrong).await?;
    ensure!(output.status.code() == Some(1));
    let pair = |stage: &str, code: &str| (stage.to_owned(), code.to_owned());
    ensure!(failed(&checkup) == [pair("tcp", "FL-3102")], "{checkup}");
    hub.process.kill_9()?;
    std::fs::remove_file(hub.data().join("bootstrap.key"))?;
    let (_, checkup) = doctor(&hub, &url).await?;
    let expected = [pair("signing", "FL-4103"), pair("tcp", "FL-3102")];
    ensure!(failed(&checkup) == expected, "{checkup}");
    Ok(())
}
