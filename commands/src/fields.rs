//! Conversion of flags to document fields of clusters and tenants.

#![allow(
    rustdoc::bare_urls,
    rustdoc::invalid_html_tags,
    reason = "the comments on flags are help texts for a terminal"
)]

mod site;

use clap_complete::ArgValueCompleter;
use fairlead_api::{Code, Failure, TenantId};
use fairlead_client::files;
use serde_json::{Map, Value};

pub(crate) use self::site::SiteFields;
use crate::complete::tenants;

/// Flags for the fields of a cluster.
#[derive(clap::Args)]
pub(crate) struct ClusterFields {
    /// Static fact to set, or NAME- to remove one; repeatable
    #[arg(long = "fact", value_name = "NAME=VALUE")]
    pub(crate) facts: Vec<String>,
    /// Annotation to set, or NAME- to remove one; repeatable
    #[arg(long = "annotation", value_name = "NAME=VALUE")]
    pub(crate) annotations: Vec<String>,
    /// Creation of external resources (the repository): Create new ones, or Adopt existing ones
    #[arg(long, value_name = "Create|Adopt")]
    pub(crate) creation_policy: Option<String>,
    /// Treatment of external resources when the cluster is deleted
    #[arg(long, value_name = "Delete|Retain|Archive")]
    pub(crate) deletion_policy: Option<String>,
    /// Protect the cluster against deletion; =false removes the protection
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) delete_protection: Option<bool>,
    /// Apply the catalog of the cluster as its deployment `catalog`; =false ends that and keeps the objects
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) deliver_catalog: Option<bool>,
    /// URL of the API server, as https://host:port
    #[arg(long, value_name = "URL")]
    pub(crate) kube_api: Option<String>,
    /// Reference to the credentials of the API server; never their value
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    pub(crate) kube_api_credentials: Option<String>,
    /// URL of the catalog's repository
    #[arg(long, value_name = "URL")]
    pub(crate) git_repo: Option<String>,
    /// Host keys of the repository in known_hosts format, or @FILE
    #[arg(long, value_name = "KEYS|@FILE")]
    pub(crate) git_host_keys: Option<String>,
    /// Revision of the tenant's repository to compile from
    #[arg(long, value_name = "REVISION")]
    pub(crate) tenant_revision: Option<String>,
    /// Revision of the global repository to compile from
    #[arg(long, value_name = "REVISION")]
    pub(crate) global_revision: Option<String>,
    #[command(flatten)]
    pub(crate) site: SiteFields,
}

/// Flags for the fields of a tenant.
#[derive(clap::Args)]
pub struct TenantFields {
    /// New display name
    #[arg(long = "name", value_name = "NAME", value_parser = display_name)]
    pub(crate) name: Option<String>,
    /// Parent tenant, whose members can see the clusters of this tenant; "" for none
    #[arg(long, value_name = "TENANT", add = ArgValueCompleter::new(tenants))]
    pub(crate) parent: Option<String>,
    /// Annotation to set, or NAME- to remove one; repeatable
    #[arg(long = "annotation", value_name = "NAME=VALUE")]
    pub(crate) annotations: Vec<String>,
    /// URL of the tenant's configuration repository
    #[arg(long, value_name = "URL")]
    pub(crate) git_repo: Option<String>,
    /// Host keys of the repository in known_hosts format, or @FILE
    #[arg(long, value_name = "KEYS|@FILE")]
    pub(crate) git_host_keys: Option<String>,
    /// Revision of the tenant's repository to compile from
    #[arg(long, value_name = "REVISION")]
    pub(crate) git_revision: Option<String>,
    /// URL of the global configuration repository
    #[arg(long, value_name = "URL")]
    pub(crate) global_git_repo: Option<String>,
    /// Revision of the global repository to compile from
    #[arg(long, value_name = "REVISION")]
    pub(crate) global_revision: Option<String>,
    /// Quota to set: clusters, tokens, catalogs, catalogBytes or changesPerMinute; NAME- for the hub's default; repeatable
    #[arg(long = "quota", value_name = "NAME=NUMBER")]
    pub(crate) quotas: Vec<String>,
    #[command(flatten)]
    pub(crate) site: SiteFields,
}

/// Fields of a cluster for the given flags.
pub(crate) fn of(given: ClusterFields) -> Result<Map<String, Value>, Failure> {
    let mut fields = Fields::default();
    fields.put(&["facts"], pairs("--fact", &given.facts)?);
    fields.put(&["annotations"], pairs("--annotation", &given.annotations)?);
    fields.text(&["creationPolicy"], given.creation_policy);
    fields.text(&["deletionPolicy"], given.deletion_policy);
    fields.put(
        &["deleteProtection"],
        given.delete_protection.map(Value::Bool),
    );
    fields.put(&["deliverCatalog"], given.deliver_catalog.map(Value::Bool));
    fields.text(&["kubeApi", "endpoint"], given.kube_api);
    if let Some(reference) = given.kube_api_credentials {
        let (namespace, name) = match reference.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name.to_owned()),
            None => (None, reference),
        };
        fields.text(&["kubeApi", "credentials", "name"], Some(name));
        fields.text(&["kubeApi", "credentials", "namespace"], namespace);
    }
    fields.text(&["gitRepo", "url"], given.git_repo);
    fields.text(&["gitRepo", "hostKeys"], text_or_file(given.git_host_keys)?);
    fields.text(&["tenantGitRepoRevision"], given.tenant_revision);
    fields.text(&["globalGitRepoRevision"], given.global_revision);
    site::put(&mut fields, &[], given.site)?;
    Ok(fields.0)
}

/// Fields of a tenant for the given flags.
pub(crate) fn of_tenant(given: TenantFields) -> Result<Map<String, Value>, Failure> {
    let mut fields = Fields::default();
    fields.text(&["displayName"], given.name);
    let parent = given.parent.map(|parent| match parent.as_str() {
        "" => Ok(Value::Null),
        name => TenantId::from_name(name).map(|id| id.to_string().into()),
    });
    let parent = parent.transpose();
    let parent = parent
        .map_err(|error| Failure::because(Code::Invalid, format_args!("--parent: {error}")))?;
    fields.put(&["tenantRef"], parent);
    fields.put(&["annotations"], pairs("--annotation", &given.annotations)?);
    fields.text(&["gitRepo", "url"], given.git_repo);
    fields.text(&["gitRepo", "hostKeys"], text_or_file(given.git_host_keys)?);
    fields.text(&["gitRepo", "revision"], given.git_revision);
    fields.text(&["globalGitRepoURL"], given.global_git_repo);
    fields.text(&["globalGitRepoRevision"], given.global_revision);
    fields.put(&["quotas"], quotas(&given.quotas)?);
    site::put(&mut fields, &["clusterTemplate"], given.site)?;
    Ok(fields.0)
}

/// Parses `NAME=NUMBER`, and `NAME-` as a removal.
fn quotas(given: &[String]) -> Result<Option<Value>, Failure> {
    let Some(Value::Object(mut quotas)) = pairs("--quota", given)? else {
        return Ok(None);
    };
    for (name, value) in &mut quotas {
        let Value::String(text) = value else { continue };
        let number = text.parse::<u32>().map_err(|_| {
            let detail = format_args!("--quota {name}={text}: expected a number");
            Failure::because(Code::Usage, detail)
        })?;
        *value = number.into();
    }
    Ok(Some(quotas.into()))
}

/// Returns a text, or the content of the file in `@FILE`.
fn text_or_file(given: Option<String>) -> Result<Option<String>, Failure> {
    let read = given.map(|text| match text.strip_prefix('@') {
        Some(file) => files::read(file.as_ref()),
        None => Ok(text),
    });
    Ok(read.transpose()?)
}

#[derive(Default)]
pub(crate) struct Fields(pub(crate) Map<String, Value>);

impl Fields {
    pub(crate) fn text(&mut self, path: &[&str], value: Option<String>) {
        self.put(path, value.map(Value::String));
    }

    pub(crate) fn put(&mut self, path: &[&str], value: Option<Value>) {
        if let Some(value) = value {
            insert(&mut self.0, path, value);
        }
    }
}

fn insert(fields: &mut Map<String, Value>, path: &[&str], value: Value) {
    match path {
        [] => {}
        [name] => {
            fields.insert((*name).to_owned(), value);
        }
        [name, inner @ ..] => {
            let below = fields
                .entry(*name)
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(below) = below {
                insert(below, inner, value);
            }
        }
    }
}

/// Parses `NAME=VALUE`, and `NAME-` as a removal.
pub(crate) fn pairs(flag: &str, given: &[String]) -> Result<Option<Value>, Failure> {
    let mut pairs = Map::new();
    for pair in given {
        let (name, value) = match (pair.split_once('='), pair.strip_suffix('-')) {
            (Some((name, value)), _) => (name, value.into()),
            (None, Some(name)) => (name, Value::Null),
            (None, None) => {
                let detail =
                    format_args!("{flag} {pair:?}: expected NAME=VALUE, or NAME- to take it away");
                return Err(Failure::because(Code::Usage, detail));
            }
        };
        pairs.insert(name.to_owned(), value);
    }
    Ok((!pairs.is_empty()).then(|| pairs.into()))
}

/// Parses a display name by the rules of the hub.
pub(crate) fn display_name(name: &str) -> Result<String, String> {
    const MAX_CHARS: usize = 100;
    let reason = match name {
        "" => "a name must not be empty",
        _ if name.starts_with('-') => "a name must not start with a dash",
        _ if name.trim() != name => "a name must not start or end with a space",
        _ if name.chars().any(char::is_control) => "a name must not have control characters",
        _ if name.chars().count() > MAX_CHARS => "a name must have at most 100 characters",
        _ => return Ok(name.to_owned()),
    };
    Err(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_display_name_is_refused() {
        let long = "x".repeat(101);
        for bad in ["", "-x", " x", "a\tb", &long] {
            assert!(display_name(bad).is_err(), "{bad:?}");
        }
        assert!(display_name("Zürich 1").is_ok());
        assert!(display_name(&"ä".repeat(100)).is_ok());
    }

    #[derive(Parser)]
    struct Args {
        #[command(flatten)]
        fields: ClusterFields,
    }

    fn read(flags: &[&str]) -> Result<Value, Failure> {
        let args = Args::try_parse_from([&["x"], flags].concat()).unwrap();
        of(args.fields).map(Value::Object)
    }

    #[test]
    fn flags_become_document_fields() {
        assert_eq!(read(&[]).unwrap(), json!({}));
        let flags = [
            "--fact",
            "a=b=c",
            "--fact",
            "gone-",
            "--annotation",
            "x.y/z=",
            "--deletion-policy",
            "Retain",
            "--delete-protection",
            "--kube-api",
            "https://k",
            "--kube-api-credentials",
            "ns/n",
            "--git-repo",
            "u",
        ];
        let expected = json!({
            "facts": { "a": "b=c", "gone": null }, "annotations": { "x.y/z": "" }, "deletionPolicy": "Retain",
            "deleteProtection": true, "gitRepo": { "url": "u" },
            "kubeApi": { "endpoint": "https://k", "credentials": { "name": "n", "namespace": "ns" } },
        });
        assert_eq!(read(&flags).unwrap(), expected);
        let lifted = json!({ "deleteProtection": false });
        assert_eq!(read(&["--delete-protection=false"]).unwrap(), lifted);
        assert_eq!(read(&["--fact", "alone"]).unwrap_err().code, Code::Usage);
    }
}
