//! Parts of one access in a real Vault, without a hub: created, corrected, removed, and refused.

use std::fs;

use anyhow::ensure;
use fairlead_vault::{DesiredAccess, RetiredAccess, SecretAccess, SecretsEnd, VaultError, open};
use serde_json::{Value, json};

use crate::world::VaultWorld;

const MOUNT: &str = "sys/auth/fairlead-t-acme-c-edge";
const POLICY: &str = "sys/policies/acl/fairlead-t-acme-c-edge";
const ROLE: &str = "auth/fairlead-t-acme-c-edge/role/cluster";

fn keys() -> Value {
    json!({
        "issuer": "https://kubernetes.default.svc",
        "keys": [{
            "kty": "EC", "crv": "P-256",
            "x": "lljvV-r8jPtgJ9-38koGGoad6GeTmtje2x6OsImRsTE",
            "y": "yzo194NxrMFhOnHpNCjgpzvpd-5CKKuoyHyeiTAQpfM",
        }],
    })
}

fn desired(access: &dyn SecretAccess) -> anyhow::Result<DesiredAccess> {
    let (tenant, cluster) = ("t-acme".parse()?, "c-edge".parse()?);
    Ok(access.desired(&tenant, &cluster, &keys())?)
}

fn retired(access: &DesiredAccess, secrets: SecretsEnd) -> RetiredAccess {
    RetiredAccess {
        names: access.names.clone(),
        secrets,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_are_made_corrected_and_removed() -> anyhow::Result<()> {
    let world = VaultWorld::start().await?;
    let (vault, none) = (&world.vault, Value::Null);
    let access = open(&world.settings("")?)?;
    let wanted = desired(&access)?;
    let made = access.ensure(&wanted).await?;
    ensure!(
        made == ["policy", "auth method", "keys", "role"],
        "{made:?}"
    );
    let again = access.ensure(&wanted).await?;
    ensure!(again.is_empty(), "{again:?}");

    let loose = json!({ "policy": "# Fairlead: c-edge of t-acme\npath \"*\" { capabilities = [\"read\"] }" });
    vault.root("PUT", POLICY, &loose).await?;
    vault.root("DELETE", ROLE, &none).await?;
    let corrected = access.ensure(&wanted).await?;
    ensure!(corrected == ["policy", "role"], "{corrected:?}");
    let policy = vault.root("GET", POLICY, &none).await?;
    ensure!(
        policy["data"]["policy"] == wanted.policy.as_str(),
        "{policy}"
    );

    access.retire(&retired(&wanted, SecretsEnd::Keep)).await?;
    for path in [MOUNT, POLICY] {
        ensure!(
            vault.root("GET", path, &none).await.is_err(),
            "{path} is left"
        );
    }
    access.retire(&retired(&wanted, SecretsEnd::Keep)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_somebody_else_stay() -> anyhow::Result<()> {
    let world = VaultWorld::start().await?;
    let (vault, none) = (&world.vault, Value::Null);
    let access = open(&world.settings("")?)?;
    let wanted = desired(&access)?;
    let theirs = json!({ "type": "jwt", "description": "of the payroll" });
    vault.root("POST", MOUNT, &theirs).await?;
    let refused = access.ensure(&wanted).await.unwrap_err();
    let expected = "FL-4154: Vault has a part of this name that the hub has not made: the auth method fairlead-t-acme-c-edge. ";
    ensure!(refused.to_string().starts_with(expected), "{refused}");
    access.retire(&retired(&wanted, SecretsEnd::Keep)).await?;
    let kept = vault.root("GET", MOUNT, &none).await?;
    ensure!(kept["description"] == "of the payroll", "{kept}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_end_only_if_the_settings_say_so() -> anyhow::Result<()> {
    let world = VaultWorld::start().await?;
    let (vault, none) = (&world.vault, Value::Null);
    let secrets = [
        "t-acme/c-edge",
        "t-acme/c-edge/db",
        "t-acme/c-edge/deep/er/it em",
        "t-acme/c-edge-2/db",
    ];
    for secret in secrets {
        let path = format!("clusters/kv/data/{}", secret.replace(' ', "%20"));
        let value = json!({ "data": { "word": "it-is-secret" } });
        vault.root("POST", &path, &value).await?;
    }
    let left = async || {
        let mut left = Vec::new();
        for secret in secrets {
            let path = format!("clusters/kv/metadata/{}", secret.replace(' ', "%20"));
            let found = vault.root("GET", &path, &none).await.ok();
            left.push(found.map(|it| it["data"]["versions"]["1"]["deletion_time"] == ""));
        }
        left
    };
    let access = open(&world.settings("")?)?;
    let wanted = desired(&access)?;
    access
        .retire(&retired(&wanted, SecretsEnd::Destroy))
        .await?;
    ensure!(left().await == [Some(true); 4], "the settings keep secrets");

    let access = open(&world.settings("delete_secrets = true\n")?)?;
    access.retire(&retired(&wanted, SecretsEnd::Keep)).await?;
    ensure!(left().await == [Some(true); 4], "the policy keeps secrets");
    access.retire(&retired(&wanted, SecretsEnd::Delete)).await?;
    let deleted = [Some(false), Some(false), Some(false), Some(true)];
    ensure!(left().await == deleted, "{:?}", left().await);
    access
        .retire(&retired(&wanted, SecretsEnd::Destroy))
        .await?;
    ensure!(
        left().await == [None, None, None, Some(true)],
        "{:?}",
        left().await
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_failure_has_its_sentence() -> anyhow::Result<()> {
    let mut world = VaultWorld::start().await?;
    let access = open(&world.settings("")?)?;
    let wanted = desired(&access)?;
    let failure = async || -> anyhow::Result<String> {
        let failed: VaultError = access
            .ensure(&wanted)
            .await
            .err()
            .unwrap_or(VaultError::Sealed);
        let text = failed.to_string();
        ensure!(!text.contains(&world.token), "{text}");
        Ok(text)
    };
    world.write_token("hvs.invalid")?;
    let text = failure().await?;
    let expected = "FL-4152: Vault does not accept the hub's token: it is invalid or has expired. Write a valid token";
    ensure!(text.starts_with(expected), "{text}");

    let poor = world.vault.create_token(
        "poor",
        "path \"sys/policies/acl/*\" { capabilities = [\"read\"] }",
    );
    world.write_token(&poor.await?)?;
    let text = failure().await?;
    let expected = "FL-4153: the hub's token for Vault lacks a right: create, update and sudo on sys/policies/acl/fairlead-t-acme-c-edge. ";
    ensure!(text.starts_with(expected), "{text}");

    fs::remove_file(world.home.path().join("token"))?;
    let text = failure().await?;
    ensure!(
        text.starts_with("FL-4152: ") && text.contains("token_file: No such file"),
        "{text}"
    );

    world.write_token(&world.token)?;
    world.vault.seal().await?;
    let text = failure().await?;
    ensure!(
        text.starts_with("FL-4150: Vault is sealed. Unseal Vault"),
        "{text}"
    );

    world.vault.stop().await?;
    let text = failure().await?;
    ensure!(
        text.starts_with("FL-4151: Vault cannot be reached") && text.contains("refused"),
        "{text}"
    );
    Ok(())
}
