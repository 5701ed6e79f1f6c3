//! `-w`: prints tenants and clusters again whenever something of them is another than what was printed. The hub tells when
//! that may be so, and of clusters how it stands with them; what is printed was told or read behind that, and is true.

use std::collections::{BTreeMap, BTreeSet};

use fairlead_api::{Code, Failure, resources::Standings};
use serde_json::{Value, json};

use crate::{
    changes::{Seen, WAIT, is_away, line},
    hub_client::HubClient,
    output::{self, Columns, Format},
};

/// Fields that tell nothing but that time goes by.
const TICKING: [&str; 2] = ["lastSeen", "lastGoodProbe"];

/// One thing as it is printed.
pub(crate) struct Row<const N: usize> {
    pub(crate) id: String,
    pub(crate) cells: [String; N],
    pub(crate) value: Value,
}

/// What was printed of one thing last.
#[derive(PartialEq)]
struct Printed<const N: usize> {
    cells: [String; N],
    value: Value,
}

/// What may make something another than was printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wakes {
    Changes,
    /// That, and how it stands with clusters.
    Status,
}

struct Waker<'a> {
    wakes: Wakes,
    seen: Seen<'a>,
    since: String,
}

impl<'a> Waker<'a> {
    async fn new(hub: &'a HubClient, wakes: Wakes) -> Result<Self, Failure> {
        let seen = Seen::new(hub);
        let since = match wakes {
            Wakes::Changes => seen.now().await?.to_string(),
            Wakes::Status => hub.get::<Standings>("/v1/status").await?.cursor,
        };
        Ok(Waker { wakes, seen, since })
    }

    /// Until there may be something to print; of clusters what that is.
    async fn next(&mut self) -> Result<Option<Standings>, Failure> {
        loop {
            if self.wakes == Wakes::Status {
                let told: Standings = self.seen.ask("/v1/status", &self.since, WAIT).await?;
                self.since.clone_from(&told.cursor);
                if told.is_nothing() {
                    continue;
                }
                return Ok(Some(told));
            }
            match self.seen.poll(&self.since, WAIT).await {
                Ok(changes) => {
                    self.since = changes.revision.to_string();
                    if !changes.items.is_empty() {
                        return Ok(None);
                    }
                }
                // All of it is read anew anyway.
                Err(failure) if failure.code == Code::Compacted => {
                    self.since = self.seen.now().await?.to_string();
                    return Ok(None);
                }
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// Prints for ever, or until the `only` thing that is watched is gone. `fetch` gives what there is; it is given what the hub
/// has told since it was asked last, where that may be all.
pub(crate) async fn watch<const N: usize>(
    hub: &HubClient,
    format: &Format,
    header: [&str; N],
    only: bool,
    wakes: Wakes,
    mut fetch: impl AsyncFnMut(Option<Standings>) -> Result<Vec<Row<N>>, Failure>,
) -> Result<(), Failure> {
    let mut waker = Waker::new(hub, wakes).await?;
    let mut told = None;
    let mut columns = Columns::new();
    let mut known: BTreeMap<String, Printed<N>> = BTreeMap::new();
    if *format == Format::Table && !output::still_read(&columns.row(&header.map(str::to_owned)))? {
        return Ok(());
    }
    loop {
        let rows = match fetch(told.take()).await {
            Ok(rows) => rows,
            Err(failure) if is_away(&failure) => {
                waker.seen.rest(&failure).await;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        waker.seen.is_back();
        let mut text = String::new();
        let there: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        let gone = known.keys().filter(|id| !there.contains(id.as_str()));
        let gone: Vec<String> = gone.cloned().collect();
        for row in rows {
            let printed = Printed {
                cells: row.cells,
                value: without_ticking(&row.value),
            };
            let is_new = match (format, known.get(&row.id)) {
                (_, None) => true,
                (Format::Table, Some(before)) => before.cells != printed.cells,
                (_, Some(before)) => before.value != printed.value,
            };
            if is_new {
                text += &match format {
                    Format::Table => columns.row(&printed.cells),
                    format => line(format, &row.value)?,
                };
            }
            known.insert(row.id, printed);
        }
        for id in &gone {
            known.remove(id);
            text += &match format {
                Format::Table => format!("{id} was deleted\n"),
                format => line(format, &json!({ "id": id, "deleted": true }))?,
            };
        }
        if !output::still_read(&text)? || (only && known.is_empty()) {
            return Ok(());
        }
        told = waker.next().await?;
    }
}

fn without_ticking(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(Value::Object(status)) = value.get_mut("status") {
        status.retain(|name, _| !TICKING.contains(&name.as_str()));
    }
    value
}
