//! Converts points to InfluxDB's response series.

use std::collections::{BTreeMap, BTreeSet};

use fairlead_api::influxql::{Column, Function, Order, Query, Selected, Tag};
use serde::Serialize;
use serde_json::{Map, Value};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// A version of a fact.
#[derive(Debug, Clone)]
pub(super) struct HistoryPoint {
    /// Nanoseconds since 1970.
    pub(super) at: i64,
    pub(super) cluster: String,
    pub(super) tenant: String,
    pub(super) source: &'static str,
    pub(super) fields: Map<String, Value>,
}

#[derive(Debug, Serialize)]
pub(super) struct Series {
    name: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<&'static str, String>,
    columns: Vec<String>,
    values: Vec<Vec<Value>>,
}

impl HistoryPoint {
    /// Approximate size in bytes.
    pub(super) fn length(&self) -> usize {
        let fields = self.fields.iter();
        let fields: usize = fields.map(|(name, value)| name.len() + length(value)).sum();
        fields + 128
    }

    fn tag(&self, tag: Tag) -> &str {
        match tag {
            Tag::Cluster => &self.cluster,
            Tag::Tenant => &self.tenant,
            Tag::Source => self.source,
        }
    }

    fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    /// A field, or a tag with this name.
    fn value(&self, name: &str) -> Value {
        let tag = || Tag::ALL.into_iter().find(|tag| tag.as_str() == name);
        match self.field(name) {
            Some(value) => value.clone(),
            None => tag().map_or(Value::Null, |tag| self.tag(tag).into()),
        }
    }
}

fn length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 32,
        Value::Array(list) => list.iter().map(length).sum::<usize>() + 32,
        Value::Object(object) => {
            let entries = object.iter();
            entries
                .map(|(key, value)| key.len() + length(value) + 32)
                .sum::<usize>()
                + 32
        }
        _ => 32,
    }
}

/// `points` are ordered by time; `from` is the start of the query's range, if any.
pub(super) fn answer(
    query: &Query,
    measurement: &str,
    points: Vec<HistoryPoint>,
    from: Option<i64>,
) -> Vec<Series> {
    let mut groups: BTreeMap<Vec<String>, Vec<HistoryPoint>> = BTreeMap::new();
    for point in points {
        let key = query.group_by.iter().map(|tag| point.tag(*tag).to_owned());
        groups.entry(key.collect()).or_default().push(point);
    }
    let series = groups.into_iter().filter_map(|(key, points)| {
        let (columns, mut values) = rows(query, &points, from);
        if query.order == Order::Descending {
            values.reverse();
        }
        let limit = query.limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let values: Vec<_> = values.into_iter().skip(query.offset).take(limit).collect();
        let tags = query.group_by.iter().map(|tag| tag.as_str()).zip(key);
        (!values.is_empty()).then(|| Series {
            name: measurement.to_owned(),
            tags: tags.collect(),
            columns,
            values,
        })
    });
    let mut series: Vec<Series> = series.collect();
    if query.order == Order::Descending {
        // Same order as InfluxDB.
        series.reverse();
    }
    series
}

fn rows(
    query: &Query,
    points: &[HistoryPoint],
    from: Option<i64>,
) -> (Vec<String>, Vec<Vec<Value>>) {
    match query.select.as_slice() {
        [
            Column {
                selected: Selected::All,
                ..
            },
        ] => all(query, points),
        [
            Column {
                selected: Selected::Of(..),
                ..
            },
            ..,
        ] => functions(&query.select, points, from),
        columns => fields(columns, points),
    }
}

fn titled<'a>(columns: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let columns = columns.into_iter().map(str::to_owned);
    std::iter::once("time".to_owned()).chain(columns).collect()
}

/// All fields of all points, and tags that are not part of the series.
fn all(query: &Query, points: &[HistoryPoint]) -> (Vec<String>, Vec<Vec<Value>>) {
    let fields = points.iter().flat_map(|point| point.fields.keys());
    let mut names: BTreeSet<&str> = fields.map(String::as_str).collect();
    let others = Tag::ALL
        .into_iter()
        .filter(|tag| !query.group_by.contains(tag));
    for tag in others {
        names.insert(tag.as_str());
    }
    let row = |point: &HistoryPoint| {
        let values = names.iter().map(|name| point.value(name));
        std::iter::once(time(point.at)).chain(values).collect()
    };
    (
        titled(names.iter().copied()),
        points.iter().map(row).collect(),
    )
}

/// One row per point with at least one of the fields.
fn fields(columns: &[Column], points: &[HistoryPoint]) -> (Vec<String>, Vec<Vec<Value>>) {
    let names: Vec<&str> = columns
        .iter()
        .filter_map(|column| match &column.selected {
            Selected::Field(name) => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let has_one = |point: &&HistoryPoint| names.iter().any(|name| point.field(name).is_some());
    let row = |point: &HistoryPoint| {
        let values = names.iter().map(|name| point.value(name));
        std::iter::once(time(point.at)).chain(values).collect()
    };
    let values = points.iter().filter(has_one).map(row).collect();
    (titled(columns.iter().map(Column::title)), values)
}

/// One row; a single selector keeps its point's time, otherwise the start of the range.
fn functions(
    columns: &[Column],
    points: &[HistoryPoint],
    from: Option<i64>,
) -> (Vec<String>, Vec<Vec<Value>>) {
    let mut values = Vec::new();
    let mut at = from.unwrap_or(0);
    for column in columns {
        let Selected::Of(function, field) = &column.selected else {
            continue;
        };
        let mut having = points.iter().filter(|point| point.field(field).is_some());
        let found = match function {
            Function::First => having.next(),
            Function::Last => having.next_back(),
            Function::Count => {
                let count = having.count();
                let count = if count == 0 {
                    Value::Null
                } else {
                    count.into()
                };
                values.push(count);
                continue;
            }
        };
        if let (Some(point), [_]) = (found, columns) {
            at = point.at;
        }
        values.push(found.map_or(Value::Null, |point| point.value(field)));
    }
    let titles = titled(columns.iter().map(Column::title));
    if values.iter().all(Value::is_null) {
        return (titles, Vec::new());
    }
    let row = std::iter::once(time(at)).chain(values).collect();
    (titles, vec![row])
}

fn time(nanos: i64) -> Value {
    let time = OffsetDateTime::from_unix_timestamp_nanos(nanos.into());
    let text = time.ok().and_then(|time| time.format(&Rfc3339).ok());
    text.map_or(Value::Null, Value::String)
}

#[cfg(test)]
mod tests {
    use fairlead_api::influxql::parse;
    use serde_json::json;

    use super::*;

    fn points() -> Vec<HistoryPoint> {
        let point = |at: i64, cluster: &str, fields: Value| HistoryPoint {
            at: at * 1_000_000_000,
            cluster: cluster.to_owned(),
            tenant: "t-acme".to_owned(),
            source: "agent",
            fields: fields.as_object().unwrap().clone(),
        };
        vec![
            point(1, "c-a", json!({ "count": 3, "cpu": 12.5 })),
            point(2, "c-b", json!({ "count": 5 })),
            point(3, "c-a", json!({ "count": 4, "cpu": null })),
        ]
    }

    fn asked(text: &str) -> Value {
        let query = parse(text).unwrap();
        serde_json::to_value(answer(&query, "nodes", points(), None)).unwrap()
    }

    const T1: &str = "1970-01-01T00:00:01Z";
    const T2: &str = "1970-01-01T00:00:02Z";
    const T3: &str = "1970-01-01T00:00:03Z";

    #[test]
    fn plain_fields_are_rows_and_may_have_tags_beside_them() {
        assert_eq!(
            asked("SELECT count, cluster FROM nodes"),
            json!([{ "name": "nodes", "columns": ["time", "count", "cluster"],
                "values": [[T1, 3, "c-a"], [T2, 5, "c-b"], [T3, 4, "c-a"]] }])
        );
        assert_eq!(
            asked("SELECT cpu AS c FROM nodes"),
            json!([{ "name": "nodes", "columns": ["time", "c"], "values": [[T1, 12.5]] }])
        );
        assert_eq!(asked("SELECT cluster FROM nodes"), json!([]));
    }

    #[test]
    fn functions_take_one_value_of_each_series() {
        assert_eq!(
            asked("SELECT LAST(count) FROM nodes GROUP BY cluster"),
            json!([
                { "name": "nodes", "tags": { "cluster": "c-a" }, "columns": ["time", "last"], "values": [[T3, 4]] },
                { "name": "nodes", "tags": { "cluster": "c-b" }, "columns": ["time", "last"], "values": [[T2, 5]] },
            ])
        );
        assert_eq!(
            asked("SELECT FIRST(count), LAST(cpu), COUNT(count) AS n FROM nodes"),
            json!([{ "name": "nodes", "columns": ["time", "first", "last", "n"],
                "values": [["1970-01-01T00:00:00Z", 3, 12.5, 3]] }])
        );
        assert_eq!(asked("SELECT LAST(nothing) FROM nodes"), json!([]));
        assert_eq!(asked("SELECT COUNT(nothing) FROM nodes"), json!([]));
    }

    #[test]
    fn rows_are_ordered_and_cut() {
        assert_eq!(
            asked("SELECT * FROM nodes GROUP BY tenant ORDER BY time DESC LIMIT 1 OFFSET 1"),
            json!([{ "name": "nodes", "tags": { "tenant": "t-acme" },
                "columns": ["time", "cluster", "count", "cpu", "source"],
                "values": [[T2, "c-b", 5, null, "agent"]] }])
        );
        assert_eq!(
            asked("SELECT * FROM nodes LIMIT 0")[0]["values"]
                .as_array()
                .unwrap()
                .len(),
            3
        );
    }
}
