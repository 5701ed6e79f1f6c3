//! `fairlead top`: clusters with their state, round trip, requests and bytes per second.

mod keys;
mod rates;
mod screen;

use std::{io::IsTerminal, time::Duration};

use fairlead_api::{
    Code, Failure, HubUrl,
    resources::{Activity, List},
};
use fairlead_client::{Environment, HubClient, query_of};
use tokio::time::sleep;

use self::{
    keys::{SortKey, View},
    rates::{TopRow, rates},
};
use crate::{
    args,
    output::{self, Cell, OutputFormat, TableColumn},
    runtime::block_on,
    tenant_filter::check_tenant,
};

pub(crate) fn run(args: &args::TopArgs, environment: &Environment) -> Result<(), Failure> {
    let interval = args.interval.0;
    if interval.is_zero() {
        return Err(Failure::because(Code::Usage, "--interval: at least 1s"));
    }
    let hub = HubClient::from_environment(environment)?;
    let query = query_of([
        ("tenant", args.tenant.as_ref().map(ToString::to_string)),
        ("text", args.text.clone()),
    ]);
    let path = format!("/v1/activity?{query}");
    let on_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    block_on(async {
        check_tenant(&hub, args.tenant.as_ref()).await?;
        if args.once || !on_terminal || !args.output.output.is_table() {
            return once(&hub, &path, interval, &args.output.output).await;
        }
        screen::run(&hub, &path, interval).await
    })?
}

/// Measures for one interval, and prints the rates.
async fn once(
    hub: &HubClient,
    path: &str,
    interval: Duration,
    format: &OutputFormat,
) -> Result<(), Failure> {
    let before: Activity = hub.get(path).await?;
    sleep(interval).await;
    let now: Activity = hub.get(path).await?;
    note_missing(&now.incomplete_hubs);
    let mut rows = rates(Some(&before), &now);
    View::default().arrange(&mut rows);
    let list = List { items: rows };
    Ok(output::show_list(
        format,
        &list,
        "clusters",
        &columns(None),
        cells,
    )?)
}

/// Names hubs whose sessions are missing.
pub(crate) fn note_missing(hubs: &[HubUrl]) {
    for hub in hubs {
        output::note(&missing(hub));
    }
}

fn missing(hub: &HubUrl) -> String {
    format!("Sessions at {hub} are missing: that hub did not answer.")
}

/// Columns; that of the sort key is marked.
fn columns(sorted: Option<(SortKey, bool)>) -> [TableColumn; 11] {
    let name = |key: SortKey, name: &'static str| match sorted {
        Some((by, reversed)) if by == key => match reversed {
            false => format!("{name}*"),
            true => format!("{name}^"),
        },
        _ => name.to_owned(),
    };
    [
        TableColumn::id(name(SortKey::Name, "NAME")).spare(5),
        TableColumn::key("ID"),
        TableColumn::id("TENANT").spare(2),
        TableColumn::word(name(SortKey::State, "STATE")),
        TableColumn::word(name(SortKey::Version, "VERSION")).spare(4),
        TableColumn::word(name(SortKey::Rtt, "RTT")),
        TableColumn::word("OPEN").spare(3),
        TableColumn::word(name(SortKey::Requests, "REQ/S")),
        TableColumn::word(name(SortKey::BytesIn, "IN/S")),
        TableColumn::word(name(SortKey::BytesOut, "OUT/S")),
        TableColumn::text("HUBS").wide(),
    ]
}

fn cells(row: &TopRow) -> [Cell; 11] {
    let hubs: Vec<String> = row.hubs.iter().map(ToString::to_string).collect();
    let rate = |rate: Option<f64>| rate.map(|it| format!("{it:.1}"));
    [
        row.display_name.clone().into(),
        row.id.to_string().into(),
        row.tenant.to_string().into(),
        row.state.to_string().into(),
        row.agent_versions.join(",").into(),
        row.rtt_micros
            .map(|it| format!("{:.1}ms", it as f64 / 1000.0))
            .into(),
        row.requests_open.map(|it| it.to_string()).into(),
        rate(row.requests_per_second).into(),
        row.bytes_in_per_second.map(bytes).into(),
        row.bytes_out_per_second.map(bytes).into(),
        hubs.join(",").into(),
    ]
}

/// Bytes with a binary unit, like `1.5 MiB`.
fn bytes(count: f64) -> String {
    let mut count = count;
    for unit in ["B", "KiB", "MiB"] {
        if count < 1024.0 {
            return match unit {
                "B" => format!("{count:.0}B"),
                _ => format!("{count:.1}{unit}"),
            };
        }
        count /= 1024.0;
    }
    format!("{count:.1}GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_a_binary_unit() {
        for (count, text) in [
            (0.0, "0B"),
            (1023.0, "1023B"),
            (1536.0, "1.5KiB"),
            (5.0 * 1024.0 * 1024.0, "5.0MiB"),
            (5e13, "46566.1GiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}
