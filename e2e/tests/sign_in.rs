//! Sign-in of people through a real Dex: browser, device, exec plugin of kubectl, refresh, rotation of keys, outage.
//! The test plays the browser with curl.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

use std::{fs, os::unix::fs::MetadataExt, time::Duration};

use anyhow::{Context, ensure};
use fairlead_e2e::{
    Cluster, Site,
    dex::{Dex, Person, ended},
    eventually,
};
use serde_json::Value;

const STEP_DEADLINE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn browser_sign_in_serves_kubectl_through_the_exec_plugin() -> anyhow::Result<()> {
    // Tokens are refreshed after 16 s, and keys rotate faster than that.
    let dex = Dex::start(&["-valid", "20s", "-rotate", "10s"]).await?;
    let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), dex.hub())?;
    let joining = hub.create_cluster("demo").await?;
    let _site = Site::start(&hub, &cluster, &joining).await?;
    let jane = Person::new(&hub)?;
    let said = jane.sign_in(&dex, &hub, "jane").await?;
    ensure!(said.contains("as corp.jane@corp.example"), "{said}");
    let (file, first) = jane.stored()?;
    ensure!(fs::metadata(&file)?.mode() & 0o777 == 0o600);
    let hubs = fs::read_to_string(jane.home().join(".config/fairlead/hubs.toml"))?;
    ensure!(!hubs.contains("token"), "{hubs}");

    let plugged = jane.kubectl(&cluster, "demo").await?;
    let kubectl = || plugged.clone();
    let whoami = kubectl()
        .args(["auth", "whoami", "-o", "json"])
        .run()
        .await?
        .success()?;
    let whoami: Value = serde_json::from_str(&whoami)?;
    let user = &whoami["status"]["userInfo"];
    ensure!(
        user["username"] == "fairlead:corp.jane@corp.example",
        "{user}"
    );

    // The plugin refreshes by itself, with a key that the hub has not seen before.
    eventually(Duration::from_secs(60), "a refreshed token", async || {
        let nodes = kubectl().args(["get", "namespaces"]).run().await.ok()?;
        nodes.success().ok()?;
        (jane.stored().ok()?.1 != first).then_some(())
    })
    .await?;

    // A removed group ends the right with the next token, and another group gives another role.
    dex.set_people(&["readers"])?;
    eventually(
        Duration::from_secs(60),
        "the role of the other group",
        async || {
            let whoami = jane
                .run(&["whoami", "-o", "json"])
                .await
                .ok()?
                .success()
                .ok()?;
            whoami.contains("viewer").then_some(())
        },
    )
    .await?;
    let denied = kubectl().args(["create", "namespace", "x"]).run().await?;
    ensure!(denied.stderr.contains("forbidden"), "{denied:?}");
    dex.set_people(&[])?;
    eventually(Duration::from_secs(60), "no role", async || {
        let refused = jane.run(&["whoami"]).await.ok()?;
        refused.stderr.contains("FL-1106").then_some(())
    })
    .await?;
    let out = jane.run(&["logout"]).await?.success()?;
    ensure!(out.contains("Signed out"), "{out}");
    ensure!(!file.exists());
    let ended = kubectl().args(["get", "namespaces"]).run().await?;
    ensure!(ended.stderr.contains("FL-4106"), "{ended:?}");
    Ok(())
}

#[tokio::test]
async fn device_sign_in_and_its_failures() -> anyhow::Result<()> {
    let mut dex = Dex::start(&[]).await?;
    let hub = dex.hub().await?;
    let jane = Person::new(&hub)?;
    let (mut login, url) = jane.begin(&hub, &["--device"]).await?;
    let (_, code) = url
        .split_once("user_code=")
        .context("no code in the address")?;
    let verify = format!("{}/device/auth/verify_code", dex.url());
    let page = dex.enter(&verify, &[("user_code", code)], "jane").await?;
    ensure!(page.contains("Login Successful"), "{page}");
    let said = ended(&mut login).await?;
    ensure!(said.contains("as corp.jane@corp.example"), "{said}");

    // No rule for the person: nothing is stored.
    let guest = Person::new(&hub)?;
    let said = guest.sign_in(&dex, &hub, "guest").await?;
    ensure!(
        said.contains("FL-1106") && guest.stored().is_err(),
        "{said}"
    );

    // A redirect of another request ends the wait.
    let (mut login, url) = guest.begin(&hub, &["--no-browser"]).await?;
    let (_, redirect) = url.split_once("redirect_uri=").context("no redirect")?;
    let port = redirect
        .split("%3A")
        .nth(2)
        .and_then(|it| it.split("%2F").next());
    let forged = format!(
        "http://localhost:{}/callback?state=x&code=y",
        port.context("no port")?
    );
    dex.browse(&forged, &[]).await?;
    let said = ended(&mut login).await?;
    ensure!(said.contains("FL-4135"), "{said}");

    // An outage: the token stays valid, and a new sign-in fails with the issuer's name.
    dex.process.kill_9()?;
    jane.run(&["whoami"]).await?.success()?;
    let url = hub.ready().url.clone();
    let away = guest
        .run(&["login", &url, "--ca-file", guest.hub_ca()])
        .await?;
    ensure!(
        away.stderr.contains("FL-4133") && away.stderr.contains(dex.url()),
        "{away:?}"
    );
    dex.restart().await?;
    // The new Dex has new keys, and the hub fetches unknown ones every 10 s at most.
    eventually(STEP_DEADLINE, "a sign-in with the new keys", async || {
        let said = guest.sign_in(&dex, &hub, "jane").await.ok()?;
        said.contains("as corp.jane").then_some(())
    })
    .await?;
    Ok(())
}
