//! Specs of one target.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use fairlead_api::{
    TimeSpan,
    delivery::{BundleKind, HelmOptions, SecretInput, Spec, Target},
};
use serde_json::Value;

use super::template::SpecTemplate;
use crate::{
    cluster::ClusterView,
    generation::{Generation, RenderedSpec},
    layers::{Layer, default_release},
    variables::{UsedVariables, Variable, VariableError},
};

const DEFAULT_SERVICE_ACCOUNT: &str = "deployer";
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
const DEFAULT_HOOK_TIMEOUT: Duration = Duration::from_secs(300);
const DEFAULT_RETRIES: u32 = 5;

/// A target with its merged options, and its specs by the values of the clusters' variables.
#[derive(Debug)]
pub(super) struct TargetSpecs {
    template: SpecTemplate,
    /// Variables that depend on the cluster, with true if a value is required.
    of_cluster: Vec<(String, bool)>,
    /// Variables `vars.X` with a value.
    of_bundle: BTreeMap<String, Value>,
    /// Variables `vars.X` without value and without default.
    missing: Vec<String>,
    /// By the key of [`TargetSpecs::values_of`].
    pub(super) rendered: HashMap<Vec<u8>, Result<Arc<RenderedSpec>, Vec<String>>>,
}

impl TargetSpecs {
    pub(super) fn new(generation: &Generation, target: &Target) -> Self {
        let fields = &generation.fields;
        let layer = Layer::of(fields, target);
        let mut used = UsedVariables::default();
        match fields.kind {
            // The texts of a chart are Helm's.
            BundleKind::Helm => layer.values.values().for_each(|it| used.add_value(it)),
            BundleKind::Manifests => {
                used.extend(&generation.used);
                let patches = layer.patches.iter();
                let values = patches.flat_map(|it| it.json.iter().flatten().chain(&it.merge));
                values.for_each(|it| used.add_value(it));
            }
        }
        let mut of_cluster = Vec::new();
        let mut of_bundle = BTreeMap::new();
        let mut missing = Vec::new();
        for (name, required) in &used {
            let Some(Variable::Var(suffix)) = Variable::parse(name) else {
                of_cluster.push((name.clone(), *required));
                continue;
            };
            let is_secret = |secret: &SecretInput| secret.destination == *name;
            match layer.vars.get(suffix) {
                Some(value) => drop(of_bundle.insert(name.clone(), value.clone())),
                None if *required && !fields.secrets.iter().any(is_secret) => {
                    missing.push(name.clone());
                }
                None => {}
            }
        }
        let of_manifests = match fields.kind {
            BundleKind::Helm => UsedVariables::default(),
            BundleKind::Manifests => generation.used.clone(),
        };
        TargetSpecs {
            template: SpecTemplate::new(&spec_of(generation, layer), of_manifests),
            of_cluster,
            of_bundle,
            missing,
            rendered: HashMap::new(),
        }
    }

    /// Values of the cluster's variables, in order; `key` names them without collisions.
    pub(super) fn values_of<'a>(
        &self,
        cluster: &ClusterView<'a>,
        key: &mut Vec<u8>,
    ) -> Vec<Option<Cow<'a, Value>>> {
        key.clear();
        let mut values = Vec::with_capacity(self.of_cluster.len());
        for (name, _) in &self.of_cluster {
            let value = cluster_value(cluster, name);
            match &value {
                // No JSON is a dash alone.
                None => key.push(b'-'),
                // Writes to memory cannot fail.
                Some(value) => drop(serde_json::to_writer(&mut *key, value.as_ref())),
            }
            key.push(b'\n');
            values.push(value);
        }
        values
    }

    /// Canonical JSON of the spec, or sentences about the variables without value.
    pub(super) fn render(&self, values: &[Option<Cow<'_, Value>>]) -> Result<Vec<u8>, Vec<String>> {
        let mut missing = self.missing.clone();
        let mut variables: BTreeMap<&str, &Value> = self
            .of_bundle
            .iter()
            .map(|(name, value)| (name.as_str(), value))
            .collect();
        for ((name, required), value) in self.of_cluster.iter().zip(values) {
            match value {
                Some(value) => drop(variables.insert(name, value)),
                None if *required => missing.push(name.clone()),
                None => {}
            }
        }
        if !missing.is_empty() {
            let sentence = |name| VariableError::Missing(name).to_string();
            return Err(missing.into_iter().map(sentence).collect());
        }
        let json = self.template.render(&variables);
        json.map_err(|error| vec![error.to_string()])
    }
}

/// The spec of a target, with defaults and before any replacement.
fn spec_of(generation: &Generation, layer: Layer) -> Spec {
    let fields = &generation.fields;
    let helm = (fields.kind == BundleKind::Helm).then(|| {
        let own = fields.helm.clone().unwrap_or_default();
        let release = own.release.clone();
        let release = release.unwrap_or_else(|| default_release(&generation.bundle).to_owned());
        HelmOptions {
            release: Some(release),
            values: layer.values,
            timeout: Some(own.timeout.unwrap_or(TimeSpan(DEFAULT_HOOK_TIMEOUT))),
            ..own
        }
    });
    let account = fields.service_account.as_deref();
    Spec {
        bundle: generation.bundle.clone(),
        tenant: generation.tenant.clone(),
        kind: fields.kind,
        artifact: generation.artifact.clone(),
        namespace: layer.namespace,
        service_account: account.unwrap_or(DEFAULT_SERVICE_ACCOUNT).to_owned(),
        helm,
        variables: BTreeMap::new(),
        patches: layer.patches,
        secrets: fields.secrets.clone(),
        depends_on: fields.depends_on.clone(),
        drift: fields.drift,
        ignore: fields.ignore.clone(),
        conflicts: fields.conflicts,
        adopt: fields.adopt,
        prune: fields.prune.unwrap_or(true),
        timeout_seconds: fields.timeout.map_or(DEFAULT_TIMEOUT, |it| it.0).as_secs(),
        retries: fields.retries.unwrap_or(DEFAULT_RETRIES),
    }
}

fn cluster_value<'a>(cluster: &ClusterView<'a>, name: &str) -> Option<Cow<'a, Value>> {
    let text = |text: &str| Some(Cow::Owned(Value::from(text)));
    match Variable::parse(name)? {
        Variable::ClusterId => text(cluster.id.as_str()),
        Variable::ClusterName => text(cluster.name),
        Variable::ClusterTenant => text(cluster.tenant.as_str()),
        Variable::Fact(name) => (cluster.fact)(name),
        Variable::Annotation(name) => text(&(cluster.annotation)(name)?),
        Variable::Var(_) => None,
    }
}
