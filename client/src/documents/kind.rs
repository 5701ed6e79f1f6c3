//! Kinds of documents: their paths, ids, and the fields that only the hub writes.

use fairlead_api::{BundleId, ClusterId, GroupId, SourceId, TenantId};

use super::{InvalidDocument, invalid};

/// Fields that only the hub, agents and Commodore write. They are ignored in files, so that the output of `-o yaml` can be applied.
const REGISTRY_FIELDS: [&str; 13] = [
    "created",
    "version",
    "status",
    "uid",
    "clone",
    "enrolled",
    "installURL",
    "agentInstallURL",
    "join",
    "expires",
    "dynamicFacts",
    "staleFacts",
    "compileMeta",
];

/// Kind of a document, in the order in which documents need each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DocumentKind {
    /// Tenant, at `/tenants`.
    Tenant,
    /// Cluster, at `/clusters`.
    Cluster,
    /// Group of clusters, at `/v1/groups`.
    Group,
    /// Git repository, at `/v1/sources`.
    Source,
    /// Bundle, at `/v1/bundles`.
    Bundle,
}

impl DocumentKind {
    /// All kinds.
    pub const ALL: [DocumentKind; 5] = [
        DocumentKind::Tenant,
        DocumentKind::Cluster,
        DocumentKind::Group,
        DocumentKind::Source,
        DocumentKind::Bundle,
    ];

    /// Word of the field `kind`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            DocumentKind::Tenant => "Tenant",
            DocumentKind::Cluster => "Cluster",
            DocumentKind::Group => "Group",
            DocumentKind::Source => "Source",
            DocumentKind::Bundle => "Bundle",
        }
    }

    /// Path of the collection in the API.
    #[must_use]
    pub const fn collection(self) -> &'static str {
        match self {
            DocumentKind::Tenant => "/tenants",
            DocumentKind::Cluster => "/clusters",
            DocumentKind::Group => "/v1/groups",
            DocumentKind::Source => "/v1/sources",
            DocumentKind::Bundle => "/v1/bundles",
        }
    }

    /// True if the hub takes a merge patch; else only PUT of the whole.
    pub(super) const fn takes_patch(self) -> bool {
        matches!(self, DocumentKind::Tenant | DocumentKind::Cluster)
    }

    /// True if the documents have the field `tenant`.
    pub(super) const fn has_tenant(self) -> bool {
        !matches!(self, DocumentKind::Tenant)
    }

    /// Fields that people do not write.
    pub(super) const fn managed_fields(self) -> &'static [&'static str] {
        match self {
            DocumentKind::Tenant | DocumentKind::Cluster => &REGISTRY_FIELDS,
            DocumentKind::Group => &["members"],
            DocumentKind::Source => &[
                "commit",
                "artifacts",
                "since",
                "syncing",
                "nextPoll",
                "reason",
                "code",
            ],
            DocumentKind::Bundle => &[
                "generation",
                "orphaned",
                "deleting",
                "suspendedIn",
                "removals",
                "generations",
            ],
        }
    }

    /// Kind of an id, by its prefix.
    pub(super) fn of_id(id: &str) -> Option<DocumentKind> {
        match id.split_once('-') {
            Some(("t", _)) => Some(DocumentKind::Tenant),
            Some(("c", _)) => Some(DocumentKind::Cluster),
            Some(("g", _)) => Some(DocumentKind::Group),
            Some(("s", _)) => Some(DocumentKind::Source),
            Some(("b", _)) => Some(DocumentKind::Bundle),
            _ => None,
        }
    }

    pub(super) fn of_word(word: &str) -> Option<DocumentKind> {
        DocumentKind::ALL.into_iter().find(|it| it.word() == word)
    }

    /// The id with its prefix.
    pub(super) fn whole_id(self, id: &str) -> Result<String, InvalidDocument> {
        let whole = match self {
            DocumentKind::Tenant => TenantId::from_name(id).map(|id| id.to_string()),
            DocumentKind::Cluster => ClusterId::from_name(id).map(|id| id.to_string()),
            DocumentKind::Group => GroupId::from_name(id).map(|id| id.to_string()),
            DocumentKind::Source => SourceId::from_name(id).map(|id| id.to_string()),
            DocumentKind::Bundle => BundleId::from_name(id).map(|id| id.to_string()),
        };
        whole.map_err(|error| invalid(format_args!("id: {error}")))
    }
}
