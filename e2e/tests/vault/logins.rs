//! Logins of the hub and of clusters by AppRole and Kubernetes, in a real Vault.

use anyhow::{Context, ensure};
use fairlead_e2e::Cluster;
use fairlead_vault::{DesiredAccess, SecretAccess, VaultError, open};
use serde_json::{Value, json};

use crate::world::VaultWorld;

const MOUNT: &str = "fairlead-t-acme-c-edge";
const SECRET: &str = "clusters/kv/data/t-acme/c-edge/db";
/// Audience of the API server itself, which checks the token of a login by itself.
const API_AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

fn desired(access: &dyn SecretAccess, cluster: &str) -> anyhow::Result<DesiredAccess> {
    Ok(access.desired(&"t-acme".parse()?, &cluster.parse()?, &Value::Null)?)
}

/// Text at a pointer of an answer to the root token.
async fn text(world: &VaultWorld, call: (&str, &str), pointer: &str) -> anyhow::Result<String> {
    let body = match call.0 {
        "GET" => Value::Null,
        _ => json!({}),
    };
    let reply = world.vault.root(call.0, call.1, &body).await?;
    let text = reply.pointer(pointer).and_then(Value::as_str);
    text.map(str::to_owned).with_context(|| reply.to_string())
}

/// Role id and secret id of an AppRole.
async fn role_ids(world: &VaultWorld, role: &str) -> anyhow::Result<(String, String)> {
    let (id, secret) = (format!("{role}/role-id"), format!("{role}/secret-id"));
    let id = text(world, ("GET", &id), "/data/role_id").await?;
    let secret = text(world, ("POST", &secret), "/data/secret_id").await?;
    Ok((id, secret))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hub_logs_in_by_approle_and_again_when_its_token_ends() -> anyhow::Result<()> {
    let world = VaultWorld::start().await?;
    let vault = &world.vault;
    vault
        .root("POST", "sys/auth/approle", &json!({ "type": "approle" }))
        .await?;
    let role = json!({ "token_policies": ["hub"], "token_period": "1h" });
    vault.root("POST", "auth/approle/role/hub", &role).await?;
    let (id, secret) = role_ids(&world, "auth/approle/role/hub").await?;
    let (id, secret_file) = (world.private("id", &id)?, world.private("secret", &secret)?);
    let login = format!("[approle]\nrole_id_file = \"{id}\"\nsecret_id_file = \"{secret_file}\"\n");
    let settings = world.settings_by(&format!("auth_method = \"approle\"\n{login}"))?;
    let access = open(&settings)?;
    ensure!(
        !access
            .ensure(&desired(&access, "c-edge")?)
            .await?
            .is_empty(),
        "nothing was made"
    );
    let revoke = "sys/leases/revoke-prefix/auth/approle/login";
    vault.root("PUT", revoke, &json!({})).await?;
    // The second cluster needs another login.
    ensure!(
        !access.ensure(&desired(&access, "c-two")?).await?.is_empty(),
        "nothing was made"
    );

    world.private("secret", "wrong-secret")?;
    let refused = open(&settings)?.ensure(&desired(&access, "c-edge")?).await;
    let Err(VaultError::Token(cause)) = &refused else {
        anyhow::bail!("{refused:?}");
    };
    ensure!(cause.starts_with("login at auth/approle: "), "{cause}");
    ensure!(
        !cause.contains("wrong-secret") && !cause.contains(&secret),
        "{cause}"
    );
    Ok(())
}

/// Logs in at the auth method of the cluster, and reads its secret: its status.
async fn reads(world: &VaultWorld, login: &Value) -> anyhow::Result<u16> {
    let path = format!("auth/{MOUNT}/login");
    let reply = world.vault.call("", "POST", &path, login).await?;
    let session = reply.body["auth"]["client_token"].as_str();
    let Some(session) = session else {
        return Ok(reply.status);
    };
    let read = world
        .vault
        .call(session, "GET", SECRET, &Value::Null)
        .await?;
    Ok(read.status)
}

/// A token of a service account for Vault and for the API server.
async fn token(cluster: &Cluster, account: &str) -> anyhow::Result<String> {
    let words = [
        "create",
        "token",
        account,
        "-n",
        "syn",
        "--audience",
        "vault",
        "--audience",
        API_AUDIENCE,
    ];
    let printed = cluster.kubectl().args(words).run().await?.success()?;
    Ok(printed.trim().to_owned())
}

/// A cluster whose service accounts may let the API server check their tokens.
async fn cluster() -> anyhow::Result<Cluster> {
    let cluster = Cluster::start_lite().await?;
    for words in [
        &["create", "namespace", "syn"][..],
        &["create", "serviceaccount", "secrets", "-n", "syn"],
        &["create", "serviceaccount", "other", "-n", "syn"],
        &[
            "create",
            "clusterrolebinding",
            "reviewers",
            "--clusterrole=system:auth-delegator",
            "--group=system:serviceaccounts:syn",
        ],
    ] {
        cluster.kubectl().args(words).run().await?.success()?;
    }
    Ok(cluster)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_log_in_by_approle_and_then_by_kubernetes() -> anyhow::Result<()> {
    let world = VaultWorld::start().await?;
    let vault = &world.vault;
    let body = json!({ "data": { "word": "it-is-secret" } });
    vault.root("POST", SECRET, &body).await?;
    let access = open(&world.settings("[tenants.t-acme]\nauth_method = \"approle\"\n")?)?;
    let wish = desired(&access, "c-edge")?;
    ensure!(
        access.ensure(&wish).await? == ["policy", "auth method", "role"],
        "other parts"
    );
    ensure!(access.ensure(&wish).await?.is_empty(), "corrected again");
    let (id, secret) = role_ids(&world, &format!("auth/{MOUNT}/role/cluster")).await?;
    let login = json!({ "role_id": id, "secret_id": secret });
    ensure!(reads(&world, &login).await? == 200, "no secret by AppRole");

    let kube = cluster().await?;
    let host = format!("https://127.0.0.1:{}", kube.api_port());
    let ca = world.private("ca.pem", kube.ca_pem())?;
    let of_cluster = format!(
        "[clusters.c-edge]\nauth_method = \"kubernetes\"\nkubernetes_host = \"{host}\"\nkubernetes_ca_file = \"{ca}\"\n"
    );
    let access = open(&world.settings(&of_cluster)?)?;
    let wish = desired(&access, "c-edge")?;
    let made = access.ensure(&wish).await?;
    ensure!(made == ["auth method", "keys", "role"], "{made:?}");
    ensure!(access.ensure(&wish).await?.is_empty(), "corrected again");
    for (account, expected) in [("secrets", 200), ("other", 403)] {
        let login = json!({ "role": "cluster", "jwt": token(&kube, account).await? });
        let status = reads(&world, &login).await?;
        ensure!(status == expected, "{account}: {status}");
    }

    // The hub itself logs in the same way.
    vault
        .root(
            "POST",
            "sys/auth/kubernetes",
            &json!({ "type": "kubernetes" }),
        )
        .await?;
    let config = json!({ "kubernetes_host": host, "kubernetes_ca_cert": kube.ca_pem(), "disable_local_ca_jwt": true });
    vault
        .root("POST", "auth/kubernetes/config", &config)
        .await?;
    let role = json!({
        "bound_service_account_names": ["other"],
        "bound_service_account_namespaces": ["syn"],
        "audience": "vault",
        "token_policies": ["hub"],
    });
    vault
        .root("POST", "auth/kubernetes/role/hub", &role)
        .await?;
    let jwt = world.private("jwt", &token(&kube, "other").await?)?;
    let login = format!("{of_cluster}[kubernetes]\nrole = \"hub\"\ntoken_file = \"{jwt}\"\n");
    let access = open(&world.settings_by(&login)?)?;
    ensure!(access.ensure(&wish).await?.is_empty(), "corrected again");
    Ok(())
}
