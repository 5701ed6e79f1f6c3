//! `fairlead run`: executions of deployments, and their logs.

use std::time::Duration;

use fairlead_api::{
    Code, Failure, RunId,
    delivery::{CancelMode, CreateRun, Run, RunKind, RunOrigin, RunState},
    resources::List,
};
use fairlead_client::{Environment, HubClient, HubError, RunLog, lookup::id_of, query_of};
use tokio::time::{Instant, sleep, timeout};

use super::diff;
use crate::{
    args,
    confirm::confirm,
    output::{self, Cell, OutputFormat, TableColumn},
    runtime::block_on,
};

const RUNS_PATH: &str = "/v1/runs";
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) fn run(command: args::RunArgs, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::from_environment(environment)?;
    block_on(async {
        match command {
            args::RunArgs::List(asked) => list(&hub, asked).await,
            args::RunArgs::Get { id, output } => {
                let run = find(&hub, &id).await?;
                show(&output.output, &run)
            }
            args::RunArgs::Logs(asked) => logs(&hub, asked).await,
            args::RunArgs::Cancel { id, hard, output } => {
                find(&hub, &id).await?;
                let query = if hard { "?hard=true" } else { "" };
                let path = format!("{RUNS_PATH}/{id}/cancel{query}");
                let cancelled: Run = hub.post_empty(&path).await?;
                show(&output.output, &cancelled)
            }
            args::RunArgs::Create(asked) => create(&hub, asked).await,
        }
    })?
}

async fn list(hub: &HubClient, asked: args::RunList) -> Result<(), Failure> {
    let cluster = match &asked.cluster {
        Some(name) => Some(id_of(hub, name).await?.to_string()),
        None => None,
    };
    let query = query_of([
        ("bundle", asked.bundle.map(|it| it.to_string())),
        ("cluster", cluster),
        ("state", asked.state.map(|it| it.as_str().to_owned())),
    ]);
    let path = format!("{RUNS_PATH}?{query}");
    let runs: List<Run> = hub.get(path.trim_end_matches('?')).await?;
    let format = &asked.output.output;
    Ok(output::show_list(format, &runs, "runs", &columns(), cells)?)
}

async fn logs(hub: &HubClient, asked: args::RunLogs) -> Result<(), Failure> {
    find(hub, &asked.id).await?;
    let mut log = RunLog::new(hub, asked.id, output::note_outage);
    match asked.follow {
        true => {
            log.follow(|text| Ok(output::print_unless_closed(&plain(text))?))
                .await
        }
        false => {
            log.read(|bytes| {
                let text = String::from_utf8_lossy(bytes);
                Ok(output::print_unless_closed(&plain(&text))?)
            })
            .await
        }
    }
}

/// Text without control characters but line ends and tabs: a program of a cluster must not control this terminal.
fn plain(text: &str) -> String {
    let is_kept = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().filter(|it| is_kept(*it)).collect()
}

async fn create(hub: &HubClient, asked: args::RunCreate) -> Result<(), Failure> {
    let cluster = id_of(hub, &asked.one.cluster).await?;
    let (bundle, kind) = (asked.one.bundle, RunKind::from(asked.kind));
    if kind == RunKind::Remove {
        let question = format!("This deletes the objects of {bundle} in {cluster}. Continue?");
        confirm(asked.yes, &question)?;
    }
    let request = CreateRun {
        cluster,
        bundle,
        kind,
    };
    let made: Run = hub.post(RUNS_PATH, &request).await?;
    after(hub, made, &asked.wait).await
}

/// Shows a new run, or follows it to its end.
///
/// # Errors
/// `FL-4113` if it does not end in time; the failure of the run.
pub(super) async fn after(hub: &HubClient, run: Run, wait: &args::RunWait) -> Result<(), Failure> {
    if !wait.wait {
        return show(&wait.output.output, &run);
    }
    output::note(&format!("waiting for {}", run.id));
    let ended = follow(hub, &run.id, wait.timeout.0).await?;
    show(&wait.output.output, &ended)?;
    failed(&ended).map_or(Ok(()), Err)
}

/// Copies the log to standard error until the run has ended.
async fn follow(hub: &HubClient, id: &RunId, within: Duration) -> Result<Run, Failure> {
    let deadline = Instant::now() + within;
    let mut log = RunLog::new(hub, id.clone(), output::note_outage);
    let copied = log.follow(|text| {
        plain(text).lines().for_each(output::note);
        Ok(true)
    });
    match timeout(within, copied).await {
        // The log is for readers with more rights than the run itself.
        Ok(Ok(())) | Err(_) => {}
        Ok(Err(failure)) if failure.code == Code::NotAllowed => {}
        Ok(Err(failure)) => return Err(failure),
    }
    until_ended(hub, id, deadline).await
}

/// Waits for the end of a run.
///
/// # Errors
/// `FL-4113` beyond the deadline.
pub(super) async fn until_ended(
    hub: &HubClient,
    id: &RunId,
    deadline: Instant,
) -> Result<Run, Failure> {
    loop {
        let step = match hub.get::<Run>(&format!("{RUNS_PATH}/{id}")).await {
            Ok(run) if run.state.is_final() => return Ok(run),
            Ok(run) => {
                let step = run.step.map_or(String::new(), |it| format!(", {it}"));
                format!("it is {}{step}", run.state.as_str())
            }
            Err(error) if error.is_temporary() => error.failure().cause.clone(),
            Err(error) => return Err(error.into()),
        };
        if Instant::now() >= deadline {
            let failure = Failure::because(Code::NotReady, format_args!("{id}: {step}"));
            return Err(failure.next(format!(
                "It continues; look at it with `fairlead run get {id}`."
            )));
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Failure of a run that ended without success.
pub(super) fn failed(run: &Run) -> Option<Failure> {
    if run.state == RunState::Succeeded {
        return None;
    }
    let result = run.result.as_deref().unwrap_or("it has no result");
    let cause = format!(
        "{} in {} is {}: {result}",
        run.id,
        run.cluster,
        run.state.as_str()
    );
    let code = run.code.as_deref().and_then(|it| it.parse().ok());
    let failure = Failure::with_cause(code.unwrap_or(Code::RunFailed), cause);
    Some(match code {
        Some(_) => failure,
        None => failure.next(format!("Read its log with `fairlead run logs {}`.", run.id)),
    })
}

async fn find(hub: &HubClient, id: &RunId) -> Result<Run, Failure> {
    let found = hub.get(&format!("{RUNS_PATH}/{id}")).await;
    found.map_err(|error| match error {
        HubError::NotFound(_) => Failure::because(Code::NotFound, format_args!("the run {id}"))
            .next("List the runs with `fairlead run list`."),
        other => other.into(),
    })
}

fn show(format: &OutputFormat, run: &Run) -> Result<(), Failure> {
    Ok(output::show(format, run, |run| {
        let mut text = output::table(format, &columns(), [cells(run)]);
        if let Some(result) = &run.result {
            let code = run.code.as_deref();
            let code = code.map_or(String::new(), |it| format!(" ({it})"));
            text += &format!("\nresult: {}{code}\n", output::plain(result));
        }
        if let Some(mode) = run.cancel.filter(|_| !run.state.is_final()) {
            let mode = match mode {
                CancelMode::Soft => "after its current step",
                CancelMode::Hard => "at once",
            };
            text += &format!("\ncancelled: it ends {mode}\n");
        }
        if let Some(found) = &run.diff {
            text += &format!("\n{}", diff::objects(found));
        }
        text
    })?)
}

pub(super) const fn kind(kind: RunKind) -> &'static str {
    match kind {
        RunKind::Sync => "sync",
        RunKind::Diff => "diff",
        RunKind::Remove => "remove",
    }
}

const fn origin(origin: RunOrigin) -> &'static str {
    match origin {
        RunOrigin::Desired => "desired",
        RunOrigin::Drift => "drift",
        RunOrigin::Command => "command",
    }
}

fn columns() -> [TableColumn; 12] {
    [
        TableColumn::key("ID"),
        TableColumn::id("CLUSTER"),
        TableColumn::id("BUNDLE"),
        TableColumn::word("KIND"),
        TableColumn::word("ORIGIN").spare(1),
        TableColumn::word("STATE"),
        TableColumn::word("GEN").spare(2),
        TableColumn::word("AGE").spare(3),
        TableColumn::word("ATTEMPT").wide(),
        TableColumn::word("LOG").wide(),
        TableColumn::id("BY").wide(),
        TableColumn::text("STEP").spare(4),
    ]
}

fn cells(run: &Run) -> [Cell; 12] {
    let step = run.step.clone().filter(|_| !run.state.is_final());
    [
        run.id.to_string().into(),
        run.cluster.to_string().into(),
        run.bundle.to_string().into(),
        kind(run.kind).into(),
        origin(run.origin).into(),
        run.state.as_str().into(),
        run.generation.to_string().into(),
        Cell::since(run.started_at),
        run.attempt.to_string().into(),
        super::folder::size(run.log_bytes).into(),
        run.created_by.clone().into(),
        step.or_else(|| run.result.clone()).into(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ended(state: &str, code: Option<&str>) -> Run {
        serde_json::from_value(json!({
            "id": "run-01KB0000000000000000000000", "cluster": "c-a", "bundle": "b-shop", "kind": "sync",
            "origin": "command", "state": state, "attempt": 1, "createdBy": "ann", "logBytes": 2048,
            "result": "field .spec.replicas belongs to kubectl", "code": code,
        }))
        .unwrap()
    }

    #[test]
    fn ended_run_fails_with_its_own_code_or_that_of_any_run() {
        assert!(failed(&ended("Succeeded", None)).is_none());
        let failure = failed(&ended("Failed", Some("FL-1502"))).unwrap();
        assert_eq!(failure.code.to_string(), "FL-1502");
        let failure = failed(&ended("Cancelled", None)).unwrap();
        assert_eq!(failure.code, Code::RunFailed);
        assert!(
            failure.cause.contains("is Cancelled: field .spec.replicas"),
            "{failure:?}"
        );
        assert!(
            failure.next_step().contains("fairlead run logs run-"),
            "{failure:?}"
        );
    }

    #[test]
    fn log_does_not_control_the_terminal() {
        assert_eq!(plain("a\u{1b}[31m\r\n\tb\u{7}"), "a[31m\n\tb");
    }
}
