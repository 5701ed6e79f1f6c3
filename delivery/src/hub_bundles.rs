//! Bundles that only the hub makes: one for each catalog, and one for each GitOps tool that it installs. Each has one
//! cluster. In paths below that cluster they have short names.

use fairlead_api::{
    BundleId, ClusterId, Code, Failure, IdError,
    delivery::{BundleFields, Target},
};
use fairlead_store::model::{BundleRecord, Generation, hex};

/// Length of a digest in the place of a long id.
const DIGEST_CHARS: usize = 40;

/// Content of a bundle of the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HubBundle {
    /// Catalog of the cluster.
    Catalog,
    /// GitOps tool of the cluster.
    Tool,
}

impl HubBundle {
    const ALL: [HubBundle; 2] = [HubBundle::Catalog, HubBundle::Tool];

    /// Name in paths below the cluster.
    const fn name(self) -> &'static str {
        match self {
            HubBundle::Catalog => "b-catalog",
            HubBundle::Tool => "b-gitops",
        }
    }

    /// Id for a cluster: with the id of the cluster, or with its digest if that is too long.
    pub(crate) fn id_of(self, cluster: &ClusterId) -> Result<BundleId, IdError> {
        let name = self.name();
        let named = format!("{name}-{cluster}").parse();
        named.or_else(|_| {
            let digest: String = hex::hash_of(cluster).chars().take(DIGEST_CHARS).collect();
            format!("{name}-{digest}").parse()
        })
    }

    fn of(id: &BundleId) -> Option<Self> {
        let rest = |it: &HubBundle| id.as_str().strip_prefix(it.name());
        let has_name =
            |it: &HubBundle| rest(it).is_some_and(|it| it.is_empty() || it.starts_with('-'));
        Self::ALL.into_iter().find(has_name)
    }
}

/// The bundle with this name in a path below a cluster: one of the hub's, or any other one.
pub(crate) fn named(cluster: &ClusterId, name: &str) -> Option<BundleId> {
    match HubBundle::ALL.into_iter().find(|it| it.name() == name) {
        Some(of_hub) => of_hub.id_of(cluster).ok(),
        None => name.parse().ok(),
    }
}

/// True for names that only the hub gives.
pub(crate) fn is_reserved(id: &BundleId) -> bool {
    HubBundle::of(id).is_some()
}

/// Refuses changes of people to content and targets, with the same words for bundles that they do not see.
///
/// # Errors
/// `FL-6112`, `FL-6113`
pub(crate) fn refuse(id: &BundleId) -> Result<(), Failure> {
    let code = match HubBundle::of(id) {
        None => return Ok(()),
        Some(HubBundle::Catalog) => Code::CatalogBundle,
        Some(HubBundle::Tool) => Code::ToolBundle,
    };
    Err(Failure::because(code, id))
}

/// Options with this cluster as the only target.
pub(crate) fn fields_of(cluster: &ClusterId) -> BundleFields {
    BundleFields {
        targets: vec![Target {
            clusters: vec![cluster.clone()],
            ..Target::default()
        }],
        ..BundleFields::default()
    }
}

/// Adds the generation, unless the newest one is equal. The tenant is part of each spec.
pub(crate) fn push(bundle: &mut BundleRecord, has_moved: bool, generation: &Generation) {
    let is_same = bundle
        .newest()
        .is_some_and(|it| it.artifact == generation.artifact && it.options == generation.options);
    if !is_same || has_moved {
        bundle.push(generation.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_id_of_a_cluster_gives_a_valid_one_of_a_bundle() {
        let long: ClusterId = format!("c-{}", "x".repeat(61)).parse().unwrap();
        let short: ClusterId = "c-1".parse().unwrap();
        for name in ["b-catalog", "b-gitops"] {
            let id = named(&long, name).unwrap();
            assert!(id.as_str().starts_with(&format!("{name}-")), "{id}");
            assert_ne!(named(&short, name), Some(id));
        }
        let other: BundleId = "b-shop".parse().unwrap();
        assert_eq!(named(&long, "b-shop"), Some(other));
    }

    #[test]
    fn names_of_the_hub_are_reserved() {
        let refused = |id: &str| {
            let refused = refuse(&id.parse().unwrap());
            refused.err().map(|failure| failure.code)
        };
        assert_eq!(refused("b-catalog-c-1"), Some(Code::CatalogBundle));
        assert_eq!(refused("b-gitops"), Some(Code::ToolBundle));
        assert_eq!(refused("b-gitopsy"), None);
        assert!(is_reserved(&"b-gitops-c-1".parse().unwrap()));
    }
}
