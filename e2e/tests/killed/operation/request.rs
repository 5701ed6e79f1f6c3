//! HTTP request of an operation.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{CLUSTER, LoadOperation, LoadWorld, Secrets, What};
use crate::client::Request;

impl LoadOperation {
    /// The request, with the writer's own token except for Steward's operations.
    pub(crate) fn request(&self, token: &str, secrets: &Secrets, world: &LoadWorld) -> Request {
        let (id, number) = (&self.id, self.number);
        let said = number.to_string();
        let repo = json!({ "type": "unmanaged" });
        let cluster = format!("/clusters/{id}");
        let bootstrap = format!("/v1/clusters/{id}/bootstrap-token");
        let known = |of: &BTreeMap<String, String>| of.get(id).cloned().unwrap_or_default();
        let mut by = Some(token.to_owned());
        let (method, path, body) = match self.what {
            What::MakeTenant => {
                let body = json!({ "id": id, "displayName": said, "gitRepo": repo });
                ("POST", "/tenants".to_owned(), body)
            }
            What::RenameTenant => {
                let body = json!({ "displayName": said });
                ("PATCH", format!("/tenants/{id}"), body)
            }
            What::DropTenant => ("DELETE", format!("/tenants/{id}?cascade=true"), Value::Null),
            What::MakeCluster => {
                let body = json!({ "id": id, "tenant": self.of, "displayName": said, "facts": { "n": said } });
                ("POST", "/clusters".to_owned(), body)
            }
            What::Patch => {
                let body = json!({ "displayName": said, "facts": { "n": said }, "dynamicFacts": { "n": number } });
                ("PATCH", cluster, body)
            }
            What::Put => {
                let there = world.get(&format!("{CLUSTER}{id}"));
                let tenant = there.and_then(|it| it.get("tenant"));
                let body = json!({ "tenant": tenant, "displayName": said, "facts": { "n": said } });
                ("PUT", cluster, body)
            }
            What::Report => {
                by = Some(known(&secrets.steward));
                let body =
                    json!({ "facts": { "steward": said }, "dynamicFacts": { "steward": number } });
                ("PATCH", cluster, body)
            }
            What::Compile => ("POST", format!("{cluster}/compileMeta"), self.compiled()),
            What::Move => {
                let path = format!("/v1/clusters/{id}/tenant");
                ("POST", path, json!({ "tenant": self.of }))
            }
            What::DropCluster => ("DELETE", cluster, Value::Null),
            What::Invite => ("POST", bootstrap, json!({})),
            What::Uninvite => ("DELETE", bootstrap, Value::Null),
            What::Spend => {
                by = None;
                ("GET", manifests(&known(&secrets.bootstrap)), Value::Null)
            }
            What::MakeToken => {
                let role = self.of.as_ref().map_or("viewer", |_| "cluster");
                let mut body = json!({ "name": id, "role": role });
                if let Some(cluster) = &self.of {
                    body["cluster"] = json!(cluster);
                }
                ("POST", "/v1/tokens".to_owned(), body)
            }
            What::DropToken => {
                let known = secrets.tokens.get(id).map(|(id, _)| id.as_str());
                let path = format!("/v1/tokens/{}", known.unwrap_or_default());
                ("DELETE", path, Value::Null)
            }
        };
        Request {
            method,
            path,
            token: by,
            body,
        }
    }

    pub(super) fn compiled(&self) -> Value {
        let version = self.number.to_string();
        json!({ "instances": { "app": { "component": "app", "version": version } } })
    }
}

/// Path of Steward's manifests, which can be read once.
pub(crate) fn manifests(token: &str) -> String {
    format!("/install/steward.json?token={token}")
}
