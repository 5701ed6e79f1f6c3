//! Path and query parameters of each route, with their allowed values.

use serde_json::{Value, json};

use crate::route_table::RouteSpec;

pub(super) fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

pub(super) fn parameters(route: &RouteSpec) -> Vec<Value> {
    let in_path = route.path.split('/').filter_map(|segment| {
        let name = segment.strip_prefix('{')?.strip_suffix('}')?;
        let schema = match name {
            "tokenId" => json!({ "type": "string", "pattern": "^k-[0-9a-f]{16}$" }),
            // Characters that are impossible in a path are rejected for any name.
            "name" => json!({ "type": "string", "pattern": r"^(?!\.{1,2}$)[^/\\\x00-\x1f\x7f]+$" }),
            _ => reference("Id"),
        };
        Some(json!({ "in": "path", "name": name, "required": true, "schema": schema }))
    });
    let in_query = route.query.iter().map(|name| {
        json!({ "in": "query", "name": name, "description": meaning(route, name), "schema": schema(route, name) })
    });
    in_path.chain(in_query).collect()
}

/// Numbers are not nullable: an empty parameter is invalid.
fn schema(route: &RouteSpec, name: &str) -> Value {
    match (name, route.tag) {
        ("sort_by", "tenant") => {
            json!({ "type": "string", "enum": ["id", "displayName"], "default": "id" })
        }
        ("sort_by", _) => {
            json!({ "type": "string", "enum": ["id", "tenant", "displayName"], "default": "id" })
        }
        ("backend", _) => json!({ "type": "string", "enum": ["hub", "influxdb"] }),
        ("status", _) => {
            json!({ "type": "string", "enum": ["Never", "Connected", "ApiUnreachable", "Lost"] })
        }
        // History starts at any time in the past.
        ("limit", "inventory") if route.query.contains(&"from") => {
            json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX })
        }
        ("limit", _) => json!({ "type": "integer", "minimum": 1, "maximum": 1000 }),
        ("wait", _) => json!({ "type": "integer", "minimum": 0, "maximum": 25 }),
        ("staleDays", _) => json!({ "type": "integer", "minimum": 0, "maximum": 36500 }),
        ("since", "cluster") => {
            json!({ "type": "string", "pattern": "^[0-9a-f]{8}-[0-9]{1,18}-[0-9]{1,18}$" })
        }
        ("since", _) => json!({ "anyOf": [
            { "type": "integer", "minimum": 0, "maximum": u64::MAX },
            { "type": "string", "enum": ["first"] },
        ] }),
        ("before", _) => json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }),
        ("stale", _) => json!({ "type": "boolean", "default": true }),
        ("cascade" | "dryRun" | "withoutBootstrapToken" | "uniqueName", _) => {
            json!({ "type": "boolean" })
        }
        ("at" | "from" | "to", _) => json!({ "type": "string", "format": "date-time" }),
        ("fact", "cluster") => {
            json!({ "type": "array", "items": { "type": "string", "pattern": r"^([^\x00:=][^\x00]*)?$" } })
        }
        ("kind", _) => {
            json!({ "type": "string", "enum": ["tenant", "cluster", "token", "catalog"] })
        }
        ("cluster", _) => {
            json!({ "type": "string", "pattern": "^c-[a-z0-9]([-a-z0-9]{0,59}[a-z0-9])?$" })
        }
        ("tenant", "change") => {
            json!({ "type": "string", "pattern": "^t-[a-z0-9]([-a-z0-9]{0,59}[a-z0-9])?$" })
        }
        ("host" | "version" | "service" | "fact", "inventory") => {
            json!({ "type": "string", "minLength": 1, "maxLength": 512 })
        }
        _ => json!({ "type": "string", "pattern": r"^[^\x00]+$" }),
    }
}

fn meaning(route: &RouteSpec, name: &str) -> &'static str {
    match (name, route.id) {
        ("sort_by", "listTenants") => "id (default) or displayName",
        ("selector", "listTenants") => "Label selector in Kubernetes' syntax over annotations",
        ("text", "listTenants" | "listTokens") => "Part of id or name",
        _ => usual(name),
    }
}

const fn usual(name: &str) -> &'static str {
    match name.as_bytes() {
        b"tenant" => "Filter: this tenant, its descendants and their resources",
        b"kind" => "Filter: resources of this kind",
        b"id" => "Filter: the resource with this id",
        b"cluster" => "Filter: changes of this cluster",
        b"actor" => "Filter: changes by this author",
        b"before" => "Filter: changes before this revision",
        b"sort_by" => "id (default), tenant or displayName",
        b"fact" => {
            "Filter: `name=value`, `name:value`, or `name` for any value; repeatable. In a history, the name of a fact"
        }
        b"selector" => "Label selector in Kubernetes' syntax over annotations and facts",
        b"stale" => "false: `fact` and `selector` ignore stale facts",
        b"status" => "Never, Connected, ApiUnreachable or Lost",
        b"text" => "Part of id, display name or tenant",
        b"limit" => "Maximum number of items",
        b"cursor" => "Cursor of the next page, from the `Link` header",
        b"cascade" => "true: delete its clusters and descendants, too",
        b"dryRun" => "true: validate and return the result, without a change",
        b"uniqueName" => {
            "true: reject with 409 if another cluster of the tenant has the display name, or has it as its id"
        }
        b"withoutBootstrapToken" => {
            "true: create no bootstrap token, for a cluster with an enrolled agent"
        }
        b"token" => "Bootstrap token; alternatively a bearer token",
        b"component" => "Name of a component",
        b"below" => "Filter: versions of the component lower than this one",
        b"staleDays" => "Filter: clusters without a compilation for this number of days",
        b"since" => {
            "End of the previous response: a revision, or `first` for all retained changes (default: now); for status, its \
             cursor (default: all)"
        }
        b"wait" => "Longest time to wait for a change, in seconds",
        b"at" => "Facts at this time; excludes from, to and cursor",
        b"from" => "Changes at this time or later",
        b"to" => "Changes up to this time",
        b"q" => "InfluxQL query string",
        b"backend" => {
            "Backend that answers the query; by default the one configured with `--influx-query`"
        }
        _ => "See docs/api.md and docs/facts.md",
    }
}
