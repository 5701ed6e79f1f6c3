//! Queries answered by InfluxDB: forwarded in parsed form, restricted to visible clusters.

use std::collections::BTreeMap;

use fairlead_api::{
    Code, Failure,
    influxql::{Query, Selected, Tag, Within},
};
use fairlead_registry::sees_cluster;
use fairlead_routes::InvalidValue;
use fairlead_seam::Caller;
use fairlead_store::View;
use serde_json::{Value, json};
use tracing::warn;

use crate::{
    influx::{Influx, client::InfluxQueryError},
    state::FactsState,
};

/// Maximum number of clusters in a restricted query; each is a condition.
const MAX_CLUSTERS: usize = 2000;

impl Influx {
    /// True if it answers queries by default.
    pub(crate) fn answers(&self) -> bool {
        self.answers
    }
}

/// Result of the query.
///
/// # Errors
/// `FL-5105` if InfluxDB is unreachable, `FL-5106` if it rejects the query, `FL-4109` if the
/// response is too long.
pub(crate) async fn answer(
    state: &FactsState,
    influx: &Influx,
    caller: &Caller,
    query: &Query,
) -> Result<Value, Failure> {
    let view = state.store.view();
    let within = within(&view, caller, query)?;
    if within.as_ref().is_some_and(Vec::is_empty) {
        return Ok(json!({ "statement_id": 0 }));
    }
    let text = query.print(state.now(), within.as_ref());
    let log_failure = |error: &InfluxQueryError| warn!(%error, "InfluxDB query failed");
    let answered = influx.client.query(&text).await;
    let mut answered = answered.map_err(|error| match error {
        InfluxQueryError::Unavailable(_) => {
            log_failure(&error);
            Code::InfluxAway.into()
        }
        InfluxQueryError::Rejected(_) => {
            log_failure(&error);
            Code::InfluxRefused.into()
        }
        InfluxQueryError::TooLong => {
            let detail = "q: the response exceeds 16 MiB; narrow the time range, name a cluster, or use LIMIT";
            Failure::because(Code::Invalid, detail)
        }
    })?;
    if query.select.iter().any(|it| it.selected == Selected::All) {
        leave_out_empty(&mut answered);
    }
    Ok(answered)
}

/// For `*` InfluxDB returns columns for all fields of the measurement, including those of hidden
/// clusters. A field name may be another tenant's host name.
fn leave_out_empty(result: &mut Value) {
    let series = result.get_mut("series").and_then(Value::as_array_mut);
    for one in series.into_iter().flatten() {
        let rows = one.get("values").and_then(Value::as_array);
        let mut is_used = Vec::new();
        for row in rows.into_iter().flatten().filter_map(Value::as_array) {
            is_used.resize(is_used.len().max(row.len()), false);
            for (used, value) in is_used.iter_mut().zip(row) {
                *used |= !value.is_null();
            }
        }
        if let Some(columns) = one.get_mut("columns") {
            keep(columns, &is_used);
        }
        let rows = one.get_mut("values").and_then(Value::as_array_mut);
        for row in rows.into_iter().flatten() {
            keep(row, &is_used);
        }
    }
}

fn keep(list: &mut Value, is_kept: &[bool]) {
    let mut is_kept = is_kept.iter();
    if let Some(list) = list.as_array_mut() {
        list.retain(|_| is_kept.next().copied().unwrap_or(false));
    }
}

/// Condition for visible clusters; `None` for a caller who sees everything. A cluster counts under
/// its current tenant only: its earlier data belong to the previous one.
fn within<'a>(
    view: &'a View,
    caller: &Caller,
    query: &Query,
) -> Result<Option<Within<'a>>, InvalidValue> {
    if caller.is_unlimited() {
        return Ok(None);
    }
    let mut by_tenant: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut count = 0;
    for cluster in view.clusters().map(|it| &it.value) {
        let is_asked_for = query.conditions.iter().all(|condition| {
            let tag = match condition.tag {
                Tag::Cluster => cluster.id.as_str(),
                Tag::Tenant => cluster.tenant.as_str(),
                Tag::Source => return true,
            };
            (tag == condition.text) == condition.equals
        });
        if !is_asked_for || !sees_cluster(view, caller, cluster) {
            continue;
        }
        count += 1;
        if count > MAX_CLUSTERS {
            let detail = format_args!(
                "q: matches more than {MAX_CLUSTERS} clusters; name a tenant or a cluster"
            );
            return Err(InvalidValue::because(detail));
        }
        let of_tenant = by_tenant.entry(cluster.tenant.as_str()).or_default();
        of_tenant.push(cluster.id.as_str());
    }
    Ok(Some(by_tenant.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_hidden_clusters_are_removed() {
        let mut result = json!({ "statement_id": 0, "series": [
            { "name": "hosts", "columns": ["time", "a.example", "secret.example", "cluster"], "values": [
                ["t1", null, null, "c-a"], ["t2", 1, null, "c-a"]] },
            { "name": "empty", "columns": ["time", "secret.example"], "values": [] },
        ] });
        leave_out_empty(&mut result);
        assert_eq!(
            result,
            json!({ "statement_id": 0, "series": [
                { "name": "hosts", "columns": ["time", "a.example", "cluster"], "values": [
                    ["t1", null, "c-a"], ["t2", 1, "c-a"]] },
                { "name": "empty", "columns": [], "values": [] },
            ] })
        );
        let mut none = json!({ "statement_id": 0 });
        leave_out_empty(&mut none);
        assert_eq!(none, json!({ "statement_id": 0 }));
    }
}
