//! All HTTP routes for people with their parameters and responses. One test calls each of them,
//! another compares this table with Lieutenant's document.

/// One method of one path.
pub(super) struct RouteSpec {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// Operation id; Lieutenant's if it has one.
    pub(super) id: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    /// Query parameters.
    pub(super) query: &'static [&'static str],
    /// Content type and schema.
    pub(super) body: Option<(&'static str, &'static str)>,
    /// Status, schema, and cardinality. Failures are added to every route.
    pub(super) answers: &'static [(u16, ResponseBody)],
    /// Requires no authentication.
    pub(super) open: bool,
    /// Changes a versioned resource and honours `If-Match`.
    pub(super) honours_precondition: bool,
}

#[derive(Clone, Copy)]
pub(super) enum ResponseBody {
    Nothing,
    Json(&'static str),
    List(&'static str),
    Text(&'static str),
}

use ResponseBody::{Json, List, Nothing, Text};

pub(super) const JSON: &str = "application/json";
pub(super) const MERGE: &str = "application/merge-patch+json";

const PAGE: [&str; 2] = ["limit", "cursor"];
const CLUSTERS: &[&str] = &[
    "tenant", "sort_by", "fact", "selector", "stale", "status", "text", PAGE[0], PAGE[1],
];
const TENANTS: &[&str] = &["tenant", "sort_by", "selector", "text", PAGE[0], PAGE[1]];
/// Lists of resources that belong to tenants.
const OWNED: &[&str] = &["tenant", "text", PAGE[0], PAGE[1]];
const COMPILED: &[&str] = &[
    "component",
    "below",
    "staleDays",
    "tenant",
    "text",
    PAGE[0],
    PAGE[1],
];
const FIND: &[&str] = &["host", "version", "service", "fact", PAGE[0], PAGE[1]];

const fn route(
    method: &'static str,
    path: &'static str,
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
) -> RouteSpec {
    RouteSpec {
        method,
        path,
        id,
        tag,
        summary,
        query: &[],
        body: None,
        answers: &[],
        open: false,
        honours_precondition: false,
    }
}

impl RouteSpec {
    const fn open(mut self) -> Self {
        self.open = true;
        self
    }

    const fn honours_if_match(mut self) -> Self {
        self.honours_precondition = true;
        self
    }

    const fn query(mut self, query: &'static [&'static str]) -> Self {
        self.query = query;
        self
    }

    const fn takes(mut self, schema: &'static str) -> Self {
        self.body = Some((JSON, schema));
        self
    }

    const fn merges(mut self, schema: &'static str) -> Self {
        self.body = Some((MERGE, schema));
        self
    }

    const fn gives(mut self, answers: &'static [(u16, ResponseBody)]) -> Self {
        self.answers = answers;
        self
    }
}

#[rustfmt::skip]
pub(super) const ROUTES: &[RouteSpec] = &[
    route("get", "/", "discovery", "system", "What this API is, and where to log in").open().gives(&[(200, Json("Metadata"))]),
    route("get", "/healthz", "healthz", "system", "Whether the hub answers").open().gives(&[(200, Text("text/plain"))]),
    route("get", "/openapi.json", "openapi", "system", "This document").open().gives(&[(200, Json("Any"))]),
    route("get", "/docs", "docs", "system", "This document, to be read and tried").open().gives(&[(200, Text("text/html"))]),
    route("get", "/v1/hub", "getHub", "system", "What a kubeconfig needs to know of the hub").gives(&[(200, Json("HubInfo"))]),
    route("get", "/v1/whoami", "whoAmI", "system", "Who the token stands for, here and in clusters").gives(&[(200, Json("WhoAmI"))]),

    route("get", "/tenants", "listTenants", "tenant", "The tenants that the caller may see").query(TENANTS).gives(&[(200, List("Tenant"))]),
    route("post", "/tenants", "createTenant", "tenant", "Make a tenant").takes("Tenant").gives(&[(201, Json("Tenant"))]),
    route("get", "/tenants/{tenantId}", "getTenant", "tenant", "One tenant").gives(&[(200, Json("Tenant"))]),
    route("put", "/tenants/{tenantId}", "putTenant", "tenant", "Make or replace a tenant").takes("Tenant").query(&["dryRun"]).honours_if_match().gives(&[(200, Json("Tenant")), (201, Json("Tenant"))]),
    route("patch", "/tenants/{tenantId}", "updateTenant", "tenant", "Change a tenant (RFC 7396)").merges("Tenant").query(&["dryRun"]).honours_if_match().gives(&[(200, Json("Tenant"))]),
    route("delete", "/tenants/{tenantId}", "deleteTenant", "tenant", "Delete a tenant").query(&["cascade"]).honours_if_match().gives(&[(204, Nothing)]),

    route("get", "/clusters", "listClusters", "cluster", "The clusters that the caller may see").query(CLUSTERS).gives(&[(200, List("Cluster"))]),
    route("post", "/clusters", "createCluster", "cluster", "Register a cluster").takes("CreateCluster").query(&["uniqueName"]).gives(&[(201, Json("CreatedCluster"))]),
    route("get", "/clusters/{clusterId}", "getCluster", "cluster", "One cluster").gives(&[(200, Json("Cluster"))]),
    route("put", "/clusters/{clusterId}", "putCluster", "cluster", "Register or replace a cluster").takes("CreateCluster").query(&["dryRun", "withoutBootstrapToken"]).honours_if_match().gives(&[(200, Json("Cluster")), (201, Json("CreatedCluster"))]),
    route("patch", "/clusters/{clusterId}", "updateCluster", "cluster", "Change a cluster (RFC 7396)").merges("Cluster").query(&["dryRun"]).honours_if_match().gives(&[(200, Json("Cluster"))]),
    route("delete", "/clusters/{clusterId}", "deleteCluster", "cluster", "Delete a cluster").honours_if_match().gives(&[(204, Nothing)]),
    route("post", "/clusters/{clusterId}/compileMeta", "postClusterCompileMeta", "cluster", "Write down what was compiled").takes("CompileMeta").honours_if_match().gives(&[(204, Nothing)]),
    route("get", "/v1/compile-meta", "findCompileMeta", "cluster", "Clusters that run a component below a version, or were not compiled for days").query(COMPILED).gives(&[(200, Json("CompiledComponents"))]),
    route("get", "/v1/clusters/{clusterId}/status", "getClusterStatus", "cluster", "How it stands with a cluster, as the last probe has found").gives(&[(200, Json("ClusterStatus"))]),
    route("get", "/v1/status", "watchStatus", "cluster", "How it stands with clusters, as that changes, by long poll or, with `Accept: text/event-stream`, as events").query(&["since", "wait"]).gives(&[(200, Json("ClusterStatusUpdate"))]),
    route("get", "/v1/clusters/{clusterId}/sessions", "getClusterSessions", "cluster", "The agents' sessions that serve on this hub").gives(&[(200, Json("Sessions"))]),
    route("get", "/v1/clusters/{clusterId}/effective", "getClusterEffective", "cluster", "Each value with where it is from").gives(&[(200, Json("Effective"))]),
    route("post", "/v1/clusters/{clusterId}/tenant", "moveCluster", "cluster", "Move a cluster to another tenant; its agent enrols anew").takes("MoveCluster").honours_if_match().gives(&[(200, Json("JoinInfo"))]),
    route("get", "/v1/clusters/{clusterId}/catalog", "getCatalog", "cluster", "What should be in a cluster").gives(&[(200, Json("Catalog"))]),
    route("put", "/v1/clusters/{clusterId}/catalog", "putCatalog", "cluster", "Say what should be in a cluster").takes("Catalog").honours_if_match().gives(&[(200, Json("Catalog"))]),

    route("get", "/install/steward.json", "installSteward", "bootstrapping", "Steward's manifests, for a bootstrap token that is spent for them").open().query(&["token"]).gives(&[(200, Json("Any"))]),
    route("get", "/install/agent.yaml", "installAgent", "bootstrapping", "Our agent's manifest, for a bootstrap token that the agent spends").open().query(&["token"]).gives(&[(200, Text("application/yaml"))]),
    route("get", "/v1/bootstrap-tokens", "listBootstrapTokens", "bootstrapping", "Bootstrap tokens with their state and who made them").query(OWNED).gives(&[(200, Json("BootstrapTokens"))]),
    route("get", "/v1/clusters/{clusterId}/bootstrap-token", "getBootstrapToken", "bootstrapping", "The bootstrap token again, while it is valid").gives(&[(200, Json("JoinInfo"))]),
    route("post", "/v1/clusters/{clusterId}/bootstrap-token", "renewBootstrapToken", "bootstrapping", "A new bootstrap token; the older one dies").gives(&[(201, Json("JoinInfo"))]),
    route("delete", "/v1/clusters/{clusterId}/bootstrap-token", "revokeBootstrapToken", "bootstrapping", "Take the bootstrap token back").gives(&[(204, Nothing)]),

    route("get", "/v1/agents", "listAgents", "cluster", "Which agents work by an older configuration than they should").query(OWNED).gives(&[(200, Json("AgentConfigStatus"))]),
    route("get", "/v1/clusters/{clusterId}/config", "getAgentConfig", "cluster", "The configuration that the agent gets").gives(&[(200, Json("AgentConfig"))]),
    route("get", "/v1/clusters/{clusterId}/agent", "getAgent", "cluster", "What was said of this cluster's agent").gives(&[(200, Json("AgentSettings"))]),
    route("put", "/v1/clusters/{clusterId}/agent", "putAgent", "cluster", "Say it anew").takes("AgentSettings").honours_if_match().gives(&[(200, Json("AgentSettings"))]),

    route("get", "/v1/clusters/{clusterId}/facts", "getFacts", "inventory", "Facts with source, times and whether they are stale").gives(&[(200, Json("ClusterFacts"))]),
    route("post", "/v1/clusters/{clusterId}/facts/imported", "importFacts", "inventory", "Fill in what another registry was told; stale until somebody reports it here").takes("ImportedFacts").gives(&[(204, Nothing)]),
    route("get", "/v1/clusters/{clusterId}/facts/history", "getFactHistory", "inventory", "What became of a cluster's facts").query(&["fact", "at", "from", "to", "limit", "cursor"]).gives(&[(200, Json("FactHistory"))]),
    route("get", "/v1/facts/{name}/changes", "getFactChanges", "inventory", "Where a fact has changed").query(&["from", "to", "limit", "cursor"]).gives(&[(200, Json("FactHistory"))]),
    route("get", "/v1/find", "find", "inventory", "Clusters by host, version, service or fact; all must be so").query(FIND).gives(&[(200, Json("ClusterMatches"))]),
    route("get", "/inventory", "queryInventory", "inventory", "Ask in a part of InfluxQL what facts were").query(&["q", "backend"]).gives(&[(200, Json("Inventory"))]),
    route("post", "/inventory", "updateInventory", "inventory", "Store what was found in a cluster").takes("Inventory").gives(&[(201, Nothing)]),

    route("get", "/v1/tokens", "listTokens", "token", "API tokens, without their secrets").query(OWNED).gives(&[(200, Json("Tokens"))]),
    route("post", "/v1/tokens", "createToken", "token", "Make an API token; it is shown this once").takes("CreateToken").gives(&[(201, Json("CreatedToken"))]),
    route("delete", "/v1/tokens/{tokenId}", "deleteToken", "token", "Revoke an API token").gives(&[(204, Nothing)]),

    route("get", "/v1/changes", "watchChanges", "change", "What changes, by long poll or, with `Accept: text/event-stream`, as events").query(&["since", "wait", "kind", "id", "tenant"]).gives(&[(200, Json("Changes"))]),
    route("get", "/v1/audit", "audit", "change", "Who has changed what, the latest first").query(&["cluster", "tenant", "actor", "before", "limit", "cursor"]).gives(&[(200, Json("Audit"))]),
];
