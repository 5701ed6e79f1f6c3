//! Bundles: content, options, and the clusters that get it.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::spec::ArtifactId;
use crate::{
    BundleId, ClusterId, GroupId, Selector, SourceId, TenantId, TimeSpan, schema::text_schema,
};

/// A bundle of manifests, or a Helm chart, and its targets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bundle {
    /// Id of the bundle.
    pub id: BundleId,
    /// Targets are clusters of this tenant and of its sub-tenants.
    pub tenant: TenantId,
    /// Source of the content; missing for uploaded content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceId>,
    /// Folder of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactId>,
    /// Number of the content and options; it never decreases.
    #[serde(default)]
    #[schema(read_only)]
    pub generation: u64,
    /// True: nothing is released, corrected or retried.
    #[serde(default)]
    pub suspended: bool,
    /// True: the folder was deleted from its source.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(read_only)]
    pub orphaned: bool,
    /// Options.
    #[serde(flatten)]
    pub fields: BundleFields,
}

/// Options of a bundle: the content of `fairlead.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BundleFields {
    /// Way of delivery.
    pub kind: BundleKind,
    /// Namespace of objects without one, and of the release; default `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `NAME` in `fairlead-delivery`, or `NAMESPACE/NAME`; default `deployer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// Chart from a repository, for a folder without `Chart.yaml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<Chart>,
    /// Options of the Helm release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmOptions>,
    /// Variables `${vars.NAME}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Object>)]
    pub vars: BTreeMap<String, Value>,
    /// Changes of objects, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Patch>,
    /// Secrets of the cluster that go into values or objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretInput>,
    /// Targets; the first match of a cluster wins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
    /// Rules of rollouts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutRules>,
    /// Bundles that must be ready in the same cluster first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<BundleId>,
    /// Reaction to changes by others.
    pub drift: DriftPolicy,
    /// Fields that others may change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<IgnoreRule>,
    /// Reaction to fields of other managers.
    pub conflicts: ConflictPolicy,
    /// True: objects of a Helm release or of another bundle are taken over.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub adopt: bool,
    /// False: objects missing in new content are kept; default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prune: Option<bool>,
    /// Objects of a cluster that is targeted no longer.
    pub on_untarget: UntargetPolicy,
    /// Time to become ready; default 10m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeSpan>,
    /// Number of retries of a failed run; default 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $text)] $variant,)* }

        impl $name {
            /// The name in JSON.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

choice!(
    /// Way of delivery.
    BundleKind {
        /// Kubernetes manifests, by server-side apply.
        #[default]
        Manifests = "manifests",
        /// A Helm chart, by `helm upgrade --install`.
        Helm = "helm",
    }
);
choice!(
    /// Reaction to changes of objects by others.
    DriftPolicy {
        /// Shows and corrects them.
        #[default]
        Correct = "correct",
        /// Shows them.
        Report = "report",
        /// Does not look.
        Ignore = "ignore",
        /// Corrects changes by people and programs, accepts those of a GitOps tool of itself, and returns to the last state
        /// with which the tool worked.
        Repair = "repair",
    }
);
choice!(
    /// Reaction to a field that another manager holds.
    ConflictPolicy {
        /// The run fails, and its reason names field and manager.
        #[default]
        Fail = "fail",
        /// Takes the field over.
        Force = "force",
    }
);
choice!(
    /// Objects of a cluster that a bundle targets no longer.
    UntargetPolicy {
        /// The objects stay.
        #[default]
        Keep = "keep",
        /// The objects are deleted.
        Remove = "remove",
    }
);
choice!(
    /// Custom resource definitions in the folder `crds` of a chart.
    CrdPolicy {
        /// Missing ones are created.
        #[default]
        Create = "create",
        /// All are applied.
        Replace = "replace",
        /// None is touched.
        Skip = "skip",
    }
);
choice!(
    /// Reaction to a failed upgrade of a release.
    HelmFailure {
        /// The failed revision stays.
        #[default]
        Keep = "keep",
        /// `helm rollback` to the last good revision.
        Rollback = "rollback",
    }
);

/// A chart in a repository or an OCI registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Chart {
    /// URL of a chart repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// `oci://` reference without version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oci: Option<String>,
    /// Name of the chart in its repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Version.
    pub version: String,
}

/// Options of a Helm release.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HelmOptions {
    /// Name of the release; default: the bundle's id without prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Values.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub values: Map<String, Value>,
    /// Time for hooks; default 5m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeSpan>,
    /// True: objects of others become part of the release.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub take_ownership: bool,
    /// Custom resource definitions of the chart.
    pub crds: CrdPolicy,
    /// Reaction to a failed upgrade.
    pub on_failure: HelmFailure,
}

/// Selects objects of a bundle. Missing fields match all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ObjectTarget {
    /// Kind, like `Deployment`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// API group; `""` for the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A change of the selected objects: exactly one of `json` and `merge`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// Selected objects; a patch without any is an error.
    #[serde(default)]
    pub target: ObjectTarget,
    /// JSON patch (RFC 6902).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub json: Option<Vec<Value>>,
    /// JSON merge patch (RFC 7396).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub merge: Option<Value>,
}

/// A value of a Secret in the cluster, put into the delivery there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretInput {
    /// Namespace of the Secret; default: that of the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the Secret.
    pub name: String,
    /// Key in the Secret.
    pub key: String,
    /// `values.PATH` of a release, or `vars.NAME` for `Secret` objects.
    #[serde(rename = "as")]
    pub destination: String,
}

/// Fields of objects that others may change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IgnoreRule {
    /// Kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// API group; `""` for the core group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Fields as JSON pointers (RFC 6901), like `/spec/replicas`.
    pub pointers: Vec<String>,
}

/// Clusters, and changes of the bundle for them. A cluster matches if its labels match the selector, or if it is a member of a group,
/// or if it is named.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Target {
    /// Name of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels of the clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// Groups of clusters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupId>,
    /// Clusters by id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterId>,
    /// True: these clusters do not get the bundle.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skip: bool,
    /// Namespace instead of the bundle's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Variables, over those of the bundle.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Object>)]
    pub vars: BTreeMap<String, Value>,
    /// Values of a release, merged into those of the bundle: maps deeply, lists replaced, `null` removes.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub values: Map<String, Value>,
    /// Further patches, after those of the bundle.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Patch>,
}

/// Rules of the rollouts of a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RolloutRules {
    /// Waves, in order. Other clusters form a last one.
    pub waves: Vec<Wave>,
}

/// A wave: at most one of `count`, `percent`, `selector` with `groups`; without any, all other clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Wave {
    /// Name of the wave.
    pub name: String,
    /// Number of clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Percentage of all clusters of the bundle, 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// Labels of the clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// Groups of clusters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupId>,
    /// Released and not ready clusters at the same time; default 25%.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Share>,
    /// Tolerated failures; more halt the rollout; default 10%.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_failures: Option<Share>,
    /// Time that all clusters must be ready before the next wave; default 0s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak: Option<TimeSpan>,
}

/// Error of parsing a [`Share`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a number, or a percentage from 0% to 100%")]
pub struct ShareError;

/// A number of clusters, or a percentage of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum Share {
    /// Clusters.
    Count(u32),
    /// Percentage, 0 to 100.
    Percent(u8),
}

text_schema!(Share, "^([0-9]+|(100|[0-9]{1,2})%)$", 10);

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let Some(percent) = text.strip_suffix('%') else {
            return text.parse().map(Share::Count).map_err(|_| ShareError);
        };
        match percent.parse() {
            Ok(percent @ 0..=100) => Ok(Share::Percent(percent)),
            _ => Err(ShareError),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Share::Count(count) => write!(f, "{count}"),
            Share::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl TryFrom<Value> for Share {
    type Error = ShareError;

    fn try_from(value: Value) -> Result<Self, ShareError> {
        match &value {
            Value::String(text) => text.parse(),
            Value::Number(number) => {
                let count = number.as_u64().and_then(|it| it.try_into().ok());
                count.map(Share::Count).ok_or(ShareError)
            }
            _ => Err(ShareError),
        }
    }
}

impl From<Share> for Value {
    fn from(share: Share) -> Value {
        match share {
            Share::Count(count) => count.into(),
            Share::Percent(percent) => format!("{percent}%").into(),
        }
    }
}

#[cfg(test)]
mod tests;
