//! Document of a bundle that `fairlead deploy` writes: options of the folder, and its targets.

use fairlead_api::{
    BundleId, Code, Failure, Selector,
    delivery::{Bundle, Target, UploadedArtifact},
    percent,
};
use fairlead_bundle::fields::{FILE_NAME, errors_of_bundle};
use fairlead_client::HubClient;

use super::folder::Content;
use crate::{args, cluster::own_tenant, output};

/// Clusters of a document.
pub(super) enum Audience {
    /// Targets, narrowed to this selector.
    Narrowed(Option<Selector>),
    /// Clusters that the request names: each of them matches some target.
    Named,
}

/// A bundle as it is on the hub, and as the folder has it.
pub(super) struct Deploying {
    /// ETag and document on the hub; `None` for a new bundle.
    pub(super) before: Option<(String, Bundle)>,
    pub(super) bundle: Bundle,
    pub(super) content: Content,
    /// Files and bytes of the content on the hub: of the folder, or of the chart that it names.
    pub(super) size: (usize, u64),
}

impl Deploying {
    /// Reads the folder, and makes the document of its bundle. Without targets in the folder, the targets on the hub stay.
    ///
    /// # Errors
    /// Failures of the folder and of the hub; `FL-4109` for a document that is not valid.
    pub(super) async fn read(
        hub: &HubClient,
        asked: args::FolderArgs,
        audience: Audience,
    ) -> Result<Self, Failure> {
        let content = Content::read(&asked.path)?;
        let id = content.bundle(asked.name)?;
        let before = known(hub, &id).await?;
        let known = before.as_ref().map(|(_, bundle)| bundle);
        if let Some(Bundle {
            source: Some(source),
            ..
        }) = known
        {
            let cause = format!("the content of {id} comes from the source {source}");
            let next = "Push the change to its repository, or choose another bundle with `--name`.";
            return Err(Failure::with_cause(Code::Conflict, cause).next(next));
        }
        let tenant = match (asked.tenant, known) {
            (Some(tenant), Some(known)) if tenant != known.tenant => {
                let cause = format!(
                    "{id} is a bundle of the tenant {}, not {tenant}",
                    known.tenant
                );
                let next = "Choose another name with `--name`, or omit `--tenant`.";
                return Err(Failure::with_cause(Code::Conflict, cause).next(next));
            }
            (Some(tenant), _) => tenant,
            (None, Some(known)) => known.tenant.clone(),
            (None, None) => own_tenant(hub).await?,
        };
        let mut fields = content.fields.clone();
        fields.targets = match audience {
            Audience::Narrowed(to) => targets(fields.targets, to, known, &id)?,
            Audience::Named => with_all(fields.targets, known),
        };
        let bundle = Bundle {
            id,
            tenant,
            source: None,
            path: None,
            artifact: Some(content.artifact.id.clone()),
            generation: 0,
            suspended: known.is_some_and(|it| it.suspended),
            orphaned: false,
            fields,
        };
        let errors = errors_of_bundle(&bundle.id, &bundle.fields, content.has_chart_file);
        if !errors.is_empty() {
            let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
            let cause = format!(
                "{FILE_NAME} of {}: {}",
                asked.path.display(),
                errors.join("; ")
            );
            return Err(Failure::with_cause(Code::Invalid, cause));
        }
        let size = (content.artifact.files, content.artifact.unpacked_bytes);
        let mut deploying = Deploying {
            before,
            bundle,
            content,
            size,
        };
        if deploying.content.needs_chart() {
            // Boxed, because it happens seldom.
            Box::pin(deploying.fetch_chart(hub)).await?;
        }
        Ok(deploying)
    }

    /// Makes the hub fetch the chart that the folder names: the content of the bundle is the chart.
    async fn fetch_chart(&mut self, hub: &HubClient) -> Result<(), Failure> {
        output::note("the hub fetches the chart");
        let stored = send_content(hub, self).await?;
        self.size = (stored.files, stored.unpacked_bytes);
        self.bundle.artifact = Some(stored.id);
        self.bundle.fields.chart = None;
        Ok(())
    }
}

/// Sends the folder to the hub.
pub(super) async fn send_content(
    hub: &HubClient,
    deploying: &Deploying,
) -> Result<UploadedArtifact, Failure> {
    let tenant = percent::encode(deploying.bundle.tenant.as_str());
    let path = format!("/v1/artifacts?tenant={tenant}");
    let packed = deploying.content.artifact.packed.clone();
    Ok(hub.upload(&path, "application/gzip", packed.into()).await?)
}

/// The bundle on the hub, with its ETag.
pub(super) async fn known(
    hub: &HubClient,
    id: &BundleId,
) -> Result<Option<(String, Bundle)>, Failure> {
    let Some(found) = hub.get_tagged(&format!("/v1/bundles/{id}")).await? else {
        return Ok(None);
    };
    let bundle = serde_json::from_value(found.value);
    let bundle = bundle.map_err(|error| Failure::because(Code::HubUnreachable, error))?;
    Ok(Some((found.tag, bundle)))
}

/// Targets of the folder, narrowed to `to`; else `to` alone; else those on the hub.
fn targets(
    own: Vec<Target>,
    to: Option<Selector>,
    known: Option<&Bundle>,
    id: &BundleId,
) -> Result<Vec<Target>, Failure> {
    match to {
        None if own.is_empty() => {
            let kept = known.map(|it| it.fields.targets.clone());
            let kept = kept.filter(|it| !it.is_empty());
            kept.ok_or_else(|| {
                let cause = format!("no cluster is a target of {id}");
                let next = format!(
                    "Name clusters with `--to SELECTOR`, or with `targets` in {FILE_NAME}."
                );
                Failure::with_cause(Code::Invalid, cause).next(next)
            })
        }
        None => Ok(own),
        Some(to) if own.is_empty() => Ok(vec![Target {
            selector: Some(to),
            ..Target::default()
        }]),
        Some(to) => own.into_iter().map(|it| narrowed(it, &to)).collect(),
    }
}

/// Targets of the folder or of the hub, and a last one for all other clusters.
fn with_all(own: Vec<Target>, known: Option<&Bundle>) -> Vec<Target> {
    let mut targets = match known {
        Some(known) if own.is_empty() => known.fields.targets.clone(),
        _ => own,
    };
    let all: Option<Selector> = "".parse().ok();
    let has_all = targets
        .iter()
        .any(|it| it.selector.is_some() && it.selector == all);
    if !has_all {
        targets.push(Target {
            selector: all,
            ..Target::default()
        });
    }
    targets
}

/// The target without clusters that do not match the selector.
fn narrowed(target: Target, to: &Selector) -> Result<Target, Failure> {
    let selector = match &target.selector {
        Some(selector) if target.groups.is_empty() && target.clusters.is_empty() => selector,
        _ => {
            let name = target.name.as_deref().unwrap_or("without name");
            let cause = format!(
                "the target {name} in {FILE_NAME} has groups or clusters, so --to cannot narrow it"
            );
            let next = "Omit `--to`, or give the target a selector alone.";
            return Err(Failure::with_cause(Code::Invalid, cause).next(next));
        }
    };
    let both = match (selector.is_empty(), to.is_empty()) {
        (true, _) => to.to_string(),
        (_, true) => selector.to_string(),
        _ if selector == to => to.to_string(),
        _ => format!("{selector},{to}"),
    };
    let selector = both
        .parse()
        .map_err(|error| Failure::because(Code::Invalid, format_args!("--to {to}: {error}")))?;
    Ok(Target {
        selector: Some(selector),
        ..target
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bundle(targets: serde_json::Value) -> Bundle {
        let document = json!({ "id": "b-shop", "tenant": "t-a", "targets": targets });
        serde_json::from_value(document).unwrap()
    }

    fn of(
        own: serde_json::Value,
        to: Option<&str>,
        known: Option<&Bundle>,
    ) -> Result<Vec<String>, Failure> {
        let own = bundle(own).fields.targets;
        let to = to.map(|it| it.parse().unwrap());
        let id = "b-shop".parse().unwrap();
        let targets = targets(own, to, known, &id)?;
        let selector = |it: &Target| it.selector.as_ref().map(ToString::to_string);
        Ok(targets.iter().filter_map(selector).collect())
    }

    #[test]
    fn targets_come_from_the_flag_the_folder_or_the_hub() {
        let known = bundle(json!([{ "selector": "env=stage" }]));
        let own = json!([{ "selector": "site=edge" }, { "selector": "" }]);
        for (own, to, expected) in [
            (json!([]), Some("env=prod"), &["env=prod"][..]),
            (json!([]), None, &["env=stage"]),
            (own.clone(), None, &["site=edge", ""]),
            (json!([{ "selector": "a=b" }]), Some("a=b"), &["a=b"]),
            (
                own,
                Some("env in (prod, test)"),
                &["site=edge,env in (prod, test)", "env in (prod, test)"],
            ),
        ] {
            assert_eq!(of(own, to, Some(&known)).unwrap(), expected, "{to:?}");
        }
        assert!(
            of(json!([]), None, None)
                .unwrap_err()
                .next_step()
                .contains("--to")
        );
        let all = with_all(bundle(json!([])).fields.targets, Some(&known));
        assert_eq!(all.len(), 2);
        assert_eq!(with_all(all, Some(&known)).len(), 2);
        let groups = json!([{ "name": "edge", "groups": ["g-edge"] }]);
        let failure = of(groups, Some("a=b"), None).unwrap_err();
        assert!(failure.cause.contains("the target edge"), "{failure:?}");
    }
}
