//! Generations of bundles, and specs made of them.

use fairlead_api::{
    BundleId, TenantId,
    delivery::{ArtifactId, BundleFields, SpecId},
};

use crate::variables::UsedVariables;

/// Content and options of one generation of a bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// The bundle.
    pub bundle: BundleId,
    /// Tenant of the bundle.
    pub tenant: TenantId,
    /// Content.
    pub artifact: ArtifactId,
    /// Variables in the content; ignored for charts.
    pub used: UsedVariables,
    /// Options.
    pub fields: BundleFields,
}

/// A spec with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct RenderedSpec {
    /// Name of the spec.
    pub id: SpecId,
    /// Canonical JSON of the [`Spec`](fairlead_api::delivery::Spec); its SHA-256 is the name.
    pub json: Vec<u8>,
}
