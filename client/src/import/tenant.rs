//! Tenants, merged with their TenantTemplate.

use std::collections::BTreeMap;

use fairlead_api::TenantId;
use serde_json::{Value, json};

use super::{
    PlannedTenant, cluster, contents,
    object::{LieutenantObject, ObjectFields, document},
    repo,
};

/// Annotation with the name of the TenantTemplate that a tenant was filled from.
const TEMPLATE_ANNOTATION: &str = "lieutenant.syn.tools/tenant-template";

pub(super) fn planned(
    tenant: &mut LieutenantObject,
    templates: &BTreeMap<String, LieutenantObject>,
    made: Option<LieutenantObject>,
    notes: &mut Vec<String>,
) -> Option<PlannedTenant> {
    let id: TenantId = match tenant.name.parse() {
        Ok(id) => id,
        Err(error) => {
            notes.push(format!("{tenant}: {error}"));
            return None;
        }
    };
    if let Some(name) = tenant.annotations.get(TEMPLATE_ANNOTATION) {
        match templates.get(name) {
            Some(template) => tenant.spec.fill(&template.spec.clone().into_inner()),
            None => notes.push(format!(
                "{tenant}: its TenantTemplate {name} is not among the objects"
            )),
        }
    }
    let owner = tenant.to_string();
    let spec = &mut tenant.spec;
    let mut git_repo = repo::planned(
        spec.text("gitRepoURL"),
        None,
        spec.object("gitRepoTemplate"),
        made,
        &owner,
        notes,
    );
    if let Some(revision) = spec.text("gitRepoRevision") {
        if git_repo.is_null() {
            git_repo = json!({ "type": "unmanaged" });
        }
        if let Some(fields) = git_repo.as_object_mut() {
            fields.insert("revision".to_owned(), revision.into());
        }
    }
    if git_repo.is_null() {
        // A tenant always has a repository here, if only an unmanaged one.
        git_repo = json!({ "type": "unmanaged" });
    }
    let global_url = spec.text("globalGitRepoURL");
    let global_url = global_url.map(|url| repo::without_credentials(url, &owner, notes));
    let policies = [
        ("creationPolicy", spec.text("creationPolicy")),
        ("deletionPolicy", spec.text("deletionPolicy")),
    ];
    let pipeline = contents::pipeline(spec.object("compilePipeline"), &owner, notes);
    let mut template = cluster_template(spec.object("clusterTemplate"), &owner, notes);
    add_policies(&mut template, policies, &owner, notes);
    let planned = document([
        ("displayName", json!(spec.text("displayName"))),
        ("annotations", json!(tenant.annotations)),
        ("gitRepo", git_repo),
        ("globalGitRepoURL", json!(global_url)),
        (
            "globalGitRepoRevision",
            json!(spec.text("globalGitRepoRevision")),
        ),
        ("clusterTemplate", template),
        ("compilePipeline", pipeline),
    ]);
    tenant.report_rest(notes);
    Some(PlannedTenant {
        id,
        document: planned,
    })
}

/// Policies of the tenant's own repository. Here they are those of its `clusterTemplate`, which
/// count for its clusters, too: one that removes more is left to people.
fn add_policies(
    template: &mut Value,
    policies: [(&str, Option<String>); 2],
    owner: &str,
    notes: &mut Vec<String>,
) {
    for (name, policy) in policies {
        let Some(policy) = policy else {
            continue;
        };
        let known = template.get(name).and_then(Value::as_str);
        if known == Some(policy.as_str()) {
            continue;
        }
        if known.is_some() || policy == "Delete" {
            notes.push(format!(
                "{owner}: {name} {policy} is not imported, since that of clusterTemplate counts for its clusters, too"
            ));
            continue;
        }
        if template.is_null() {
            *template = json!({});
        }
        if let Some(fields) = template.as_object_mut() {
            fields.insert(name.to_owned(), policy.into());
        }
    }
}

fn cluster_template(mut spec: ObjectFields, owner: &str, notes: &mut Vec<String>) -> Value {
    if spec.is_empty() {
        return Value::Null;
    }
    // Lieutenant renders these per cluster. Here they would be the same literal text for all
    // clusters.
    let is_go = |text: &String| text.contains("{{");
    let mut report_template = |field: &str| {
        notes.push(format!(
            "{owner}: {field} of its clusterTemplate is a Go template"
        ))
    };
    let mut plain = |spec: &mut ObjectFields, name: &str| {
        let text = spec.text(name).filter(|text| {
            let go = is_go(text);
            if go {
                report_template(name);
            }
            !go
        });
        json!(text)
    };
    let tenant_revision = plain(&mut spec, "tenantGitRepoRevision");
    let global_revision = plain(&mut spec, "globalGitRepoRevision");
    let creation = plain(&mut spec, "creationPolicy");
    let deletion = plain(&mut spec, "deletionPolicy");
    let mut facts = spec.object("facts").into_texts();
    facts.retain(|name, text| {
        let go = is_go(text);
        if go {
            report_template(&format!("fact {name}"));
        }
        !go
    });
    let git_repo = repo::planned(
        None,
        spec.text("gitHostKeys"),
        spec.object("gitRepoTemplate"),
        None,
        &format!("{owner}, clusterTemplate"),
        notes,
    );
    let compiles = cluster::switch(spec.take("enableCompilation"));
    for name in spec.into_inner().keys() {
        notes.push(format!(
            "{owner}: {name} of its clusterTemplate is not supported"
        ));
    }
    document([
        ("facts", json!(facts)),
        ("gitRepo", git_repo),
        ("tenantGitRepoRevision", tenant_revision),
        ("globalGitRepoRevision", global_revision),
        ("creationPolicy", creation),
        ("deletionPolicy", deletion),
        ("enableCompilation", compiles),
    ])
}
