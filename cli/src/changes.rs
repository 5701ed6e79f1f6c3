//! `fairlead changes`, and the poller of changes. It continues from the last observed revision, so an outage of the hub loses
//! no change.

use std::time::Duration;

use fairlead_api::{
    Code, Failure, TenantId, percent,
    resources::{ChangeEntry, Changes},
};
use fairlead_client::{Environment, HubClient, HubError, query_of};
use fairlead_runtime::backoff::ExponentialDelay;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    args,
    output::{self, Cell, Columns, OutputError, TableColumn, line, line_width},
    settings::block_on,
    tenant_filter::check_tenant,
};

/// First and longest delay before a request to an unavailable hub is repeated.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(500);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);
/// Longest wait of a long poll that the hub accepts, in seconds.
pub(crate) const LONG_POLL_SECONDS: u64 = 25;

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
        let mut poller = ChangePoller::filtered(&hub, &args);
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

/// Reports a filter by an unknown resource, for a list without changes.
async fn check_filter(hub: &HubClient, args: &args::ChangesArgs) -> Result<(), Failure> {
    check_tenant(hub, args.tenant.as_ref()).await?;
    let Some(id) = &args.id else {
        return Ok(());
    };
    let path = match id.split_once('-') {
        Some(("c", _)) => format!("/clusters/{}", percent::encode(id)),
        Some(("t", _)) => format!("/tenants/{}", percent::encode(id)),
        // Deleted and expired tokens are in the log only.
        Some(("k", _)) => return Ok(()),
        _ => {
            let cause = format!("--id {id:?}: an id begins with t-, c- or k-");
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

/// Poller of changes. It waits for an unavailable hub, and reports the outage once.
pub(crate) struct ChangePoller<'a> {
    hub: &'a HubClient,
    delay: ExponentialDelay,
    /// Additional query parameters of `/v1/changes`; empty for all changes.
    filter: String,
}

impl<'a> ChangePoller<'a> {
    pub(crate) fn new(hub: &'a HubClient) -> Self {
        ChangePoller {
            hub,
            delay: ExponentialDelay::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX),
            filter: String::new(),
        }
    }

    fn filtered(hub: &'a HubClient, args: &args::ChangesArgs) -> Self {
        let filter = query_of([
            ("kind", args.kind.as_deref()),
            ("id", args.id.as_deref()),
            ("tenant", args.tenant.as_ref().map(TenantId::as_str)),
        ]);
        ChangePoller {
            filter,
            ..ChangePoller::new(hub)
        }
    }

    /// Current revision. Changes after it are those that a later list does not have.
    pub(crate) async fn current_revision(&self) -> Result<u64, HubError> {
        let changes: Changes = self.hub.get("/v1/changes").await?;
        Ok(changes.revision)
    }

    /// Changes since a revision. Returns as soon as there is one, at the latest after `wait` seconds.
    ///
    /// # Errors
    /// [`HubError`]; [`HubError::Compacted`] if it no longer has the changes since that revision.
    pub(crate) async fn poll(&mut self, since: &str, wait: u64) -> Result<Changes, HubError> {
        let path = format!("/v1/changes?{}", self.filter);
        self.long_poll(path.trim_end_matches('?'), since, wait)
            .await
    }

    /// Long poll of another path; `since` is the end of the previous response.
    pub(crate) async fn long_poll<T: DeserializeOwned>(
        &mut self,
        path: &str,
        since: &str,
        wait: u64,
    ) -> Result<T, HubError> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{mark}since={}&wait={wait}", percent::encode(since));
        loop {
            match self.hub.get(&path).await {
                Err(error) if wait > 0 && error.is_temporary() => self.wait_to_retry(&error).await,
                answer => {
                    self.report_recovery();
                    return answer;
                }
            }
        }
    }

    /// Waits before the next request to an unavailable hub.
    pub(crate) async fn wait_to_retry(&mut self, error: &HubError) {
        if self.delay.is_reset() {
            let failure = error.failure();
            eprintln!("{} ({}); waiting for the hub", failure.cause, failure.code);
        }
        sleep(self.delay.next_delay()).await;
    }

    pub(crate) fn report_recovery(&mut self) {
        if !self.delay.is_reset() {
            eprintln!("the hub is back");
        }
        self.delay.reset();
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
