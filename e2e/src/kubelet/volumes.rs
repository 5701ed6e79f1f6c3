//! Volumes of a pod, as folders below the folder of the kubelet.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::{Shared, list, root::Mount, text};

/// Lifetime of tokens without one of their own.
const TOKEN_SECONDS: u64 = 3600;
/// Mode of a new file system's root once the kubelet has given it to `fsGroup`.
const CLAIM_MODE: u32 = 0o2775;
const EMPTY_MODE: u32 = 0o777;
/// Mode of files without one of their own.
const FILE_MODE: u32 = 0o644;

/// Folder of a persistent volume claim; it outlives the pods.
pub(super) fn claim_folder(folder: &Path, name: &str) -> PathBuf {
    folder.join("claims").join(name)
}

/// Writes all volumes of a pod below `folder`, by name.
///
/// # Errors
/// A Secret or ConfigMap is missing, or a kind of volume is unknown.
pub(super) async fn write(
    shared: &Shared,
    pod: &Value,
    folder: &Path,
) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let group = pod.pointer("/spec/securityContext/fsGroup");
    let group = group
        .and_then(Value::as_u64)
        .map(u32::try_from)
        .transpose()?;
    let mut written = BTreeMap::new();
    for volume in list(pod, "/spec/volumes") {
        let name = text(volume, "/name").to_owned();
        let place = match volume.pointer("/persistentVolumeClaim/claimName") {
            Some(claim) => claim_folder(&shared.folder, claim.as_str().unwrap_or_default()),
            None => folder.join(&name),
        };
        fs::create_dir_all(&place)?;
        let is_claim = volume.get("persistentVolumeClaim").is_some();
        if is_claim || volume.get("emptyDir").is_some() {
            let mode = match (is_claim, group) {
                (true, Some(_)) => CLAIM_MODE,
                _ => EMPTY_MODE,
            };
            chown(&place, None, group)?;
            fs::set_permissions(&place, fs::Permissions::from_mode(mode))?;
        } else {
            let files = files(shared, pod, volume);
            let files = files.await.with_context(|| format!("volume {name}"))?;
            for (file, content, mode) in files {
                let path = place.join(file);
                fs::write(&path, content)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
                chown(&path, None, group)?;
            }
        }
        written.insert(name, place);
    }
    Ok(written)
}

type VolumeFile = (String, Vec<u8>, u32);

async fn files(shared: &Shared, pod: &Value, volume: &Value) -> anyhow::Result<Vec<VolumeFile>> {
    let namespace = text(pod, "/metadata/namespace");
    if let Some(secret) = volume.get("secret") {
        let name = text(secret, "/secretName");
        return of_object(shared, namespace, ("secrets", name), secret).await;
    }
    if let Some(map) = volume.get("configMap") {
        return of_object(shared, namespace, ("configmaps", text(map, "/name")), map).await;
    }
    let Some(projected) = volume.get("projected") else {
        bail!("unknown kind of volume: {volume}");
    };
    let mut all = Vec::new();
    for source in list(projected, "/sources") {
        if let Some(token) = source.get("serviceAccountToken") {
            let content = new_token(shared, pod, token).await?;
            // The kubelet gives it to the user of the pod.
            all.push((text(token, "/path").to_owned(), content, FILE_MODE));
        } else if let Some(map) = source.get("configMap") {
            let name = ("configmaps", text(map, "/name"));
            all.extend(of_object(shared, namespace, name, map).await?);
        } else if let Some(fields) = source.get("downwardAPI") {
            for item in list(fields, "/items") {
                let value = field(pod, text(item, "/fieldRef/fieldPath"))?;
                let path = text(item, "/path").to_owned();
                all.push((path, value.into_bytes(), FILE_MODE));
            }
        } else {
            bail!("unknown source: {source}");
        }
    }
    Ok(all)
}

async fn of_object(
    shared: &Shared,
    namespace: &str,
    (kinds, name): (&str, &str),
    volume: &Value,
) -> anyhow::Result<Vec<VolumeFile>> {
    let values = shared.api.values(kinds, namespace, name).await?;
    let mode = volume.get("defaultMode").and_then(Value::as_u64);
    let mode = mode.map(u32::try_from).transpose()?.unwrap_or(FILE_MODE);
    let Some(items) = volume.get("items").and_then(Value::as_array) else {
        let files = values.into_iter();
        return Ok(files.map(|(key, content)| (key, content, mode)).collect());
    };
    let pick = |item: &Value| {
        let key = text(item, "/key");
        let found = values.iter().find(|(name, _)| name == key);
        let (_, content) = found.with_context(|| format!("{name} has no {key}"))?;
        Ok((text(item, "/path").to_owned(), content.clone(), mode))
    };
    items.iter().map(pick).collect()
}

/// A token that is bound to the pod.
async fn new_token(shared: &Shared, pod: &Value, token: &Value) -> anyhow::Result<Vec<u8>> {
    let meta = |field: &str| text(pod, &format!("/metadata/{field}"));
    let account = text(pod, "/spec/serviceAccountName");
    let path = format!(
        "/api/v1/namespaces/{}/serviceaccounts/{account}/token",
        meta("namespace")
    );
    let seconds = token.get("expirationSeconds").and_then(Value::as_u64);
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "expirationSeconds": seconds.unwrap_or(TOKEN_SECONDS),
            "boundObjectRef": {
                "apiVersion": "v1", "kind": "Pod", "name": meta("name"), "uid": meta("uid"),
            },
        },
    });
    let answer = shared.api.post(&path, &request).await?;
    Ok(text(&answer, "/status/token").as_bytes().to_vec())
}

/// Value of a field of the pod, like `metadata.uid`.
///
/// # Errors
/// The pod has no such text.
pub(super) fn field(pod: &Value, path: &str) -> anyhow::Result<String> {
    let pointer = format!("/{}", path.replace('.', "/"));
    let value = pod.pointer(&pointer).and_then(Value::as_str);
    let value = value.with_context(|| format!("the pod has no text {path}"))?;
    Ok(value.to_owned())
}

/// Mounts of a container.
///
/// # Errors
/// A mount names no volume, or has a field that the kubelet does not know.
pub(super) fn mounts(
    container: &Value,
    volumes: &BTreeMap<String, PathBuf>,
) -> anyhow::Result<Vec<Mount>> {
    let mounts = list(container, "/volumeMounts");
    let mount = |mount: &Value| {
        let name = text(mount, "/name");
        anyhow::ensure!(mount.get("subPath").is_none(), "{name}: subPath");
        let source = volumes.get(name);
        Ok(Mount {
            source: source.with_context(|| format!("no volume {name}"))?.clone(),
            target: text(mount, "/mountPath").to_owned(),
            read_only: mount
                .get("readOnly")
                .and_then(Value::as_bool)
                .unwrap_or_default(),
        })
    };
    mounts.iter().map(mount).collect()
}
