//! Desired state of one cluster, as the hub computes it and the agent pulls it.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::bundle::{
    BundleKind, ConflictPolicy, DriftPolicy, HelmOptions, IgnoreRule, Patch, SecretInput,
};
use crate::{BundleId, TenantId, checked_text::checked_text, schema::text_schema};

/// Error of parsing a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a digest is `sha256:` and 64 hexadecimal digits in lower case")]
pub struct DigestError;

fn parse(text: &str) -> Result<Arc<str>, DigestError> {
    let digits = text.strip_prefix("sha256:").ok_or(DigestError)?;
    let is_digit = |it: u8| matches!(it, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 64 || !digits.bytes().all(is_digit) {
        return Err(DigestError);
    }
    Ok(text.into())
}

macro_rules! digest {
    ($(#[$doc:meta])* $name:ident) => {
        checked_text!($(#[$doc])* $name, DigestError, parse);

        impl $name {
            /// Makes the name of the SHA-256 of the content.
            #[must_use]
            pub fn of_sha256(digest: &[u8; 32]) -> Self {
                Self(format!("sha256:{}", crate::hex::encode(digest)).into())
            }
        }

        text_schema!($name, "^sha256:[0-9a-f]{64}$", 71);
    };
}

digest!(
    /// Name of an artifact: digest of its canonical tar, like `sha256:9f86…`.
    ArtifactId
);
digest!(
    /// Name of a [`Spec`]: digest of its JSON, like `sha256:9f86…`.
    SpecId
);
digest!(
    /// Name of the removals of a [`Plan`](super::Plan), like `sha256:9f86…`.
    PlanHash
);

/// Content and options of one bundle in one cluster. Clusters with the same content share a spec.
///
/// The id is the digest of the JSON. A new field must be absent at its default, so that known specs keep their ids.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The bundle.
    pub bundle: BundleId,
    /// Tenant of the bundle.
    pub tenant: TenantId,
    /// Way of delivery.
    pub kind: BundleKind,
    /// Files of the bundle.
    pub artifact: ArtifactId,
    /// Namespace of objects without one, and of the release.
    pub namespace: String,
    /// `NAME` in `fairlead-delivery`, or `NAMESPACE/NAME`.
    pub service_account: String,
    /// Options of a Helm release, with values of the target merged and variables replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmOptions>,
    /// Values of the variables of manifests, by full name, like `vars.replicas` or `cluster.id`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Object>)]
    pub variables: BTreeMap<String, Value>,
    /// Changes of objects, in order, with variables replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Patch>,
    /// Secrets of the cluster that go into values or objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretInput>,
    /// Bundles that must be ready in the same cluster first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<BundleId>,
    /// Reaction to changes by others.
    pub drift: DriftPolicy,
    /// Fields that others may change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<IgnoreRule>,
    /// Reaction to fields of other managers.
    pub conflicts: ConflictPolicy,
    /// True: objects of a Helm release or of another bundle are taken over.
    #[serde(default)]
    pub adopt: bool,
    /// True: objects missing in the artifact are deleted.
    pub prune: bool,
    /// Time to become ready.
    pub timeout_seconds: u64,
    /// Number of retries of a failed run.
    pub retries: u32,
}

/// Bundles of one cluster: answer to `GET /agent/v1/delivery`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DesiredState {
    /// Released bundles and tombstones, ordered by id. A missing bundle is not removed.
    pub bundles: Vec<DesiredBundle>,
    /// Number of commands that wait to be claimed.
    pub commands: u32,
}

/// A bundle in a [`DesiredState`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DesiredBundle {
    /// The bundle.
    pub bundle: BundleId,
    /// Released generation.
    pub generation: u64,
    /// Content; missing in a tombstone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<SpecId>,
    /// Tombstone: objects of the bundle, up to this generation, are deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remove: bool,
    /// True: drift correction and retries pause.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_sha256_in_lower_case() {
        let id = ArtifactId::of_sha256(&[0xab; 32]);
        assert_eq!(id.as_str(), format!("sha256:{}", "ab".repeat(32)));
        assert_eq!(id.as_str().parse::<ArtifactId>().unwrap(), id);
        for bad in [
            "",
            "sha256:",
            &"ab".repeat(32),
            &format!("sha256:{}", "AB".repeat(32)),
            &format!("sha256:{}", "ab".repeat(31)),
            &format!("sha512:{}", "ab".repeat(32)),
        ] {
            assert!(bad.parse::<SpecId>().is_err(), "{bad:?} must be refused");
        }
    }
}
