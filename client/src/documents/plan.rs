//! Plan of a document: the difference to the hub's resource, validated by the hub with a dry run before anything is written.

use fairlead_api::{Code, Failure, delivery::PlanHash};
use http::Method;
use serde_json::{Map, Value, json};

use super::{
    Document, DocumentKind, ci_values, invalid,
    patch::{merged, patch},
    removals::Removals,
};
use crate::{
    differences::differences,
    hub_client::{
        HubClient, HubError,
        calls::{Precondition, Tagged},
    },
    query::query_of,
};

/// Fields that PUT keeps if a document omits them.
const KEPT_BY_PUT: [(DocumentKind, &str); 11] = [
    (DocumentKind::Tenant, "tenantRef"),
    (DocumentKind::Tenant, "clusterTemplate"),
    (DocumentKind::Tenant, "quotas"),
    (DocumentKind::Tenant, "compilePipeline"),
    (DocumentKind::Cluster, "kubeApi"),
    (DocumentKind::Cluster, "creationPolicy"),
    (DocumentKind::Cluster, "deletionPolicy"),
    (DocumentKind::Cluster, "deleteProtection"),
    (DocumentKind::Cluster, "deliverCatalog"),
    (DocumentKind::Cluster, "enableCompilation"),
    (DocumentKind::Cluster, "site"),
];
/// Limit of attempts after concurrent changes of the same resource.
const MAX_ATTEMPTS: usize = 5;

/// Request that applies a document.
#[derive(Debug, Clone, PartialEq)]
pub enum PlannedRequest {
    /// None: the resource is as desired.
    Unchanged,
    /// PUT of a new resource.
    Create(Value),
    /// JSON merge patch (RFC 7396).
    Patch(Value),
    /// PUT of the whole resource.
    Replace(Value),
}

/// A plan with a description of its changes.
#[derive(Debug, Clone)]
pub struct DocumentPlan {
    /// Request to send.
    pub request: PlannedRequest,
    /// ETag of the resource that the plan is based on; `None` for a new resource.
    tag: Option<String>,
    /// Changes for people: `+`, `~` or `-`, path and values.
    pub lines: Vec<String>,
    /// Changes that need confirmation.
    pub dangers: Vec<String>,
    /// Name of the removals among the dangers, which the hub requires.
    confirm: Option<PlanHash>,
}

/// Treatment of fields that a document omits.
#[derive(Debug, Clone, Copy)]
pub enum ApplyMode<'a> {
    /// Omitted fields stay; `null` removes a field.
    Amend,
    /// Omitted fields are removed.
    Replace,
    /// The document is an edited version of this one.
    EditOf(&'a Document),
}

/// Plans a document against the hub's current resource. A `pending` document needs a resource that does not exist yet, so
/// there is no dry run.
///
/// # Errors
/// Failures of the dry run; `FL-4109` with an unknown field; `FL-4114` if the resource has changed since it was edited.
pub async fn plan(
    hub: &HubClient,
    document: &Document,
    mode: ApplyMode<'_>,
    pending: bool,
) -> Result<DocumentPlan, Failure> {
    let Some(now) = hub.get_tagged(&document.path()).await? else {
        if matches!(mode, ApplyMode::EditOf(_)) {
            let detail = format_args!("{document} was deleted");
            return Err(Failure::because(Code::ChangedMeanwhile, detail));
        }
        let wanted = Value::Object(new(document));
        let plan = PlannedRequest::Create(wanted.clone());
        if pending {
            return Ok(DocumentPlan::without_dry_run(
                plan,
                describe_changes(
                    &json!({}),
                    &Value::Object(ci_values::hidden(&new(document))),
                ),
            ));
        }
        return dry_run(hub, document, plan, None).await;
    };
    let shown = Document::of(document.kind, &now.value)?;
    let is_cluster = document.kind == DocumentKind::Cluster;
    if is_cluster && document.tenant.is_some() && document.tenant != shown.tenant {
        let detail = format_args!(
            "{document} is of tenant {}; a cluster moves by `fairlead cluster move`",
            shown.tenant.unwrap_or_default()
        );
        return Err(invalid(detail).into());
    }
    if !document.kind.takes_patch() {
        return match replaced(document, &shown, mode)? {
            Some(body) => dry_run(hub, document, PlannedRequest::Replace(body), Some(&now)).await,
            None => Ok(DocumentPlan::unchanged()),
        };
    }
    let plan = match mode {
        ApplyMode::Amend => patched(&shown.fields, &document.fields, false),
        ApplyMode::Replace => Some(PlannedRequest::Replace(full_body(document, &shown))),
        ApplyMode::EditOf(base) if *base != shown => return Err(Code::ChangedMeanwhile.into()),
        ApplyMode::EditOf(base) => patched(&base.fields, &document.fields, true),
    };
    match plan {
        Some(plan) => dry_run(hub, document, plan, Some(&now)).await,
        None => Ok(DocumentPlan::unchanged()),
    }
}

/// Sends a plan. After a concurrent change, for example by an agent's report, it plans again, and continues if the plan is
/// still the same.
///
/// # Errors
/// Failures of the hub; `FL-4114` if the plan is different now.
pub async fn send(
    hub: &HubClient,
    document: &Document,
    mode: ApplyMode<'_>,
    mut planned: DocumentPlan,
) -> Result<(), Failure> {
    let mut tries = MAX_ATTEMPTS;
    loop {
        let terms = Terms {
            tag: planned.tag.as_deref(),
            confirm: planned.confirm.as_ref(),
            is_dry_run: false,
        };
        let sent = write(hub, document, &planned.request, terms).await;
        let changed = match sent {
            Err(error @ HubError::Outdated(_)) if tries > 0 => error,
            other => return Ok(other.map(drop)?),
        };
        tries -= 1;
        let anew = plan(hub, document, mode, false).await?;
        if anew.lines != planned.lines || anew.confirm != planned.confirm {
            return Err(changed.into());
        }
        planned = anew;
    }
}

/// Result of a dry run of the plan.
async fn dry_run(
    hub: &HubClient,
    document: &Document,
    request: PlannedRequest,
    now: Option<&Tagged>,
) -> Result<DocumentPlan, Failure> {
    let tag = now.map(|now| now.tag.clone());
    let mut terms = Terms {
        tag: tag.as_deref(),
        confirm: None,
        is_dry_run: true,
    };
    let removals = match write(hub, document, &request, terms).await {
        Ok(would) => Ok(would),
        Err(error) => Err(Removals::of(error.into())?),
    };
    let (would, removals) = match removals {
        Ok(would) => (would, None),
        Err(removals) => {
            terms.confirm = Some(&removals.confirm);
            (write(hub, document, &request, terms).await?, Some(removals))
        }
    };
    let would = Value::Object(Document::of(document.kind, &would)?.whole());
    let before = match now {
        Some(now) => Value::Object(Document::of(document.kind, &now.value)?.whole()),
        None => json!({}),
    };
    // The hub refuses unknown fields of the other kinds by itself.
    let whole = (document.kind.takes_patch()).then(|| ci_values::without(&document.whole()));
    if let Some(field) = whole.and_then(|it| ignored_field(&would, &it)) {
        let error = match (field.as_str(), now) {
            ("gitRepo.type", Some(_)) => {
                invalid("gitRepo.type: of one that is there, `apply --replace` alone changes it")
            }
            (path, _) => invalid(format_args!(
                "unknown field \"{path}\", or a value that the hub does not accept"
            )),
        };
        return Err(error.into());
    }
    let lines = describe_changes(&before, &would);
    let mut dangers = match now {
        Some(_) => dangers(&before, &would),
        None => Vec::new(),
    };
    dangers.extend(removals.as_ref().map(|it| it.text.clone()));
    Ok(DocumentPlan {
        request: if lines.is_empty() {
            PlannedRequest::Unchanged
        } else {
            request
        },
        tag,
        dangers,
        lines,
        confirm: removals.map(|it| it.confirm),
    })
}

/// Conditions of a request.
#[derive(Clone, Copy)]
struct Terms<'a> {
    /// ETag of the resource; `None` for a new one.
    tag: Option<&'a str>,
    /// Name of the confirmed removals.
    confirm: Option<&'a PlanHash>,
    is_dry_run: bool,
}

/// Sends the request of a plan and returns the resulting resource.
async fn write(
    hub: &HubClient,
    document: &Document,
    request: &PlannedRequest,
    terms: Terms<'_>,
) -> Result<Value, HubError> {
    let query = query_of([
        ("dryRun", terms.is_dry_run.then_some("true")),
        ("confirm", terms.confirm.map(PlanHash::as_str)),
    ]);
    let path = format!("{}?{query}", document.path());
    let path = path.trim_end_matches('?');
    let precondition = terms
        .tag
        .map_or(Precondition::Absent, Precondition::Unchanged);
    match request {
        PlannedRequest::Unchanged => Ok(Value::Null),
        PlannedRequest::Create(body) | PlannedRequest::Replace(body) => {
            hub.send_conditional(Method::PUT, path, body, precondition)
                .await
        }
        PlannedRequest::Patch(body) => {
            hub.send_conditional(Method::PATCH, path, body, precondition)
                .await
        }
    }
}

impl DocumentPlan {
    fn unchanged() -> Self {
        DocumentPlan::without_dry_run(PlannedRequest::Unchanged, Vec::new())
    }

    fn without_dry_run(request: PlannedRequest, lines: Vec<String>) -> Self {
        DocumentPlan {
            request,
            tag: None,
            lines,
            dangers: Vec::new(),
            confirm: None,
        }
    }
}

/// Document of a new resource. A tenant without a repository gets an unmanaged one.
fn new(document: &Document) -> Map<String, Value> {
    let mut whole = document.body();
    if document.kind == DocumentKind::Tenant && !whole.contains_key("gitRepo") {
        whole.insert("gitRepo".to_owned(), json!({ "type": "unmanaged" }));
    }
    whole
}

/// Complete document for PUT, with `null` for omitted fields that PUT would keep.
fn full_body(document: &Document, shown: &Document) -> Value {
    let mut whole = document.whole();
    for (kind, field) in KEPT_BY_PUT {
        if kind == document.kind {
            whole.entry(field).or_insert(Value::Null);
        }
    }
    if let (DocumentKind::Cluster, Some(tenant)) = (document.kind, &shown.tenant) {
        // A file may omit the tenant.
        whole
            .entry("tenant")
            .or_insert_with(|| tenant.as_str().into());
    }
    whole.into()
}

/// Body of a PUT for a kind without PATCH; `None` if nothing changes.
fn replaced(
    document: &Document,
    shown: &Document,
    mode: ApplyMode<'_>,
) -> Result<Option<Value>, Failure> {
    let tenant = document.tenant.clone().or_else(|| shown.tenant.clone());
    let fields = match mode {
        ApplyMode::Amend => merged(&shown.fields, &document.fields),
        ApplyMode::Replace => document.fields.clone(),
        ApplyMode::EditOf(base) if *base != *shown => return Err(Code::ChangedMeanwhile.into()),
        ApplyMode::EditOf(_) => document.fields.clone(),
    };
    let desired = Document {
        tenant,
        fields,
        ..shown.clone()
    };
    Ok((desired != *shown).then(|| desired.body().into()))
}

fn patched(
    now: &Map<String, Value>,
    wanted: &Map<String, Value>,
    exactly: bool,
) -> Option<PlannedRequest> {
    let patch = patch(now, wanted, exactly);
    (!patch.is_empty()).then(|| PlannedRequest::Patch(patch.into()))
}

/// Path of the first value that the hub ignores. PUT drops unknown fields silently; here they are mistakes.
fn ignored_field(would: &Value, wanted: &Map<String, Value>) -> Option<String> {
    let empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    let unknown = |(name, value): (&String, &Value)| {
        (empty(value) && would.get(name).is_none()).then(|| name.clone())
    };
    let differ = || {
        let differ = differences(would, &without_nulls(wanted)).into_iter();
        let mut differ = differ.filter(|one| one.after != "" && one.after != json!({}));
        differ.next().map(|one| one.path)
    };
    wanted.iter().find_map(unknown).or_else(differ)
}

/// Copy without null values and without objects that had nothing but nulls.
fn without_nulls(fields: &Map<String, Value>) -> Value {
    let kept = fields.iter().filter_map(|(name, value)| match value {
        Value::Null => None,
        Value::Object(inner) => {
            let inner = without_nulls(inner);
            (inner != json!({})).then(|| (name.clone(), inner))
        }
        other => Some((name.clone(), other.clone())),
    });
    Value::Object(kept.collect())
}

/// Describes each changed value on a line.
fn describe_changes(before: &Value, after: &Value) -> Vec<String> {
    let there = differences(before, after).into_iter();
    let there = there.filter(|one| one.after != json!({}));
    let lines = there.map(|one| one.to_string());
    lines.chain(removals(before, after)).collect()
}

fn removals(before: &Value, after: &Value) -> impl Iterator<Item = String> {
    let gone = differences(after, before).into_iter();
    let gone = gone.filter(|one| one.before.is_none() && one.after != json!({}));
    gone.map(|one| format!("- {}: {}", one.path, one.after))
}

/// Changes that need confirmation.
fn dangers(before: &Value, after: &Value) -> Vec<String> {
    let at = |value: &Value, pointer: &str| value.pointer(pointer).cloned();
    let changes = |pointer: &str| at(before, pointer) != at(after, pointer);
    let mut dangers = Vec::new();
    let gone = removals(before, after).count();
    if gone > 0 {
        dangers.push(format!("removes {gone} of its values"));
    }
    if at(before, "/deleteProtection") == Some(true.into()) && changes("/deleteProtection") {
        dangers.push("lifts its protection against deletion".to_owned());
    }
    if at(after, "/deletionPolicy") == Some("Delete".into()) && changes("/deletionPolicy") {
        dangers.push("has its repository deleted with it".to_owned());
    }
    if at(before, "/gitRepo/url").is_some() && changes("/gitRepo/url") {
        dangers.push("gives it another repository".to_owned());
    }
    if at(before, "/tenantRef").is_some() && changes("/tenantRef") {
        dangers.push("moves it below another tenant; its members can then see it".to_owned());
    }
    dangers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn removed_value_is_not_an_unknown_field() {
        let would = json!({ "facts": { "b": "1" }, "annotations": {}, "displayName": "A" });
        let ignored = |wanted: Value| ignored_field(&would, &object(wanted));
        for kept in [
            json!({ "facts": { "a": null } }),
            json!({ "annotations": { "a": null } }),
            json!({ "facts": {}, "annotations": {}, "kubeApi": null }),
            json!({ "clusterTemplate": { "facts": { "a": null } } }),
            json!({ "kubeApi": { "credentials": { "namespace": null } } }),
            json!({ "displayName": "A", "facts": { "b": "1", "c": "" } }),
        ] {
            assert_eq!(ignored(kept.clone()), None, "{kept}");
        }
        for (unknown, path) in [
            (json!({ "fatcs": { "a": "b" } }), "fatcs.a"),
            (json!({ "fatcs": {} }), "fatcs"),
            (json!({ "facts": { "b": "2" } }), "facts.b"),
            (json!({ "displayName": "B" }), "displayName"),
        ] {
            assert_eq!(ignored(unknown).as_deref(), Some(path));
        }
    }

    #[test]
    fn each_difference_is_a_line_and_dangerous_ones_need_confirmation() {
        let before = json!({ "a": 1, "facts": { "x": "1" }, "deleteProtection": true, "gitRepo": { "url": "u" } });
        let after =
            json!({ "a": 2, "facts": { "y": "2" }, "annotations": {}, "gitRepo": { "url": "v" } });
        assert_eq!(
            describe_changes(&before, &after),
            [
                "~ a: 1 -> 2",
                "+ facts.y: \"2\"",
                "~ gitRepo.url: \"u\" -> \"v\"",
                "- deleteProtection: true",
                "- facts.x: \"1\"",
            ]
        );
        assert_eq!(dangers(&before, &after).len(), 3);
        assert!(dangers(&before, &before).is_empty());
    }
}
