//! Path and query parameters of each route, with their allowed values.

use serde_json::{Value, json};

use crate::openapi::routes::RouteSpec;

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
        b"tenant" => "Only this tenant and those below it, with their things",
        b"kind" => "Only things of this kind",
        b"id" => "Only the thing with this id",
        b"cluster" => "Only of this cluster",
        b"actor" => "Only by this one",
        b"before" => "Only of earlier revisions",
        b"sort_by" => "id (default), tenant or displayName",
        b"fact" => {
            "`name=value`, also `name:value`, or `name` for having it; repeatable. In a history the name"
        }
        b"selector" => "Label selector in Kubernetes' syntax over annotations and facts",
        b"stale" => {
            "false: facts whose source has stopped reporting do not count for `fact` and `selector`"
        }
        b"status" => "Never, Connected, ApiUnreachable or Lost",
        b"text" => "Part of id, display name or tenant",
        b"limit" => "How many at most",
        b"cursor" => "From the `Link` header of the page before",
        b"cascade" => "true: with its clusters and the tenants below it",
        b"dryRun" => "true: answers what it would come to, and changes nothing",
        b"uniqueName" => {
            "true: refused with 409 where another cluster of the tenant has the display name, or has it as its id"
        }
        b"withoutBootstrapToken" => {
            "true: a new cluster has no open bootstrap token, because its agent is there already"
        }
        b"token" => "The bootstrap token; may be a bearer token instead",
        b"component" => "Name of a component",
        b"below" => "Only versions of the component below this one",
        b"staleDays" => "Only what was not compiled for so many days",
        b"since" => {
            "Where the answer before ended: a revision, or `first` for all that is kept (now where missing); of statuses the \
             cursor (all of them where missing)"
        }
        b"wait" => "Seconds to wait for a change, 25 at most",
        b"at" => "What was so at that time; goes without from, to and cursor",
        b"from" => "What became so at that time or later",
        b"to" => "What became so until that time",
        b"q" => "InfluxQL query string",
        b"backend" => {
            "Backend that answers the query; by default the one configured with `--influx-query`"
        }
        _ => "See docs/api.md and docs/facts.md",
    }
}
