//! Table of the HTTP routes for users, with their parameters and responses. One test calls each of them,
//! another compares the table with Lieutenant's document.

/// One method of one path.
pub(crate) struct RouteSpec {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// Operation id; Lieutenant's if it has one.
    pub(crate) id: &'static str,
    pub(crate) tag: &'static str,
    pub(crate) summary: &'static str,
    /// Query parameters.
    pub(crate) query: &'static [&'static str],
    /// Content type and schema.
    pub(crate) body: Option<(&'static str, &'static str)>,
    /// Status, schema, and cardinality. Failures are added to every route.
    pub(crate) answers: &'static [(u16, ResponseBody)],
    /// Requires no authentication.
    pub(crate) open: bool,
    /// Changes a versioned resource and honours `If-Match`.
    pub(crate) honours_precondition: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum ResponseBody {
    Nothing,
    Json(&'static str),
    List(&'static str),
    Text(&'static str),
}

use ResponseBody::{Json, List, Nothing, Text};

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";

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
pub(crate) const ROUTES: &[RouteSpec] = &[
    route("get", "/", "discovery", "system", "Version of this API and login settings").open().gives(&[(200, Json("Metadata"))]),
    route("get", "/healthz", "healthz", "system", "Liveness of the hub").open().gives(&[(200, Text("text/plain"))]),
    route("get", "/openapi.json", "openapi", "system", "This document").open().gives(&[(200, Json("Any"))]),
    route("get", "/docs", "docs", "system", "Page to browse this document and to send requests").open().gives(&[(200, Text("text/html"))]),
    route("get", "/v1/hub", "getHub", "system", "Properties of the hub for kubeconfigs").gives(&[(200, Json("HubInfo"))]),
    route("get", "/v1/whoami", "whoAmI", "system", "Name and role of the caller, on the hub and in clusters").gives(&[(200, Json("WhoAmI"))]),

    route("get", "/tenants", "listTenants", "tenant", "List the visible tenants").query(TENANTS).gives(&[(200, List("Tenant"))]),
    route("post", "/tenants", "createTenant", "tenant", "Create a tenant").takes("Tenant").gives(&[(201, Json("Tenant"))]),
    route("get", "/tenants/{tenantId}", "getTenant", "tenant", "Get a tenant").gives(&[(200, Json("Tenant"))]),
    route("put", "/tenants/{tenantId}", "putTenant", "tenant", "Create or replace a tenant").takes("Tenant").query(&["dryRun"]).honours_if_match().gives(&[(200, Json("Tenant")), (201, Json("Tenant"))]),
    route("patch", "/tenants/{tenantId}", "updateTenant", "tenant", "Change a tenant (RFC 7396)").merges("Tenant").query(&["dryRun"]).honours_if_match().gives(&[(200, Json("Tenant"))]),
    route("delete", "/tenants/{tenantId}", "deleteTenant", "tenant", "Delete a tenant").query(&["cascade"]).honours_if_match().gives(&[(204, Nothing)]),

    route("get", "/clusters", "listClusters", "cluster", "List the visible clusters").query(CLUSTERS).gives(&[(200, List("Cluster"))]),
    route("post", "/clusters", "createCluster", "cluster", "Register a cluster").takes("CreateCluster").query(&["uniqueName"]).gives(&[(201, Json("CreatedCluster"))]),
    route("get", "/clusters/{clusterId}", "getCluster", "cluster", "Get a cluster").gives(&[(200, Json("Cluster"))]),
    route("put", "/clusters/{clusterId}", "putCluster", "cluster", "Register or replace a cluster").takes("CreateCluster").query(&["dryRun", "withoutBootstrapToken"]).honours_if_match().gives(&[(200, Json("Cluster")), (201, Json("CreatedCluster"))]),
    route("patch", "/clusters/{clusterId}", "updateCluster", "cluster", "Change a cluster (RFC 7396)").merges("Cluster").query(&["dryRun"]).honours_if_match().gives(&[(200, Json("Cluster"))]),
    route("delete", "/clusters/{clusterId}", "deleteCluster", "cluster", "Delete a cluster").honours_if_match().gives(&[(204, Nothing)]),
    route("post", "/clusters/{clusterId}/compileMeta", "postClusterCompileMeta", "cluster", "Store the metadata of a catalog compilation").takes("CompileMeta").honours_if_match().gives(&[(204, Nothing)]),
    route("get", "/v1/compile-meta", "findCompileMeta", "cluster", "List component instances below a version, or clusters without a recent compilation").query(COMPILED).gives(&[(200, Json("CompiledComponents"))]),
    route("get", "/v1/clusters/{clusterId}/status", "getClusterStatus", "cluster", "Get the status of a cluster as of the last probe").gives(&[(200, Json("ClusterStatus"))]),
    route("get", "/v1/status", "watchStatus", "cluster", "Watch the status of clusters: long poll, or events with `Accept: text/event-stream`").query(&["since", "wait"]).gives(&[(200, Json("ClusterStatusUpdate"))]),
    route("get", "/v1/clusters/{clusterId}/sessions", "getClusterSessions", "cluster", "List the sessions of a cluster's agents on this hub").gives(&[(200, Json("Sessions"))]),
    route("get", "/v1/clusters/{clusterId}/effective", "getClusterEffective", "cluster", "Get the effective values of a cluster with their sources").gives(&[(200, Json("Effective"))]),
    route("post", "/v1/clusters/{clusterId}/tenant", "moveCluster", "cluster", "Move a cluster to another tenant; its agent has to enrol again").takes("MoveCluster").honours_if_match().gives(&[(200, Json("JoinInfo"))]),
    route("get", "/v1/clusters/{clusterId}/catalog", "getCatalog", "cluster", "Get the desired objects of a cluster").gives(&[(200, Json("Catalog"))]),
    route("put", "/v1/clusters/{clusterId}/catalog", "putCatalog", "cluster", "Replace the desired objects of a cluster").takes("Catalog").honours_if_match().gives(&[(200, Json("Catalog"))]),

    route("get", "/install/steward.json", "installSteward", "bootstrapping", "Get Steward's manifests; this spends the bootstrap token").open().query(&["token"]).gives(&[(200, Json("Any"))]),
    route("get", "/install/agent.yaml", "installAgent", "bootstrapping", "Get the agent's manifest; the agent spends the bootstrap token").open().query(&["token"]).gives(&[(200, Text("application/yaml"))]),
    route("get", "/v1/bootstrap-tokens", "listBootstrapTokens", "bootstrapping", "List bootstrap tokens with state and author").query(OWNED).gives(&[(200, Json("BootstrapTokens"))]),
    route("get", "/v1/clusters/{clusterId}/bootstrap-token", "getBootstrapToken", "bootstrapping", "Get the valid bootstrap token").gives(&[(200, Json("JoinInfo"))]),
    route("post", "/v1/clusters/{clusterId}/bootstrap-token", "renewBootstrapToken", "bootstrapping", "Create a bootstrap token; it replaces the previous one").gives(&[(201, Json("JoinInfo"))]),
    route("delete", "/v1/clusters/{clusterId}/bootstrap-token", "revokeBootstrapToken", "bootstrapping", "Revoke the bootstrap token").gives(&[(204, Nothing)]),

    route("get", "/v1/agents", "listAgents", "cluster", "List agents with an outdated configuration").query(OWNED).gives(&[(200, Json("AgentConfigStatus"))]),
    route("get", "/v1/clusters/{clusterId}/config", "getAgentConfig", "cluster", "Get the configuration of a cluster's agent").gives(&[(200, Json("AgentConfig"))]),
    route("get", "/v1/clusters/{clusterId}/agent", "getAgent", "cluster", "Get the agent settings of a cluster").gives(&[(200, Json("AgentSettings"))]),
    route("put", "/v1/clusters/{clusterId}/agent", "putAgent", "cluster", "Replace the agent settings of a cluster").takes("AgentSettings").honours_if_match().gives(&[(200, Json("AgentSettings"))]),

    route("get", "/v1/clusters/{clusterId}/facts", "getFacts", "inventory", "List facts with source, times and staleness").gives(&[(200, Json("ClusterFacts"))]),
    route("post", "/v1/clusters/{clusterId}/facts/imported", "importFacts", "inventory", "Import facts of another registry; they are stale until a source reports them here").takes("ImportedFacts").gives(&[(204, Nothing)]),
    route("get", "/v1/clusters/{clusterId}/facts/history", "getFactHistory", "inventory", "List the history of a cluster's facts").query(&["fact", "at", "from", "to", "limit", "cursor"]).gives(&[(200, Json("FactHistory"))]),
    route("get", "/v1/facts/{name}/changes", "getFactChanges", "inventory", "List the changes of a fact in all clusters").query(&["from", "to", "limit", "cursor"]).gives(&[(200, Json("FactHistory"))]),
    route("get", "/v1/find", "find", "inventory", "Find clusters by host, version, service or fact; a cluster must match all of them").query(FIND).gives(&[(200, Json("ClusterMatches"))]),
    route("get", "/inventory", "queryInventory", "inventory", "Query the history of facts in a subset of InfluxQL").query(&["q", "backend"]).gives(&[(200, Json("Inventory"))]),
    route("post", "/inventory", "updateInventory", "inventory", "Store the facts of a cluster").takes("Inventory").gives(&[(201, Nothing)]),

    route("get", "/v1/tokens", "listTokens", "token", "List API tokens, without their secrets").query(OWNED).gives(&[(200, Json("Tokens"))]),
    route("post", "/v1/tokens", "createToken", "token", "Create an API token; only this response contains its secret").takes("CreateToken").gives(&[(201, Json("CreatedToken"))]),
    route("delete", "/v1/tokens/{tokenId}", "deleteToken", "token", "Revoke an API token").gives(&[(204, Nothing)]),

    route("get", "/v1/changes", "watchChanges", "change", "Watch changes: long poll, or events with `Accept: text/event-stream`").query(&["since", "wait", "kind", "id", "tenant"]).gives(&[(200, Json("Changes"))]),
    route("get", "/v1/audit", "audit", "change", "List changes with author and values, latest first").query(&["cluster", "tenant", "actor", "before", "limit", "cursor"]).gives(&[(200, Json("Audit"))]),
];

/// True if the document describes a query parameter of a path.
#[cfg(debug_assertions)]
pub(crate) fn describes(path: &str, parameter: &str) -> bool {
    let fits = |route: &&RouteSpec| {
        let (mut known, mut requested) =
            (route.path.split('/'), path.trim_end_matches('/').split('/'));
        loop {
            match (known.next(), requested.next()) {
                (None, None) => return true,
                (Some(known), Some(requested)) if known == requested || known.starts_with('{') => {}
                _ => return false,
            }
        }
    };
    let known: Vec<_> = ROUTES.iter().filter(fits).collect();
    // Paths outside the table occur in tests only.
    known.is_empty() || known.iter().any(|route| route.query.contains(&parameter))
}
