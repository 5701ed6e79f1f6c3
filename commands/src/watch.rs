//! `-w`: prints tenants and clusters again when they change. The hub reports changes and status updates; printed values are
//! read after the report.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fairlead_api::{
    Failure, delivery::DeploymentStatusUpdate, percent, resources::ClusterStatusUpdate,
};
use fairlead_client::{
    HubClient, HubError,
    changes::{ChangePoller, LONG_POLL_SECONDS},
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::output::{
    self, Cell, Columns, OutputFormat, RenderError, TableColumn, line, line_width, shown_cells,
};

/// Status fields that change over time without any event.
const VOLATILE_FIELDS: [&str; 2] = ["lastSeen", "lastGoodProbe"];

const DEPLOYMENTS_PATH: &str = "/v1/deployments/status";
/// Shortest time between two reads of all deployments.
const DEPLOYMENTS_PAUSE: Duration = Duration::from_secs(1);

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
pub(crate) enum WatchScope {
    /// One resource; the watch ends when it is deleted.
    One,
    All,
    /// Matching resources below this path. A resource that no longer matches may still exist.
    Matching(&'static str),
    /// Matching resources without a path of their own.
    MatchingOrGone,
}

impl WatchScope {
    /// Finds out whether a missing resource was deleted or no longer matches.
    async fn missing(self, hub: &HubClient, id: String) -> Result<Missing, HubError> {
        let was_deleted = match self {
            WatchScope::One | WatchScope::All => true,
            WatchScope::MatchingOrGone => false,
            WatchScope::Matching(path) => {
                let path = format!("{path}/{}", percent::encode(&id));
                hub.get_optional::<Value>(&path).await?.is_none()
            }
        };
        Ok(Missing { id, was_deleted })
    }
}

/// A printed resource that is missing from the current list.
struct Missing {
    id: String,
    was_deleted: bool,
}

impl Missing {
    fn line(&self, format: &OutputFormat) -> Result<String, RenderError> {
        let Missing { id, was_deleted } = self;
        match (format, was_deleted) {
            (OutputFormat::Table | OutputFormat::Wide, true) => Ok(format!("{id} was deleted\n")),
            (OutputFormat::Table | OutputFormat::Wide, false) => {
                Ok(format!("{id} no longer matches\n"))
            }
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
    /// Updates of deployments.
    Deployments,
}

/// Position in the stream of events.
#[derive(Debug, PartialEq, Eq)]
enum Cursor {
    Changes(String),
    Status(String),
    Deployments(String),
}

/// Waits for events that can change the printed values.
struct Waker<'a> {
    poller: ChangePoller<'a>,
    cursor: Cursor,
}

impl<'a> Waker<'a> {
    async fn new(hub: &'a HubClient, wakes: Wakes) -> Result<Self, HubError> {
        let poller = ChangePoller::new(hub, output::note_outage);
        let cursor = match wakes {
            Wakes::Changes => Cursor::Changes(poller.current_revision().await?.to_string()),
            Wakes::Status => {
                let update: ClusterStatusUpdate = hub.get("/v1/status").await?;
                Cursor::Status(update.cursor)
            }
            Wakes::Deployments => {
                let path = format!("{DEPLOYMENTS_PATH}?since=now");
                let update: DeploymentStatusUpdate = hub.get(&path).await?;
                Cursor::Deployments(update.cursor)
            }
        };
        Ok(Waker { poller, cursor })
    }

    /// Waits for the next event; a status update is returned.
    async fn next(&mut self) -> Result<Option<ClusterStatusUpdate>, HubError> {
        loop {
            match &mut self.cursor {
                Cursor::Status(cursor) => {
                    let update: ClusterStatusUpdate =
                        (self
                            .poller
                            .long_poll("/v1/status", cursor, LONG_POLL_SECONDS))
                        .await?;
                    cursor.clone_from(&update.cursor);
                    if !update.is_empty() {
                        return Ok(Some(update));
                    }
                }
                Cursor::Deployments(cursor) => {
                    // Many clusters change at once in a rollout; each wake reads all rows again.
                    sleep(DEPLOYMENTS_PAUSE).await;
                    let update = self
                        .poller
                        .long_poll(DEPLOYMENTS_PATH, cursor, LONG_POLL_SECONDS);
                    let update: DeploymentStatusUpdate = update.await?;
                    cursor.clone_from(&update.cursor);
                    if !update.is_empty() {
                        return Ok(None);
                    }
                }
                Cursor::Changes(since) => {
                    if has_changed(&mut self.poller, since).await? {
                        return Ok(None);
                    }
                }
            }
        }
    }
}

/// Polls for changes once; true if there are any.
async fn has_changed(poller: &mut ChangePoller<'_>, since: &mut String) -> Result<bool, HubError> {
    match poller.poll(since, LONG_POLL_SECONDS).await {
        Ok(changes) => {
            *since = changes.revision.to_string();
            Ok(!changes.items.is_empty())
        }
        // The resources are read again in any case.
        Err(HubError::Compacted(_)) => {
            *since = poller.current_revision().await?.to_string();
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

/// Prints until the single watched resource is deleted, else without end. `fetch` reads the current resources; its argument is
/// the status update since the previous call, if that may be sufficient.
pub(crate) async fn watch<const N: usize>(
    hub: &HubClient,
    format: &OutputFormat,
    columns: [TableColumn; N],
    scope: WatchScope,
    wakes: Wakes,
    mut fetch: impl AsyncFnMut(Option<ClusterStatusUpdate>) -> Result<Vec<Row<N>>, HubError>,
) -> Result<(), Failure> {
    let mut waker = Waker::new(hub, wakes).await?;
    let mut told = None;
    let mut table = Columns::new(format, columns.clone());
    let mut known: BTreeMap<String, Printed> = BTreeMap::new();
    loop {
        let (rows, missing) = match compare(hub, scope, &known, fetch(told.take()).await).await {
            Ok(found) => found,
            Err(error) if error.is_temporary() => {
                waker.poller.wait_to_retry(&error).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        waker.poller.report_recovery();
        let mut changed = Vec::new();
        for row in rows {
            let printed = Printed {
                cells: shown_cells(format, &columns, row.cells.clone()),
                value: without_volatile_fields(&row.value),
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
            table.rows(changed.into_iter().map(|row| row.cells), line_width())
        } else {
            let lines = changed.iter().map(|row| line(format, &row.value));
            lines.collect::<Result<String, _>>()?
        };
        for missing in &missing {
            known.remove(&missing.id);
            text += &missing.line(format)?;
        }
        if !output::print_unless_closed(&text)? || (scope == WatchScope::One && known.is_empty()) {
            return Ok(());
        }
        told = waker.next().await?;
    }
}

/// Current rows, and the known rows that are missing from them.
async fn compare<const N: usize>(
    hub: &HubClient,
    scope: WatchScope,
    known: &BTreeMap<String, Printed>,
    fetched: Result<Vec<Row<N>>, HubError>,
) -> Result<(Vec<Row<N>>, Vec<Missing>), HubError> {
    let rows = fetched?;
    let there: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    let mut missing = Vec::new();
    for id in known.keys().filter(|id| !there.contains(id.as_str())) {
        missing.push(scope.missing(hub, id.clone()).await?);
    }
    Ok((rows, missing))
}

fn without_volatile_fields(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(Value::Object(status)) = value.get_mut("status") {
        status.retain(|name, _| !VOLATILE_FIELDS.contains(&name.as_str()));
    }
    value
}
