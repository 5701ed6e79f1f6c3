//! Name and namespace of the release of a bundle.

use std::fmt;

use fairlead_api::{BundleId, delivery::Spec};
use fairlead_runner::{NameError, Namespace, ReleaseName};

/// Release of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseTarget {
    /// Name.
    pub name: ReleaseName,
    /// Namespace of the release, and of objects without one.
    pub namespace: Namespace,
}

impl ReleaseTarget {
    /// Release of a spec; without a name of its own it has the bundle's id without prefix.
    ///
    /// # Errors
    /// The name is too long, or has other characters than Helm allows.
    pub fn of(spec: &Spec) -> Result<Self, NameError> {
        let given = spec.helm.as_ref().and_then(|helm| helm.release.as_deref());
        Ok(Self {
            name: given
                .unwrap_or_else(|| default_name(&spec.bundle))
                .parse()?,
            namespace: spec.namespace.parse()?,
        })
    }

    /// Path of the Secrets of the namespace, among them the records of the release.
    pub(crate) fn secrets_path(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.namespace)
    }
}

/// Namespace and name, like `Helm release shop/web`.
impl fmt::Display for ReleaseTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Helm release {}/{}", self.namespace, self.name)
    }
}

fn default_name(bundle: &BundleId) -> &str {
    let id = bundle.as_str();
    id.strip_prefix(BundleId::PREFIX).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::{super::testing, *};

    #[test]
    fn release_is_named_by_the_bundle_unless_it_has_a_name() {
        let mut spec = testing::spec();
        let target = ReleaseTarget::of(&spec).unwrap();
        assert_eq!(target.to_string(), "Helm release shop/web");
        assert_eq!(target.secrets_path(), "/api/v1/namespaces/shop/secrets");
        spec.helm = Some(fairlead_api::delivery::HelmOptions {
            release: Some("front".to_owned()),
            ..Default::default()
        });
        assert_eq!(ReleaseTarget::of(&spec).unwrap().name.as_str(), "front");
        spec.bundle = format!("b-{}", "x".repeat(60)).parse().unwrap();
        spec.helm = None;
        assert!(ReleaseTarget::of(&spec).is_err());
    }
}
