//! Specs of clusters: one for each distinct content, however many clusters share it.

mod target;
mod template;

use std::{collections::HashMap, sync::Arc};

use fairlead_api::delivery::SpecId;

use self::target::TargetSpecs;
use crate::{
    canonical::sha256,
    cluster::ClusterView,
    generation::{Generation, RenderedSpec},
    targets::{Choice, choose},
};

/// What a cluster gets of a bundle.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The cluster is of another tenant, or no target matches.
    Unmatched,
    /// A target excludes the cluster.
    Skipped {
        /// Index of the target.
        target: usize,
    },
    /// The spec cannot be made for this cluster.
    Blocked {
        /// Index of the target.
        target: usize,
        /// One sentence for each cause, most often a variable without value.
        reasons: Vec<String>,
    },
    /// The cluster gets a spec.
    Spec {
        /// Index of the target.
        target: usize,
        /// The spec, shared with clusters of equal content.
        spec: Arc<RenderedSpec>,
    },
}

impl Outcome {
    /// Name of the spec, if the cluster gets one.
    #[must_use]
    pub fn spec_id(&self) -> Option<&SpecId> {
        match self {
            Outcome::Spec { spec, .. } => Some(&spec.id),
            Outcome::Unmatched | Outcome::Skipped { .. } | Outcome::Blocked { .. } => None,
        }
    }

    /// True if the cluster is targeted.
    #[must_use]
    pub const fn is_targeted(&self) -> bool {
        matches!(self, Outcome::Spec { .. } | Outcome::Blocked { .. })
    }
}

/// Makes the specs of one generation. Clusters of a target with equal variables are rendered once.
///
/// It holds all specs that it made. A bundle that uses `${cluster.id}` has one for each cluster.
#[derive(Debug)]
pub struct Renderer {
    generation: Generation,
    /// By index of the target.
    targets: Vec<TargetSpecs>,
    specs: HashMap<SpecId, Arc<RenderedSpec>>,
    /// Values of variables of the current cluster; kept for its memory.
    key: Vec<u8>,
}

impl Renderer {
    /// Merges the options of all targets.
    #[must_use]
    pub fn new(generation: Generation) -> Self {
        let fields = &generation.fields;
        let targets = fields.targets.iter();
        let targets = targets.map(|target| TargetSpecs::new(&generation, target));
        Renderer {
            targets: targets.collect(),
            generation,
            specs: HashMap::new(),
            key: Vec::new(),
        }
    }

    /// The generation.
    #[must_use]
    pub const fn generation(&self) -> &Generation {
        &self.generation
    }

    /// Specs that were made so far.
    pub fn specs(&self) -> impl Iterator<Item = &Arc<RenderedSpec>> {
        self.specs.values()
    }

    /// Chooses the target of a cluster and makes the spec.
    pub fn render(&mut self, cluster: &ClusterView<'_>) -> Outcome {
        if !(cluster.is_below)(&self.generation.tenant) {
            return Outcome::Unmatched;
        }
        let target = match choose(&self.generation.fields.targets, cluster) {
            Choice::Unmatched => return Outcome::Unmatched,
            Choice::Skipped(target) => return Outcome::Skipped { target },
            Choice::Target(target) => target,
        };
        let Some(specs) = self.targets.get_mut(target) else {
            return Outcome::Unmatched;
        };
        let values = specs.values_of(cluster, &mut self.key);
        let result = specs.rendered.get(&self.key).cloned();
        let result = result.unwrap_or_else(|| {
            let result = specs.render(&values).map(|json| {
                let id = SpecId::of_sha256(&sha256(&json));
                let made = self.specs.entry(id.clone());
                Arc::clone(made.or_insert_with(|| Arc::new(RenderedSpec { id, json })))
            });
            specs.rendered.insert(self.key.clone(), result.clone());
            result
        });
        match result {
            Ok(spec) => Outcome::Spec { target, spec },
            Err(reasons) => Outcome::Blocked { target, reasons },
        }
    }
}

#[cfg(test)]
mod tests;
