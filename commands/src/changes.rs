//! `fairlead changes`: the log of changes, once or as it grows.

use fairlead_api::{
    Code, Failure, TenantId, percent,
    resources::{ChangeEntry, Changes},
};
use fairlead_client::{
    Environment, HubClient,
    changes::{ChangePoller, LONG_POLL_SECONDS},
    query_of,
};
use serde_json::Value;

use crate::{
    args,
    output::{self, Cell, Columns, OutputError, TableColumn, line, line_width},
    runtime::block_on,
    tenant_filter::check_tenant,
};

/// Columns with minimum widths, because rows arrive one by one.
fn columns() -> [TableColumn; 8] {
    [
        TableColumn::word("REVISION"),
        TableColumn::word("AT").wide(),
        TableColumn::word("AGE").at_least(5),
        TableColumn::word("KIND").at_least(7).spare(1),
        TableColumn::id("ID").at_least(20),
        TableColumn::id("TENANT").at_least(10).spare(2),
        TableColumn::word("CHANGE").at_least(6),
        TableColumn::text("BY"),
    ]
}

pub(crate) fn run(args: args::ChangesArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        check_tenant(&hub, args.tenant.as_ref().filter(|_| args.follow)).await?;
        let mut poller = ChangePoller::new(&hub, output::note_outage).filtered(filter(&args));
        let since = match (&args.since, args.follow) {
            (Some(since), _) => since.clone(),
            (None, true) => poller.current_revision().await?.to_string(),
            (None, false) => "first".to_owned(),
        };
        let mut printer = Printer::new(&args);
        let mut since = since;
        loop {
            let wait = if args.follow { LONG_POLL_SECONDS } else { 0 };
            let changes = poller.poll(&since, wait).await?;
            since = changes.revision.to_string();
            let nothing = changes.items.is_empty();
            let still_read = printer.add(changes.items)?;
            if !still_read || (nothing && !args.follow) {
                if printer.is_empty && still_read {
                    check_filter(&hub, &args).await?;
                }
                return Ok::<_, Failure>(printer.end(changes.revision)?);
            }
        }
    })?
}

fn filter(args: &args::ChangesArgs) -> String {
    query_of([
        ("kind", args.kind.as_deref()),
        ("id", args.id.as_deref()),
        ("tenant", args.tenant.as_ref().map(TenantId::as_str)),
    ])
}

/// Reports a filter by an unknown resource, for a list without changes.
async fn check_filter(hub: &HubClient, args: &args::ChangesArgs) -> Result<(), Failure> {
    check_tenant(hub, args.tenant.as_ref()).await?;
    let Some(id) = &args.id else {
        return Ok(());
    };
    let path = match id.split_once('-') {
        Some(("c", _)) => format!("/clusters/{}", percent::encode(id)),
        Some(("t", _)) => format!("/tenants/{}", percent::encode(id)),
        Some(("b", _)) => format!("/v1/bundles/{}", percent::encode(id)),
        Some(("g", _)) => format!("/v1/groups/{}", percent::encode(id)),
        Some(("s", _)) => format!("/v1/sources/{}", percent::encode(id)),
        // Deleted and expired tokens are in the log only.
        Some(("k", _)) => return Ok(()),
        _ => {
            let cause = format!("--id {id:?}: an id begins with t-, c-, k-, b-, g- or s-");
            return Err(Failure::with_cause(Code::Invalid, cause));
        }
    };
    match hub.get_optional::<Value>(&path).await? {
        Some(_) => Ok(()),
        None => {
            let cause = format!(
                "--id: the log has no change of {id}, and no such resource is visible to you"
            );
            Err(Failure::with_cause(Code::NotFound, cause))
        }
    }
}

/// Printer of changes. With `--follow` each change is a value of its own, else JSON and YAML are one list.
struct Printer<'a> {
    args: &'a args::ChangesArgs,
    columns: Columns<8>,
    /// True before the first change.
    is_empty: bool,
    gathered: Vec<ChangeEntry>,
}

impl<'a> Printer<'a> {
    fn new(args: &'a args::ChangesArgs) -> Self {
        Printer {
            args,
            columns: Columns::new(&args.output.output, columns()),
            is_empty: true,
            gathered: Vec::new(),
        }
    }

    /// Prints changes; false if the reader of standard output is gone.
    fn add(&mut self, changes: Vec<ChangeEntry>) -> Result<bool, OutputError> {
        if changes.is_empty() {
            return Ok(true);
        }
        self.is_empty = false;
        let text = match &self.args.output.output {
            format if format.is_table() => {
                self.columns.rows(changes.iter().map(cells), line_width())
            }
            _ if !self.args.follow => {
                self.gathered.extend(changes);
                return Ok(true);
            }
            format => {
                let lines = changes.iter().map(|change| line(format, change));
                lines.collect::<Result<String, _>>()?
            }
        };
        output::print_unless_closed(&text)
    }

    fn end(self, revision: u64) -> Result<(), OutputError> {
        if self.args.output.output.is_table() {
            eprintln!("continue with --since {revision}");
            return Ok(());
        }
        let changes = Changes {
            revision,
            items: self.gathered,
        };
        output::show(&self.args.output.output, &changes, |_| String::new())
    }
}

fn cells(change: &ChangeEntry) -> [Cell; 8] {
    [
        change.revision.to_string().into(),
        output::time(change.at).into(),
        Cell::Since(change.at),
        change.kind.as_str().into(),
        change.id.clone().into(),
        change.tenant.as_ref().map(ToString::to_string).into(),
        change.operation.as_str().into(),
        change.actor.clone().into(),
    ]
}
