//! Shell completion.

use std::fs;

use anyhow::ensure;
use fairlead_e2e::{Hub, fleet::fairlead};

/// Completions of these words, as by Tab.
async fn completed(hub: &Hub, words: &[&str], env: &[(&str, &str)]) -> anyhow::Result<String> {
    let index = words.len().to_string();
    let env = [
        env,
        &[
            ("FAIRLEAD_COMPLETE", "bash"),
            ("FAIRLEAD_COMPLETE_TIMEOUT", "30s"),
            ("_CLAP_COMPLETE_INDEX", &index),
        ],
    ]
    .concat();
    let args: Vec<String> = [&["--", "fairlead"], words]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect();
    let output = fairlead(hub.dir(), &args, &env).await?;
    ensure!(output.stderr.is_empty(), "{output:?}");
    output.success()
}

#[tokio::test]
async fn ids_and_names_complete_even_without_a_hub() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    hub.cli(["cluster", "create", "production", "--id", "c-edge"])
        .await?
        .success()?;
    let shop = hub.dir().join("shop");
    fs::create_dir_all(&shop)?;
    fs::write(shop.join("web.yaml"), "{kind: ConfigMap}\n")?;
    let shop = shop.display().to_string();
    let deploy = ["deploy", &shop, "--to", "env=prod", "--yes"];
    hub.cli(deploy).await?.success()?;
    let group = ["group", "set", "edge", "-l", "site=edge"];
    hub.cli(group).await?.success()?;
    for (words, expected) in [
        (&["cluster", "get", "c-e"][..], "c-edge"),
        (&["cluster", "token", "renew", "prod"], "production"),
        (&["facts", "c-"], "c-edge"),
        (&["cluster", "effective", "c-"], "c-edge"),
        (&["cluster", "catalog", "get", "prod"], "production"),
        (&["audit", "--cluster", "c-"], "c-edge"),
        (&["tenant", "edit", "t-"], "t-default"),
        (&["cluster", "list", "--tenant", "t-"], "t-default"),
        (&["cluster", "list", "-o", "js"], "json\njsonpath="),
        (&["bundle", "get", "b-"], "b-shop"),
        (&["rollout", "status", "b-"], "b-shop"),
        (&["deployment", "get", "c-edge", "b-"], "b-shop"),
        (&["run", "list", "--cluster", "prod"], "production"),
        (&["group", "get", "g-"], "g-edge"),
        (&["chan"], "changes"),
    ] {
        let found = completed(&hub, words, &[]).await?;
        ensure!(found.trim_end() == expected, "{words:?}: {found:?}");
    }
    let words = ["cluster", "get", "c-"];
    let away = [
        ("FAIRLEAD_URL", "https://127.0.0.1:1"),
        ("FAIRLEAD_TOKEN", "x"),
    ];
    ensure!(completed(&hub, &words, &away).await?.trim().is_empty());
    let wrong = [("FAIRLEAD_TOKEN", "flt_wrong")];
    ensure!(completed(&hub, &words, &wrong).await?.trim().is_empty());
    Ok(())
}
