//! New state of a bundle: checked against its content before the turn of the change, and against the registry in it.

use std::collections::BTreeMap;

use fairlead_api::{
    BundleId, Code, Failure, SourceId, TenantId,
    delivery::{ArtifactId, BundleFields},
};
use fairlead_bundle::{fields::errors_of_bundle, find_cycle};
use fairlead_registry::{RegistryError, allow_in_tenant, allow_somewhere, sees_tenant};
use fairlead_routes::invalid;
use fairlead_seam::Caller;
use fairlead_store::{
    View, millis,
    model::{BundleRecord, Generation},
};
use time::OffsetDateTime;

use super::document::{BundleDocument, Content};
use crate::{generations::GenerationOptions, parts::DeliveryParts, rights::DELIVER};

/// Number of errors that a cause names.
const MAX_NAMED_ERRORS: usize = 20;

/// A new state of a bundle.
#[derive(Debug, Clone)]
pub(super) struct Proposal {
    pub(super) id: BundleId,
    pub(super) tenant: TenantId,
    source: Option<(SourceId, String)>,
    suspended: Option<bool>,
    fields: BundleFields,
    /// Content and options; `None` before the first commit of a source.
    pub(super) content: Option<ProposedContent>,
}

/// Content and options of a new generation.
#[derive(Debug, Clone)]
pub(super) struct ProposedContent {
    pub(super) artifact: ArtifactId,
    pub(super) options: GenerationOptions,
    /// Name of the options.
    pub(super) options_id: ArtifactId,
}

impl Proposal {
    /// Checks a document and its content. A hidden tenant is answered like a missing one first.
    ///
    /// # Errors
    /// `FL-6101`, `FL-6108`, `FL-6110`, and those of rights.
    pub(super) async fn check(
        parts: &DeliveryParts,
        caller: &Caller,
        id: BundleId,
        document: BundleDocument,
    ) -> Result<Self, RegistryError> {
        allow_somewhere(caller, DELIVER)?;
        let view = parts.store.view();
        let tenant = &document.tenant;
        check_tenant(&view, caller, tenant)?;
        if let Some(bundle) = view.bundle(&id)
            && sees_tenant(&view, caller, &bundle.value.tenant)
        {
            allow_in_tenant(&view, caller, &bundle.value.tenant, DELIVER)?;
        }
        let (artifact, source) = match &document.content {
            Content::Artifact(artifact) => (Some(artifact.clone()), None),
            Content::Source(source, path) => {
                let artifact = source_artifact(&view, caller, (source, path), tenant)?;
                (artifact, Some((source.clone(), path.clone())))
            }
        };
        let Some(artifact) = artifact else {
            check_fields(&id, &document.fields, document.fields.chart.is_none())?;
            return Ok(Proposal {
                tenant: document.tenant,
                source,
                suspended: document.suspended,
                fields: document.fields,
                content: None,
                id,
            });
        };
        let now = millis(parts.clock.now());
        let uploader = (&*view, caller);
        (parts.artifacts.take_up(uploader, tenant, &artifact, now)).await?;
        let facts = parts.artifacts.facts(&artifact).await?;
        let fields = document.fields_for(facts.has_chart);
        // The chart in the content of a source is the one that the source has fetched.
        let is_fetched = source.is_some() && fields.chart.is_some();
        check_fields(&id, &fields, facts.has_chart && !is_fetched)?;
        if let Some(chart) = fields.chart.as_ref().filter(|_| !is_fetched) {
            let name = chart.oci.as_ref().or(chart.name.as_ref());
            let name = name.map_or("", String::as_str);
            return Err(Failure::because(Code::ChartNotFetched, name).into());
        }
        let options = GenerationOptions {
            fields: fields.clone(),
            used: facts.used.clone(),
            has_chart: facts.has_chart,
        };
        let (options_id, _) = options.named()?;
        let known = view.bundle(&id).map(|it| &it.value.fields.chart);
        let content = ProposedContent {
            artifact,
            options,
            options_id,
        };
        // The source fetches another chart with its next poll, and then makes the generation.
        let content = (!is_fetched || known == Some(&fields.chart)).then_some(content);
        Ok(Proposal {
            tenant: document.tenant,
            source,
            suspended: document.suspended,
            fields,
            content,
            id,
        })
    }

    /// Checks the proposal against documents of others.
    ///
    /// # Errors
    /// `FL-4109` for hidden groups, `FL-6109` for a circle of dependencies.
    pub(super) fn check_references(
        &self,
        view: &View,
        caller: &Caller,
    ) -> Result<(), RegistryError> {
        let targets = self.fields.targets.iter().flat_map(|it| &it.groups);
        let waves = self.fields.rollout.iter().flat_map(|it| &it.waves);
        for group in targets.chain(waves.flat_map(|it| &it.groups)) {
            let known = view.group(group);
            let is_visible = known.is_some_and(|it| sees_tenant(view, caller, &it.value.tenant));
            if !is_visible {
                let cause = format_args!("groups: no group {group:?} is visible");
                return Err(invalid(cause).into());
            }
        }
        if self.fields.depends_on.is_empty() {
            return Ok(());
        }
        let bundles = view.bundles().map(|it| &it.value);
        let depends_on = bundles.map(|it| (it.id.clone(), it.fields.depends_on.clone()));
        let mut depends_on: BTreeMap<_, _> = depends_on.collect();
        depends_on.insert(self.id.clone(), self.fields.depends_on.clone());
        let Some(cycle) = find_cycle(&depends_on) else {
            return Ok(());
        };
        let is_visible = |id: &BundleId| {
            let bundle = view.bundle(id);
            *id == self.id || bundle.is_none_or(|it| sees_tenant(view, caller, &it.value.tenant))
        };
        let cause = match cycle.iter().all(is_visible) {
            true => {
                let names = cycle.iter().chain(cycle.first()).map(|it| it.as_str());
                names.collect::<Vec<_>>().join(" -> ")
            }
            false => "a bundle of another tenant is in it".to_owned(),
        };
        Err(Failure::because(Code::DependencyCycle, cause).into())
    }

    /// The bundle after the change, over the known one.
    pub(super) fn over(
        &self,
        before: Option<&BundleRecord>,
        caller: &Caller,
        at: OffsetDateTime,
    ) -> BundleRecord {
        let new = || BundleRecord::new(self.id.clone(), self.tenant.clone(), self.fields.clone());
        let mut bundle = before.cloned().unwrap_or_else(new);
        let has_moved = bundle.tenant != self.tenant;
        bundle.tenant = self.tenant.clone();
        bundle.fields = self.fields.clone();
        bundle.suspended = self.suspended.unwrap_or(bundle.suspended);
        (bundle.source, bundle.path) = self.source.clone().unzip();
        bundle.orphaned = false;
        if let Some(content) = &self.content {
            let is_same = bundle.newest().is_some_and(|it| {
                it.artifact == content.artifact && it.options == content.options_id
            });
            // The tenant is part of each spec.
            if !is_same || has_moved {
                bundle.push(Generation {
                    number: 0,
                    artifact: content.artifact.clone(),
                    options: content.options_id.clone(),
                    at,
                    by: caller.name.clone(),
                });
            }
        }
        bundle
    }
}

/// Checks that the caller delivers to a tenant.
///
/// # Errors
/// `FL-4107` for a hidden one, `FL-1201`.
pub(super) fn check_tenant(
    view: &View,
    caller: &Caller,
    tenant: &TenantId,
) -> Result<(), RegistryError> {
    if view.tenant(tenant).is_none() || !sees_tenant(view, caller, tenant) {
        return Err(RegistryError::UnknownTenant);
    }
    allow_in_tenant(view, caller, tenant, DELIVER).map(drop)
}

/// Content of a folder of a source; `None` before its first commit.
fn source_artifact(
    view: &View,
    caller: &Caller,
    (id, path): (&SourceId, &str),
    tenant: &TenantId,
) -> Result<Option<ArtifactId>, RegistryError> {
    let source = view.source(id).map(|it| &it.value);
    let source = source.filter(|it| sees_tenant(view, caller, &it.tenant));
    // Credentials of a source serve bundles of its tenant and below.
    let source = source.filter(|it| view.within(tenant, &it.tenant));
    let missing = || invalid(format_args!("source: no source {id:?} serves the tenant"));
    let source = source.ok_or_else(missing)?;
    if !source.git.paths.iter().any(|it| it == path) {
        let cause = format_args!("path: {id} has no folder {path:?}");
        return Err(invalid(cause).into());
    }
    let artifact = source.artifacts.iter().find(|it| it.path == path);
    Ok(artifact.map(|it| it.artifact.clone()))
}

fn check_fields(id: &BundleId, fields: &BundleFields, has_chart: bool) -> Result<(), Failure> {
    let errors = errors_of_bundle(id, fields, has_chart);
    if errors.is_empty() {
        return Ok(());
    }
    let named = errors
        .iter()
        .take(MAX_NAMED_ERRORS)
        .map(ToString::to_string);
    let mut causes: Vec<_> = named.collect();
    if errors.len() > causes.len() {
        causes.push(format!("and {} more", errors.len() - causes.len()));
    }
    Err(Failure::because(Code::BadBundle, causes.join("; ")))
}
