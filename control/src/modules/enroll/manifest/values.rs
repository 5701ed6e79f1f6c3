//! Values of the chart `fairlead-agent` that make the objects of the install manifest.

use fairlead_api::{
    gitops::GitOpsTool,
    resources::SiteSettings,
    site::{DeliveryRights, ImpersonationMode},
};
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};

use super::{AgentStart, ManifestInput};

/// The values as YAML. With [`AgentStart::Join`] they contain the join string.
///
/// # Errors
/// They cannot be written as YAML.
pub(crate) fn values(input: &ManifestInput) -> Result<String, serde_saphyr::ser::Error> {
    let options = serde_saphyr::ser_options! { quote_all: true };
    let yaml = serde_saphyr::to_string_with_options(&document(input), options)?;
    let tenant = &input.tenant;
    Ok(format!(
        "# Values of the chart fairlead-agent ({tenant}).\n# They hold a token that is good once: do not keep this file.\n{yaml}"
    ))
}

/// Values other than the chart's own.
fn document(input: &ManifestInput) -> Value {
    let mut values = Map::new();
    let mut put = |name: &str, value: Value| {
        values.insert(name.to_owned(), value);
    };
    put("tenant", json!(input.tenant));
    match &input.start {
        AgentStart::Join { join, .. } => put("join", join.expose_secret().into()),
        AgentStart::Adopt { hub } => {
            put("adopt", true.into());
            put("hubs", json!([hub]));
        }
    }
    put("image", image(&input.image));
    let choices = &input.choices;
    if !choices.operator_namespaces.is_empty() {
        put("operatorNamespaces", json!(choices.operator_namespaces));
    }
    if choices.impersonation != ImpersonationMode::default() {
        put("impersonation", choices.impersonation.to_string().into());
    }
    if choices.delivery != DeliveryRights::default() {
        put("delivery", choices.delivery.to_string().into());
    }
    if let Some(target) = &choices.git_proxy {
        put("gitProxy", target.to_string().into());
    }
    if let Some(gitops) = gitops(input) {
        put("gitops", gitops);
    }
    if let Some(proxy) = proxy(&input.site) {
        put("proxy", proxy);
    }
    if let Some(ca) = &input.site.ca {
        put("ca", json!({ "pem": ca }));
    }
    values.into()
}

/// The parts of an image's name.
fn image(name: &str) -> Value {
    if let Some((repository, digest)) = name.split_once('@') {
        return json!({ "repository": repository, "digest": digest });
    }
    // A colon before a slash belongs to the port of a registry.
    match name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')) {
        Some((repository, tag)) => json!({ "repository": repository, "tag": tag }),
        None => json!({ "repository": name, "tag": "latest" }),
    }
}

fn gitops(input: &ManifestInput) -> Option<Value> {
    if input.gitops == GitOpsTool::None {
        return None;
    }
    let mut gitops = json!({ "tool": input.gitops, "adopt": input.adopt });
    if let (Some(rights), Value::Object(gitops)) = (&input.installer, &mut gitops) {
        let rules = json!({ "cluster": rights.cluster, "namespaced": rights.namespaced });
        gitops.insert("installer".to_owned(), rules);
    }
    Some(gitops)
}

/// A Secret holds the whole URL, so it replaces the one of the settings.
fn proxy(site: &SiteSettings) -> Option<Value> {
    let proxy = site.proxy.as_ref()?;
    let mut values = match (&proxy.secret, &proxy.url) {
        (Some(secret), _) => json!({ "existingSecret": secret }),
        (None, url) => json!({ "url": url }),
    };
    if let (Some(exceptions), Value::Object(values)) = (&proxy.no_proxy, &mut values) {
        values.insert("noProxy".to_owned(), exceptions.as_str().into());
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images_are_split() {
        for (name, parts) in [
            (
                "fairlead:0.1.0",
                json!({ "repository": "fairlead", "tag": "0.1.0" }),
            ),
            (
                "registry:5000/a/fairlead",
                json!({ "repository": "registry:5000/a/fairlead", "tag": "latest" }),
            ),
            (
                "registry:5000/fairlead:1",
                json!({ "repository": "registry:5000/fairlead", "tag": "1" }),
            ),
            (
                "r/fairlead@sha256:aa",
                json!({ "repository": "r/fairlead", "digest": "sha256:aa" }),
            ),
        ] {
            assert_eq!(image(name), parts);
        }
    }
}
