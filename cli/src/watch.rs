//! `-w`: prints tenants and clusters again whenever something of them is another than what was printed. What changes wakes it
//! at once; how it stands with a cluster is no change of the registry and is looked at every few seconds. Either way what is
//! printed was read behind that, and is true.

use std::collections::{BTreeMap, BTreeSet};

use fairlead_api::{Code, Failure};
use serde_json::{Value, json};

use crate::{
    changes::{Seen, is_away, line},
    hub_client::HubClient,
    output::{self, Columns, Format},
};

/// How long a status may be older than what is printed, in seconds.
const LOOK_EVERY: u64 = 2;
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

/// Prints for ever, or until the `only` thing that is watched is gone.
pub(crate) async fn watch<const N: usize>(
    hub: &HubClient,
    format: &Format,
    header: [&str; N],
    only: bool,
    fetch: impl AsyncFn() -> Result<Vec<Row<N>>, Failure>,
) -> Result<(), Failure> {
    let mut seen = Seen::new(hub);
    let mut since = seen.now().await?;
    let mut columns = Columns::new();
    let mut known: BTreeMap<String, Printed<N>> = BTreeMap::new();
    if *format == Format::Table && !output::still_read(&columns.row(&header.map(str::to_owned)))? {
        return Ok(());
    }
    loop {
        let rows = match fetch().await {
            Ok(rows) => rows,
            Err(failure) if is_away(&failure) => {
                seen.rest(&failure).await;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        seen.is_back();
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
        since = match seen.poll(&since.to_string(), LOOK_EVERY).await {
            Ok(changes) => changes.revision,
            // All of it is read anew anyway.
            Err(failure) if failure.code == Code::Compacted => seen.now().await?,
            Err(failure) => return Err(failure),
        };
    }
}

fn without_ticking(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(Value::Object(status)) = value.get_mut("status") {
        status.retain(|name, _| !TICKING.contains(&name.as_str()));
    }
    value
}
