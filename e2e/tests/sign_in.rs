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
    fleet::fairlead,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

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

    // client-go runs the same plugin, and runs it again when the token is due.
    let whoami: Value = serde_json::from_str(&jane.client_go(&["whoami"]).await?)?;
    ensure!(
        whoami["username"] == "fairlead:corp.jane@corp.example",
        "{whoami}"
    );
    let lists: Value = serde_json::from_str(&jane.client_go(&["watch", "25"]).await?)?;
    ensure!(lists["lists"].as_u64() >= Some(10), "{lists}");
    ensure!(jane.stored()?.1 != first, "client-go got no new token");

    // The crate `kube` runs it, too.
    let review = self_review(&jane).await?;
    ensure!(
        review["status"]["userInfo"]["username"] == "fairlead:corp.jane@corp.example",
        "{review}"
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

/// The user as the API server knows it, by the crate `kube` on the kubeconfig of the person.
async fn self_review(person: &Person) -> anyhow::Result<Value> {
    let mut file = Kubeconfig::read_from(person.home().join("fl.yaml"))?;
    let plugins = file.auth_infos.iter_mut();
    for plugin in plugins.filter_map(|it| it.auth_info.as_mut()?.exec.as_mut()) {
        plugin.command = Some(person.program()?.display().to_string());
        let home = person.home().display().to_string();
        let home = [("name", "HOME".to_owned()), ("value", home)];
        let home = home.map(|(key, text)| (key.to_owned(), text));
        plugin.env.get_or_insert_default().push(home.into());
    }
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(file, &options).await?;
    let client = kube::Client::try_from(config)?;
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
    });
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())?;
    Ok(client.request(request).await?)
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

#[tokio::test]
async fn ci_job_exchanges_its_token_and_uses_kubectl() -> anyhow::Result<()> {
    let dex = Dex::start(&[]).await?;
    let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), dex.hub())?;
    let joining = hub.create_cluster("demo").await?;
    let _site = Site::start(&hub, &cluster, &joining).await?;
    let jane = Person::new(&hub)?;
    jane.sign_in(&dex, &hub, "jane").await?;
    let (_, stored) = jane.stored()?;
    let id_token = stored
        .lines()
        .find_map(|line| line.strip_prefix("id_token = "));
    let id_token = id_token.context("no ID token")?.trim_matches('"');

    // The job has a token of the issuer, and no login.
    let job = Person::new(&hub)?;
    let file = job.home().join("ci.jwt").display().to_string();
    fs::write(&file, format!("{id_token}\n"))?;
    let url = hub.ready().url.clone();
    let variables = [
        ("FAIRLEAD_URL", url.as_str()),
        ("FAIRLEAD_CA_FILE", job.hub_ca()),
        ("FAIRLEAD_ISSUER_TOKEN_FILE", file.as_str()),
    ];
    let run = async |args: &[&str]| {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        fairlead(job.home(), &args, &variables).await
    };
    let exchanged = run(&["token", "exchange"]).await?.success()?;
    ensure!(exchanged.starts_with("flt_"), "{exchanged}");
    let whoami = run(&["whoami"]).await?.success()?;
    ensure!(whoami.contains("corp.jane@corp.example"), "{whoami}");
    let config = job.home().join("fl.yaml").display().to_string();
    run(&["kubeconfig", "--cluster", "demo", "--output", &config])
        .await?
        .success()?;
    let text = fs::read_to_string(&config)?;
    ensure!(text.contains("exec:") && !text.contains("token:"), "{text}");
    let launch = fairlead_e2e::Launch::fairlead()?;
    let plugin = launch.program().parent().context("no folder")?;
    let kubectl = cluster.kubectl().kubeconfig(&config);
    let kubectl = kubectl.env("HOME", job.home());
    let kubectl = kubectl.env("PATH", format!("{}:/usr/bin:/bin", plugin.display()));
    let kubectl = variables
        .into_iter()
        .fold(kubectl, |kubectl, (name, value)| kubectl.env(name, value));
    for _ in 0..3 {
        let get = kubectl.clone().args(["get", "namespaces"]);
        get.run().await?.success()?;
    }
    // All calls of the job share one token of the hub; `token exchange` made another one.
    let listed = hub.cli(["token", "list", "-o", "json"]).await?.success()?;
    ensure!(
        listed.matches("\"exchanged\": true").count() == 2,
        "{listed}"
    );

    // A lock of the subject ends the job's access.
    let lock = [
        "lock",
        "user",
        "corp.jane@corp.example",
        "--reason",
        "stolen",
    ];
    hub.cli(lock).await?.success()?;
    let refused = run(&["whoami"]).await?;
    ensure!(refused.stderr.contains("FL-1203"), "{refused:?}");
    fs::write(&file, "a.b.c\n")?;
    let refused = run(&["token", "exchange"]).await?;
    ensure!(refused.stderr.contains("FL-1102"), "{refused:?}");
    Ok(())
}
