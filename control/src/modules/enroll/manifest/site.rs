//! Network of the site: variables of the proxy, and certificate authorities as a mounted ConfigMap.

use fairlead_api::resources::{PROXY_SECRET_KEY, SiteSettings};
use serde_json::{Value, json};

use super::metadata;

/// ConfigMap and volume with the authorities.
const NAME: &str = "fairlead-site-ca";
const VOLUME: &str = "site-ca";
const FOLDER: &str = "/etc/fairlead/site-ca";
const FILE: &str = "ca.crt";

/// ConfigMap with the authorities of the site, if it has some.
pub(super) fn authorities(site: &SiteSettings) -> Option<Value> {
    let ca = site.ca.as_ref()?;
    Some(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(NAME),
        "data": { FILE: ca },
    }))
}

/// Variables of the agent. A URL with credentials stays in a Secret of the site.
pub(super) fn variables(site: &SiteSettings) -> Vec<Value> {
    let mut variables = Vec::new();
    if let Some(proxy) = &site.proxy {
        if let Some(secret) = &proxy.secret {
            variables.push(json!({
                "name": "HTTPS_PROXY",
                "valueFrom": { "secretKeyRef": { "name": secret, "key": PROXY_SECRET_KEY } },
            }));
        } else if let Some(url) = &proxy.url {
            variables.push(json!({ "name": "HTTPS_PROXY", "value": url }));
        }
        if let Some(exceptions) = &proxy.no_proxy {
            variables.push(json!({ "name": "NO_PROXY", "value": exceptions }));
        }
    }
    if site.ca.is_some() {
        let file = format!("{FOLDER}/{FILE}");
        variables.push(json!({ "name": "FAIRLEAD_CA_FILE", "value": file }));
    }
    variables
}

/// Mounts the authorities in the agent's container, the first of the pod. The agent reads them again at each dial.
pub(super) fn add_authorities(pod: &mut Value, site: &SiteSettings) {
    if site.ca.is_none() {
        return;
    }
    let volume = json!({ "name": VOLUME, "configMap": { "name": NAME } });
    append(pod, "volumes", volume);
    if let Some(agent) = pod.pointer_mut("/containers/0") {
        let mount = json!({ "name": VOLUME, "mountPath": FOLDER, "readOnly": true });
        append(agent, "volumeMounts", mount);
    }
}

/// Appends to a list that may not exist yet.
fn append(object: &mut Value, list: &str, item: Value) {
    if let Value::Object(fields) = object
        && let Value::Array(items) = fields.entry(list).or_insert_with(|| json!([]))
    {
        items.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_a_proxy_stay_in_a_secret_of_the_site() {
        let site: SiteSettings = serde_json::from_value(json!({
            "proxy": { "url": "http://proxy:3128", "secret": "proxy", "noProxy": "10.0.0.0/8" },
        }))
        .unwrap();
        assert_eq!(
            json!(variables(&site)),
            json!([
                {
                    "name": "HTTPS_PROXY",
                    "valueFrom": { "secretKeyRef": { "name": "proxy", "key": "HTTPS_PROXY" } },
                },
                { "name": "NO_PROXY", "value": "10.0.0.0/8" },
            ])
        );
        assert_eq!(authorities(&site), None);
    }

    #[test]
    fn authorities_are_mounted_beside_other_volumes() {
        let site = SiteSettings {
            ca: Some("PEM".to_owned()),
            ..SiteSettings::default()
        };
        assert_eq!(authorities(&site).unwrap()["data"]["ca.crt"], "PEM");
        for volumes in [json!(null), json!([{ "name": "token" }])] {
            let before = volumes.as_array().map_or(0, Vec::len);
            let mut pod = json!({ "containers": [{ "name": "agent" }, { "name": "runner" }] });
            if before > 0 {
                pod["volumes"] = volumes;
            }
            add_authorities(&mut pod, &site);
            assert_eq!(pod["volumes"].as_array().unwrap().len(), before + 1);
            let file = variables(&site)[0]["value"].clone();
            let mount = &pod["containers"][0]["volumeMounts"][0]["mountPath"];
            let folder = mount.as_str().unwrap();
            assert!(file.as_str().unwrap().starts_with(folder), "{file}");
            assert_eq!(pod["containers"][1].get("volumeMounts"), None);
        }
    }
}
