//! Pods of a tool: images of a mirror, proxy, and further certificate authorities.

use fairlead_api::gitops::{ToolInstallation, ToolProxy};
use serde_json::{Value, json};

use crate::objects::{kind, list};

/// ConfigMap with further certificate authorities.
pub(crate) const CA_MAP: &str = "fairlead-ca";
const CA_FOLDER: &str = "/etc/fairlead/ca";
/// Folders of Go's `crypto/x509`; the system's own files stay trusted.
const CERT_FOLDERS: &str = "/etc/ssl/certs:/etc/fairlead/ca";
/// Names within the cluster that never need the proxy.
const NO_PROXY: &str =
    ".svc,.svc.cluster.local,.cluster.local,localhost,127.0.0.1,$(KUBERNETES_SERVICE_HOST)";

/// Template of the pods of a workload.
fn pod(object: &mut Value) -> Option<&mut Value> {
    match kind(object) {
        "Deployment" | "StatefulSet" => object.pointer_mut("/spec/template/spec"),
        _ => None,
    }
}

/// Changes the pods of a workload; other objects stay.
pub(crate) fn adapt(object: &mut Value, settings: &ToolInstallation) {
    let Some(pod) = pod(object) else {
        return;
    };
    for field in ["containers", "initContainers"] {
        let containers = pod.get_mut(field).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            container_of(container, settings);
        }
    }
    if settings.ca.is_some()
        && let Some(volumes) = list(pod, "volumes")
    {
        volumes.push(json!({ "name": CA_MAP, "configMap": { "name": CA_MAP } }));
    }
}

fn container_of(container: &mut Value, settings: &ToolInstallation) {
    if let Some(registry) = &settings.registry
        && let Some(image) = container.get_mut("image")
        && let Some(mirrored) = image.as_str().map(|it| mirrored(it, registry))
    {
        *image = mirrored.into();
    }
    let mut variables = settings.proxy.as_ref().map_or_else(Vec::new, proxy);
    if settings.ca.is_some() {
        variables.push(json!({ "name": "SSL_CERT_DIR", "value": CERT_FOLDERS }));
        if let Some(mounts) = list(container, "volumeMounts") {
            mounts.push(json!({ "name": CA_MAP, "mountPath": CA_FOLDER, "readOnly": true }));
        }
    }
    if !variables.is_empty()
        && let Some(known) = list(container, "env")
    {
        known.extend(variables);
    }
}

/// Variables of a proxy. A URL with credentials stays in a Secret of the site.
fn proxy(proxy: &ToolProxy) -> Vec<Value> {
    let mut variables = Vec::new();
    if let Some(secret) = &proxy.secret {
        let from = json!({ "secretKeyRef": { "name": secret, "key": "HTTPS_PROXY" } });
        variables.push(json!({ "name": "HTTPS_PROXY", "valueFrom": from }));
    } else if let Some(url) = &proxy.url {
        variables.push(json!({ "name": "HTTPS_PROXY", "value": url }));
    } else {
        return variables;
    }
    let without = match &proxy.no_proxy {
        Some(more) => format!("{NO_PROXY},{more}"),
        None => NO_PROXY.to_owned(),
    };
    variables.push(json!({ "name": "NO_PROXY", "value": without }));
    variables
}

/// The image at a mirror: the first part of a name is a registry if it has a dot or a port, or is `localhost`.
fn mirrored(image: &str, mirror: &str) -> String {
    let mirror = mirror.trim_end_matches('/');
    let path = match image.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => path,
        _ => image,
    };
    format!("{mirror}/{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_replaces_the_registry_of_an_image() {
        for (image, at_mirror) in [
            (
                "ghcr.io/fluxcd/source-controller:v1",
                "m.example/x/fluxcd/source-controller:v1",
            ),
            ("localhost/a:1", "m.example/x/a:1"),
            ("fluxcd/a:1", "m.example/x/fluxcd/a:1"),
            ("redis:8", "m.example/x/redis:8"),
        ] {
            assert_eq!(mirrored(image, "m.example/x/"), at_mirror);
        }
    }

    #[test]
    fn pods_get_proxy_and_authorities() {
        let mut object = json!({
            "kind": "Deployment",
            "spec": { "template": { "spec": { "containers": [{ "image": "a.example/b:1" }] } } },
        });
        let settings = ToolInstallation {
            proxy: Some(ToolProxy {
                url: Some("http://proxy:3128".to_owned()),
                no_proxy: Some("10.0.0.0/8".to_owned()),
                secret: None,
            }),
            ca: Some("PEM".to_owned()),
            ..ToolInstallation::default()
        };
        adapt(&mut object, &settings);
        let pod = &object["spec"]["template"]["spec"];
        let variables = &pod["containers"][0]["env"];
        assert_eq!(
            variables[0],
            json!({ "name": "HTTPS_PROXY", "value": "http://proxy:3128" })
        );
        let without = variables[1]["value"].as_str().unwrap();
        assert!(
            without.ends_with(",10.0.0.0/8") && without.contains(".svc,"),
            "{without}"
        );
        assert_eq!(variables[2]["name"], "SSL_CERT_DIR");
        assert_eq!(pod["volumes"][0]["configMap"]["name"], CA_MAP);
        assert_eq!(pod["containers"][0]["image"], "a.example/b:1");
    }

    #[test]
    fn credentials_of_a_proxy_stay_in_a_secret_of_the_site() {
        let of_secret = proxy(&ToolProxy {
            secret: Some("proxy".to_owned()),
            ..ToolProxy::default()
        });
        assert_eq!(of_secret[0]["valueFrom"]["secretKeyRef"]["name"], "proxy");
        assert!(proxy(&ToolProxy::default()).is_empty());
    }
}
