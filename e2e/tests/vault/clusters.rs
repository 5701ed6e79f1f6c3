//! Two real clusters of a hub with a Vault.

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Site, eventually, vault::Vault};
use serde_json::{Value, json};

use crate::world::{STEP_DEADLINE, VaultWorld};

const NAMES: [&str; 2] = ["one", "two"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_reads_its_own_secrets_until_it_is_deleted() -> anyhow::Result<()> {
    let world = VaultWorld::start().await?;
    let settings = world.settings("")?.display().to_string();
    let mut hub = Hub::start_server(&["--vault", &settings]).await?;
    hub.log_in().await?;
    let kube = tokio::try_join!(Cluster::start_lite(), Cluster::start_lite())?;
    let kube = [kube.0, kube.1];
    let mut agents = Vec::new();
    for (name, cluster) in NAMES.iter().zip(&kube) {
        let joining = hub.create_cluster(name).await?;
        let before = vault_of(&hub, name).await?;
        ensure!(before["state"]["phase"] == "waiting", "{before}");
        let flags = ["--facts-every", "1s"];
        agents.push(Site::begin_with(
            &hub,
            cluster,
            &joining.join,
            name,
            &flags,
        )?);
        service_accounts(cluster).await?;
    }
    let [one, two] = [
        until_ready(&hub, "one").await?,
        until_ready(&hub, "two").await?,
    ];
    for access in [&one, &two] {
        let secret = json!({ "data": { "word": "it-is-secret" } });
        world
            .vault
            .root("POST", &secret_of(access), &secret)
            .await?;
    }
    reads_its_own_only(&world.vault, &kube, (&one, &two)).await?;
    ends_with_the_cluster(&world, &mut hub, (&one, &kube[0])).await?;
    for log in [hub.process.log()?, hub.cli(["audit"]).await?.success()?] {
        let is_clean = !log.contains("it-is-secret") && !log.contains(&world.token);
        ensure!(is_clean, "a secret is in the log");
    }
    drop(agents);
    Ok(())
}

/// Creates the service account of the settings, and another one.
async fn service_accounts(cluster: &Cluster) -> anyhow::Result<()> {
    for words in [
        &["create", "namespace", "syn"][..],
        &["create", "serviceaccount", "secrets", "-n", "syn"],
        &["create", "serviceaccount", "other", "-n", "syn"],
    ] {
        cluster.kubectl().args(words).run().await?.success()?;
    }
    Ok(())
}

async fn vault_of(hub: &Hub, name: &str) -> anyhow::Result<Value> {
    Ok(hub.cluster(name).await?["vault"].clone())
}

async fn until_ready(hub: &Hub, name: &str) -> anyhow::Result<Value> {
    let mut last = Value::Null;
    let ready = eventually(STEP_DEADLINE, "access to vault", async || {
        last = vault_of(hub, name).await.ok()?;
        let state = &last["state"];
        (state["phase"] == "ready" && state["reason"].is_null()).then(|| last.clone())
    });
    match ready.await {
        Ok(access) => Ok(access),
        Err(error) => {
            let facts = hub.cli(["facts", name, "-o", "json"]).await?;
            Err(error.context(format!("{last}, {}", facts.text())))
        }
    }
}

/// Path of a secret of this access.
fn secret_of(access: &Value) -> String {
    let path = access["path"].as_str().unwrap_or_default();
    path.replacen("clusters/kv/", "clusters/kv/data/", 1) + "/db"
}

/// A token of a service account, by TokenRequest.
async fn token(cluster: &Cluster, account: &str, audience: &str) -> anyhow::Result<String> {
    let words = [
        "create",
        "token",
        account,
        "-n",
        "syn",
        "--audience",
        audience,
    ];
    let printed = cluster.kubectl().args(words).run().await?.success()?;
    Ok(printed.trim().to_owned())
}

/// Logs in; the status if Vault refuses.
async fn log_in(vault: &Vault, access: &Value, jwt: &str) -> anyhow::Result<Result<String, u16>> {
    let mount = access["mount"].as_str().context("no mount")?;
    let body = json!({ "role": access["role"], "jwt": jwt });
    let path = format!("auth/{mount}/login");
    let reply = vault.call("", "POST", &path, &body).await?;
    let token = reply.body["auth"]["client_token"].as_str();
    Ok(token.map(str::to_owned).ok_or(reply.status))
}

async fn reads_its_own_only(
    vault: &Vault,
    kube: &[Cluster; 2],
    (one, two): (&Value, &Value),
) -> anyhow::Result<()> {
    let none = Value::Null;
    let jwt = token(&kube[0], "secrets", "vault").await?;
    let session = log_in(vault, one, &jwt).await?;
    let session = session.map_err(|status| anyhow::anyhow!("login: {status}"))?;
    let own = vault.call(&session, "GET", &secret_of(one), &none).await?;
    let own = own.success()?;
    ensure!(own["data"]["data"]["word"] == "it-is-secret", "{own}");
    let write = json!({ "data": {} });
    for (method, path, body) in [
        ("GET", secret_of(two), &none),
        ("POST", secret_of(one), &write),
        (
            "GET",
            "clusters/kv/metadata/t-default?list=true".to_owned(),
            &none,
        ),
        ("GET", "sys/policies/acl/hub".to_owned(), &none),
    ] {
        let reply = vault.call(&session, method, &path, body).await?;
        ensure!(reply.status == 403, "{method} {path}: {}", reply.status);
    }
    let strangers = [
        (
            token(&kube[1], "secrets", "vault").await?,
            "another cluster",
        ),
        (token(&kube[0], "other", "vault").await?, "another account"),
        (
            token(&kube[0], "secrets", "else").await?,
            "another audience",
        ),
    ];
    for (jwt, who) in strangers {
        let refused = log_in(vault, one, &jwt).await?;
        ensure!(matches!(refused, Err(400 | 403)), "{who}: {refused:?}");
    }
    Ok(())
}

/// The cluster is deleted while Vault is sealed, and the hub restarted before it is unsealed.
async fn ends_with_the_cluster(
    world: &VaultWorld,
    hub: &mut Hub,
    (access, kube): (&Value, &Cluster),
) -> anyhow::Result<()> {
    let vault = &world.vault;
    let jwt = token(kube, "secrets", "vault").await?;
    let session = log_in(vault, access, &jwt).await?;
    let session = session.map_err(|status| anyhow::anyhow!("login: {status}"))?;
    vault.seal().await?;
    let delete = ["cluster", "delete", "one", "--yes"];
    hub.cli(delete).await?.success()?;
    until_retired(hub, "FL-4150: Vault is sealed. Unseal Vault").await?;
    world.write_token("hvs.invalid")?;
    vault.unseal().await?;
    until_retired(hub, "FL-4152: Vault does not accept the hub's token").await?;
    hub.kill_and_restart().await?;
    world.write_token(&world.token)?;
    let none = Value::Null;
    let gone = eventually(STEP_DEADLINE, "the end of the access", async || {
        let list = retired(hub).await.ok()?;
        list["items"].as_array()?.is_empty().then_some(())
    });
    gone.await?;
    let mount = access["mount"].as_str().context("no mount")?;
    for path in [
        format!("sys/auth/{mount}"),
        format!("sys/policies/acl/{mount}"),
    ] {
        ensure!(
            vault.root("GET", &path, &none).await.is_err(),
            "{path} is left"
        );
    }
    let after = vault
        .call(&session, "GET", &secret_of(access), &none)
        .await?;
    ensure!(
        after.status == 403,
        "the session lives on: {}",
        after.status
    );
    let refused = log_in(vault, access, &jwt).await?;
    ensure!(refused.is_err(), "a login without a cluster");
    // The secret stays, because nobody asked for its end.
    vault.root("GET", &secret_of(access), &none).await?;
    until_ready(hub, "two").await?;
    Ok(())
}

async fn retired(hub: &Hub) -> anyhow::Result<Value> {
    let list = hub.cli(["vault", "retired", "-o", "json"]).await?;
    Ok(serde_json::from_str(&list.success()?)?)
}

async fn until_retired(hub: &Hub, expected: &str) -> anyhow::Result<()> {
    let mut last = Value::Null;
    let failed = eventually(STEP_DEADLINE, expected, async || {
        last = retired(hub).await.ok()?;
        let reason = last["items"][0]["reason"].as_str()?;
        reason.starts_with(expected).then_some(())
    });
    failed.await.with_context(|| last.to_string())
}
