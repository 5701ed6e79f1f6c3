//! Checks of the options of a bundle that its types do not hold.

use std::collections::BTreeSet;

use fairlead_api::{
    BundleId,
    delivery::{Bundle, BundleFields, BundleKind, DriftPolicy, IgnoreRule, Share, Target, Wave},
};
use serde_json::Value;

use super::{
    error::{FieldError, MAX_TIMEOUT_SECONDS, Path, Problem, check_range},
    helm::{check_chart, check_helm, check_secret, check_values},
    names::{MAX_RELEASE_BYTES, check_namespace, check_release, check_service_account},
    patches::{check_patch, check_pointer},
};
use crate::{layers::default_release, variables::is_variable_suffix};

const MAX_TARGETS: usize = 100;
const MAX_TARGET_CLUSTERS: usize = 10_000;
const MAX_WAVES: usize = 50;
const MAX_PATCHES: usize = 500;
const MAX_SECRETS: usize = 100;
const MAX_VARS: usize = 1000;
const MAX_DEPENDENCIES: usize = 64;
const MAX_IGNORE_RULES: usize = 100;
const MAX_RETRIES: u64 = 100;

/// Checks the options of a bundle with its id.
///
/// # Errors
/// [`FieldError`] of the first field that is not valid.
pub fn check_bundle(bundle: &Bundle, has_chart_file: bool) -> Result<(), FieldError> {
    let errors = errors_of_bundle(&bundle.id, &bundle.fields, has_chart_file);
    errors.into_iter().next().map_or(Ok(()), Err)
}

/// All errors of the options of a bundle with its id, at most one for each entry of a list.
#[must_use]
pub fn errors_of_bundle(
    id: &BundleId,
    fields: &BundleFields,
    has_chart_file: bool,
) -> Vec<FieldError> {
    let mut errors = errors_of(fields, has_chart_file);
    let depends_on = Path::root("dependsOn");
    for (index, other) in fields.depends_on.iter().enumerate() {
        let path = depends_on.item(index);
        errors.add(path.require(other != id, || Problem::Itself));
    }
    let release = fields.helm.as_ref().and_then(|it| it.release.as_ref());
    if fields.kind == BundleKind::Helm && release.is_none() {
        let default = default_release(id);
        if default.len() > MAX_RELEASE_BYTES {
            let helm = Path::root("helm");
            errors.add(check_release(&helm.field("release"), default));
        }
    }
    errors.0
}

/// Checks the options of a bundle. `has_chart_file`: the content has `Chart.yaml`.
///
/// # Errors
/// [`FieldError`] of the first field that is not valid.
pub fn check_fields(fields: &BundleFields, has_chart_file: bool) -> Result<(), FieldError> {
    let errors = errors_of(fields, has_chart_file).0;
    errors.into_iter().next().map_or(Ok(()), Err)
}

/// Errors so far.
struct Errors(Vec<FieldError>);

impl Errors {
    fn add(&mut self, result: Result<(), FieldError>) {
        self.0.extend(result.err());
    }

    /// Checks the number of entries of a list, then each entry. Surplus entries are not checked.
    fn add_each<'a, T: 'a>(
        &mut self,
        path: &Path<'_>,
        (entries, limit): (&'a [T], usize),
        check: impl Fn(&Path<'_>, &'a T) -> Result<(), FieldError>,
    ) {
        self.add(path.at_most(entries.len(), limit));
        for (index, entry) in entries.iter().enumerate().take(limit) {
            self.add(check(&path.item(index), entry));
        }
    }
}

fn errors_of(fields: &BundleFields, has_chart_file: bool) -> Errors {
    let mut errors = Errors(Vec::new());
    if let Some(namespace) = &fields.namespace {
        errors.add(check_namespace(&Path::root("namespace"), namespace));
    }
    if let Some(account) = &fields.service_account {
        errors.add(check_service_account(
            &Path::root("serviceAccount"),
            account,
        ));
    }
    add_kind(&mut errors, fields, has_chart_file);
    errors.add(check_vars(&Path::root("vars"), &fields.vars));
    let patches = (fields.patches.as_slice(), MAX_PATCHES);
    errors.add_each(&Path::root("patches"), patches, |path, patch| {
        check_patch(path, patch, fields)
    });
    add_secrets(&mut errors, fields);
    add_targets(&mut errors, fields);
    add_waves(&mut errors, fields);
    let depends_on = Path::root("dependsOn");
    errors.add(depends_on.at_most(fields.depends_on.len(), MAX_DEPENDENCIES));
    let ids = fields.depends_on.iter().map(|it| it.as_str());
    errors.add(check_unique(&depends_on, ids));
    let ignore = (fields.ignore.as_slice(), MAX_IGNORE_RULES);
    errors.add_each(&Path::root("ignore"), ignore, check_ignore);
    if let Some(timeout) = fields.timeout {
        errors.add(check_range(
            &Path::root("timeout"),
            timeout.0.as_secs(),
            1,
            MAX_TIMEOUT_SECONDS,
        ));
    }
    let retries = fields.retries.unwrap_or_default();
    errors.add(check_range(
        &Path::root("retries"),
        retries.into(),
        0,
        MAX_RETRIES,
    ));
    errors
}

fn add_kind(errors: &mut Errors, fields: &BundleFields, has_chart_file: bool) {
    let chart = Path::root("chart");
    match fields.kind {
        BundleKind::Manifests => {
            let only_helm = || Problem::Kind("manifests");
            errors.add(chart.require(fields.chart.is_none(), only_helm));
            errors.add(Path::root("helm").require(fields.helm.is_none(), only_helm));
        }
        BundleKind::Helm => match &fields.chart {
            Some(own) => {
                errors.add(chart.require(!has_chart_file, || Problem::TwoCharts));
                errors.add(check_chart(&chart, own));
            }
            None => errors.add(Path::root("kind").require(has_chart_file, || Problem::NoChart)),
        },
    }
    let is_repaired = fields.kind == BundleKind::Helm && fields.drift == DriftPolicy::Repair;
    let drift = Path::root("drift");
    errors.add(drift.require(!is_repaired, || Problem::Policy("repair", "helm")));
    if let Some(helm) = &fields.helm {
        errors.add(check_helm(&Path::root("helm"), helm));
    }
}

fn check_vars(
    path: &Path<'_>,
    vars: &std::collections::BTreeMap<String, Value>,
) -> Result<(), FieldError> {
    path.at_most(vars.len(), MAX_VARS)?;
    for name in vars.keys() {
        path.require(is_variable_suffix(name), || {
            let form = "name of a variable: letters, digits and . _ - /";
            Problem::Name(name.chars().take(60).collect(), form)
        })?;
    }
    Ok(())
}

fn add_secrets(errors: &mut Errors, fields: &BundleFields) {
    let path = Path::root("secrets");
    let secrets = (fields.secrets.as_slice(), MAX_SECRETS);
    errors.add_each(&path, secrets, |path, secret| {
        check_secret(path, secret, fields)
    });
    let destinations = fields.secrets.iter().map(|it| it.destination.as_str());
    errors.add(check_unique(&path, destinations));
}

fn add_targets(errors: &mut Errors, fields: &BundleFields) {
    let path = Path::root("targets");
    let targets = (fields.targets.as_slice(), MAX_TARGETS);
    errors.add_each(&path, targets, |path, target| {
        check_target(path, target, fields)
    });
    let names = fields.targets.iter().filter_map(|it| it.name.as_deref());
    errors.add(check_unique(&path, names));
}

fn check_target(path: &Path<'_>, target: &Target, fields: &BundleFields) -> Result<(), FieldError> {
    let has_clusters =
        target.selector.is_some() || !target.groups.is_empty() || !target.clusters.is_empty();
    path.require(has_clusters, || Problem::NoClusters)?;
    let clusters = path.field("clusters");
    clusters.at_most(target.clusters.len(), MAX_TARGET_CLUSTERS)?;
    path.field("groups")
        .at_most(target.groups.len(), MAX_TARGETS)?;
    if let Some(name) = &target.name {
        path.field("name")
            .require(!name.trim().is_empty(), || Problem::Required)?;
    }
    if let Some(namespace) = &target.namespace {
        check_namespace(&path.field("namespace"), namespace)?;
    }
    let vars = path.field("vars");
    check_vars(&vars, &target.vars)?;
    for secret in &fields.secrets {
        let name = secret.destination.strip_prefix("vars.").unwrap_or_default();
        vars.require(!target.vars.contains_key(name), || {
            Problem::Duplicate(secret.destination.clone())
        })?;
    }
    let values = path.field("values");
    let has_values = fields.kind == BundleKind::Helm || target.values.is_empty();
    values.require(has_values, || Problem::Kind("manifests"))?;
    check_values(&values, target.values.values())?;
    let patches = path.field("patches");
    patches.at_most(target.patches.len(), MAX_PATCHES)?;
    for (index, patch) in target.patches.iter().enumerate() {
        check_patch(&patches.item(index), patch, fields)?;
    }
    Ok(())
}

fn add_waves(errors: &mut Errors, fields: &BundleFields) {
    let Some(rollout) = &fields.rollout else {
        return;
    };
    let root = Path::root("rollout");
    let path = root.field("waves");
    errors.add(path.at_most(rollout.waves.len(), MAX_WAVES));
    let mut takes_all = false;
    for (index, wave) in rollout.waves.iter().enumerate().take(MAX_WAVES) {
        let path = path.item(index);
        errors.add(path.require(!takes_all, || Problem::Unreachable));
        errors.add(check_wave(&path, wave));
        takes_all |= !has_rule(wave);
    }
    let names = rollout.waves.iter().map(|wave| wave.name.as_str());
    errors.add(check_unique(&path, names));
}

fn has_rule(wave: &Wave) -> bool {
    wave.count.is_some()
        || wave.percent.is_some()
        || wave.selector.is_some()
        || !wave.groups.is_empty()
}

fn check_wave(path: &Path<'_>, wave: &Wave) -> Result<(), FieldError> {
    path.field("name")
        .require(!wave.name.trim().is_empty(), || Problem::Required)?;
    let by_label = wave.selector.is_some() || !wave.groups.is_empty();
    let rules = [wave.count.is_some(), wave.percent.is_some(), by_label];
    let rules = rules.into_iter().filter(|it| *it).count();
    path.require(rules <= 1, || {
        Problem::AtMostOne("count, percent and selector with groups")
    })?;
    if let Some(count) = wave.count {
        check_range(&path.field("count"), count.into(), 1, u32::MAX.into())?;
    }
    if let Some(percent) = wave.percent {
        check_range(&path.field("percent"), percent.into(), 1, 100)?;
    }
    // With none allowed to be unavailable, nothing could be released.
    match wave.max_unavailable {
        Some(Share::Count(count)) => {
            let path = path.field("maxUnavailable");
            check_range(&path, count.into(), 1, u32::MAX.into())
        }
        Some(Share::Percent(percent)) => {
            check_range(&path.field("maxUnavailable"), percent.into(), 1, 100)
        }
        None => Ok(()),
    }
}

fn check_ignore(path: &Path<'_>, rule: &IgnoreRule) -> Result<(), FieldError> {
    let pointers = path.field("pointers");
    pointers.require(!rule.pointers.is_empty(), || Problem::Required)?;
    pointers.at_most(rule.pointers.len(), MAX_IGNORE_RULES)?;
    for (index, pointer) in rule.pointers.iter().enumerate() {
        let path = pointers.item(index);
        // The pointer to the whole object would ignore all.
        path.require(!pointer.is_empty(), || Problem::Required)?;
        check_pointer(&path, pointer)?;
    }
    Ok(())
}

fn check_unique<'a>(
    path: &Path<'_>,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), FieldError> {
    let mut known = BTreeSet::new();
    for name in names {
        path.require(known.insert(name), || Problem::Duplicate(name.to_owned()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
