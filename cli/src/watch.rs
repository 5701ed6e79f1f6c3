//! `-w`: prints tenants and clusters again when they change. The hub reports changes and status updates; printed values are
//! read after the report.

use std::collections::{BTreeMap, BTreeSet};

use fairlead_api::{Code, Failure, percent, resources::ClusterStatusUpdate};
use serde_json::{Value, json};

use crate::{
    changes::{Seen, WAIT, is_away, line},
    hub_client::HubClient,
    output::{self, Cell, Column, Columns, Format, shown_cells},
};

/// Status fields that change over time without any event.
const TICKING: [&str; 2] = ["lastSeen", "lastGoodProbe"];

/// One resource with its cells.
pub(crate) struct Row<const N: usize> {
    pub(crate) id: String,
    pub(crate) cells: [Cell; N],
    pub(crate) value: Value,
}

/// Last printed state of one resource.
struct Printed {
    /// Visible cells. Ages are compared as times, so that passing time is no change.
    cells: Vec<Cell>,
    value: Value,
}

/// Selection of a watch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One resource; the watch ends when it is deleted.
    One,
    All,
    /// Matching resources below this path. A resource that no longer matches may still exist.
    Matching(&'static str),
}

impl Scope {
    /// Finds out whether a missing resource was deleted or no longer matches.
    async fn parting(self, hub: &HubClient, id: String) -> Result<Parting, Failure> {
        let is_there = match self {
            Scope::One | Scope::All => None,
            Scope::Matching(path) => {
                hub.find::<Value>(&format!("{path}/{}", percent::encode(&id)))
                    .await?
            }
        };
        let was_deleted = is_there.is_none();
        Ok(Parting { id, was_deleted })
    }
}

/// A printed resource that is missing from the current list.
struct Parting {
    id: String,
    was_deleted: bool,
}

impl Parting {
    fn line(&self, format: &Format) -> Result<String, Failure> {
        let Parting { id, was_deleted } = self;
        match (format, was_deleted) {
            (Format::Table | Format::Wide, true) => Ok(format!("{id} was deleted\n")),
            (Format::Table | Format::Wide, false) => Ok(format!("{id} no longer matches\n")),
            (format, true) => line(format, &json!({ "id": id, "deleted": true })),
            (format, false) => line(format, &json!({ "id": id, "matches": false })),
        }
    }
}

/// Source of the events that trigger a new read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wakes {
    Changes,
    /// Changes of the registry and status updates of clusters.
    Status,
}

/// How often all is read anew from a hub that does not tell how it stands with clusters, in seconds.
const ANEW: u64 = 5;

/// Behind which something is waited for.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    Changes(String),
    Status(String),
    /// The hub is older than `/v1/status`: after each wait there may be something.
    Anew(String),
}

struct Waker<'a> {
    seen: Seen<'a>,
    way: Way,
}

impl<'a> Waker<'a> {
    async fn new(hub: &'a HubClient, wakes: Wakes) -> Result<Self, Failure> {
        let seen = Seen::new(hub);
        let told = match wakes {
            Wakes::Changes => None,
            Wakes::Status => standings(hub.get("/v1/status").await)?,
        };
        let way = match (wakes, told) {
            (Wakes::Status, Some(told)) => Way::Status(told.cursor),
            (Wakes::Status, None) => older(&seen).await?,
            (Wakes::Changes, _) => Way::Changes(seen.now().await?.to_string()),
        };
        Ok(Waker { seen, way })
    }

    /// Until there may be something to print; of clusters what that is.
    async fn next(&mut self) -> Result<Option<ClusterStatusUpdate>, Failure> {
        loop {
            match &mut self.way {
                Way::Status(cursor) => {
                    let told = self.seen.ask("/v1/status", cursor, WAIT).await;
                    // Another hub may have taken this one's place.
                    let Some(told) = standings(told)? else {
                        self.way = older(&self.seen).await?;
                        return Ok(None);
                    };
                    cursor.clone_from(&told.cursor);
                    if !told.is_empty() {
                        return Ok(Some(told));
                    }
                }
                Way::Changes(since) => {
                    if behind(&mut self.seen, since, WAIT).await? {
                        return Ok(None);
                    }
                }
                Way::Anew(since) => {
                    behind(&mut self.seen, since, ANEW).await?;
                    return Ok(None);
                }
            }
        }
    }
}

/// None of a hub that does not know what it is asked.
fn standings(
    told: Result<ClusterStatusUpdate, Failure>,
) -> Result<Option<ClusterStatusUpdate>, Failure> {
    match told {
        Err(failure) if failure.code == Code::NoSuchRoute => Ok(None),
        told => told.map(Some),
    }
}

async fn older(seen: &Seen<'_>) -> Result<Way, Failure> {
    eprintln!(
        "this hub is older and does not tell how it stands with clusters: they are read anew every {ANEW} s"
    );
    Ok(Way::Anew(seen.now().await?.to_string()))
}

/// Whether anything has changed meanwhile.
async fn behind(seen: &mut Seen<'_>, since: &mut String, wait: u64) -> Result<bool, Failure> {
    match seen.poll(since, wait).await {
        Ok(changes) => {
            *since = changes.revision.to_string();
            Ok(!changes.items.is_empty())
        }
        // All of it is read anew anyway.
        Err(failure) if failure.code == Code::Compacted => {
            *since = seen.now().await?.to_string();
            Ok(true)
        }
        Err(failure) => Err(failure),
    }
}

/// Prints until the single watched resource is deleted, else without end. `fetch` reads the current resources; its argument is
/// the status update since the previous call, if that may be sufficient.
pub(crate) async fn watch<const N: usize>(
    hub: &HubClient,
    format: &Format,
    columns: [Column; N],
    scope: Scope,
    wakes: Wakes,
    mut fetch: impl AsyncFnMut(Option<ClusterStatusUpdate>) -> Result<Vec<Row<N>>, Failure>,
) -> Result<(), Failure> {
    let mut waker = Waker::new(hub, wakes).await?;
    let mut told = None;
    let mut table = Columns::new(format, columns.clone());
    let mut known: BTreeMap<String, Printed> = BTreeMap::new();
    loop {
        let (rows, parted) = match look(hub, scope, &known, fetch(told.take()).await).await {
            Ok(found) => found,
            Err(failure) if is_away(&failure) => {
                waker.seen.rest(&failure).await;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        waker.seen.is_back();
        let mut changed = Vec::new();
        for row in rows {
            let printed = Printed {
                cells: shown_cells(format, &columns, row.cells.clone()),
                value: without_ticking(&row.value),
            };
            let is_new = match known.get(&row.id) {
                None => true,
                Some(before) if format.is_table() => before.cells != printed.cells,
                Some(before) => before.value != printed.value,
            };
            known.insert(row.id.clone(), printed);
            changed.extend(is_new.then_some(row));
        }
        let mut text = if format.is_table() {
            table.rows(changed.into_iter().map(|row| row.cells))
        } else {
            let lines = changed.iter().map(|row| line(format, &row.value));
            lines.collect::<Result<String, _>>()?
        };
        for parting in &parted {
            known.remove(&parting.id);
            text += &parting.line(format)?;
        }
        if !output::still_read(&text)? || (scope == Scope::One && known.is_empty()) {
            return Ok(());
        }
        told = waker.next().await?;
    }
}

/// Current rows, and the known rows that are missing from them.
async fn look<const N: usize>(
    hub: &HubClient,
    scope: Scope,
    known: &BTreeMap<String, Printed>,
    fetched: Result<Vec<Row<N>>, Failure>,
) -> Result<(Vec<Row<N>>, Vec<Parting>), Failure> {
    let rows = fetched?;
    let there: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    let mut parted = Vec::new();
    for id in known.keys().filter(|id| !there.contains(id.as_str())) {
        parted.push(scope.parting(hub, id.clone()).await?);
    }
    Ok((rows, parted))
}

fn without_ticking(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(Value::Object(status)) = value.get_mut("status") {
        status.retain(|name, _| !TICKING.contains(&name.as_str()));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_that_knows_no_status_is_an_older_one_and_any_other_refusal_is_one() {
        let told = json!({ "cursor": "7", "snapshot": true, "changed": false, "removed": [], "items": [] });
        let told: ClusterStatusUpdate = serde_json::from_value(told).unwrap();
        assert_eq!(standings(Ok(told)).unwrap().unwrap().cursor, "7");
        assert!(standings(Err(Code::NoSuchRoute.into())).unwrap().is_none());
        let refused = standings(Err(Code::NotAllowed.into())).unwrap_err();
        assert_eq!(refused.code, Code::NotAllowed);
    }
}
