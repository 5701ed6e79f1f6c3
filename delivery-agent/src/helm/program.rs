//! One program in the runner: started, followed to its end, cancelled, and found again after a restart of the agent.

use std::time::Duration;

use fairlead_api::Code;
use fairlead_runner::{
    Refusal, RunFile, RunKey, RunRequest, RunStatus, Runner, RunnerError, cut_mark,
    release::ProcessState,
};
use secrecy::ExposeSecret;
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::note::{HelmStep, RunnerMark};
use crate::{
    engine::{CancelSignal, FailureClass, RunFailure, RunLog},
    fence::RunToken,
};

/// Time that one call waits for output.
const OUTPUT_WAIT: Duration = Duration::from_secs(20);
/// Time to wait for a runner that restarts.
const RUNNER_ABSENCE_MAX: Duration = Duration::from_secs(60);
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Time to wait for a slot of the runner. The engine limits the number of programs, so this is short.
const BUSY_WAIT_MAX: Duration = Duration::from_secs(120);

/// End of a program.
#[derive(Debug)]
pub(crate) enum ProgramEnd {
    /// It ended, and the runner reports how.
    Ended(Box<RunStatus>),
    /// It ended with its runner.
    Lost {
        /// True if the programs used most of the memory.
        for_memory: bool,
    },
}

/// Output of a program.
pub(crate) enum OutputSink<'a> {
    /// It goes into the log of the run.
    Log(&'a RunLog),
    /// It is the answer to a query, of use as a whole only.
    Answer(&'a mut Vec<u8>),
}

/// Mark of the runner, for the journal.
pub(crate) async fn mark(runner: &Runner) -> Result<RunnerMark, RunFailure> {
    let info = runner.info().await.map_err(|error| away(&error))?;
    Ok(RunnerMark::from(&info))
}

/// State of the program of a step.
pub(crate) async fn state(runner: &Runner, step: &HelmStep) -> ProcessState {
    let Ok(info) = runner.info().await else {
        return ProcessState::Unknown;
    };
    if info.place != step.runner.place {
        // Another pod: its node may be cut off, with the program alive.
        return ProcessState::Unknown;
    }
    if info.instance != step.runner.instance {
        return ProcessState::Dead;
    }
    match runner.status(&step.key).await {
        Ok(status) if status.ending().is_none() => ProcessState::Alive,
        Ok(_) | Err(RunnerError::Refused(Refusal::UnknownRun)) => ProcessState::Dead,
        Err(_) => ProcessState::Unknown,
    }
}

/// Starts a program; waits while the runner is busy or restarts.
pub(crate) async fn start(
    runner: &Runner,
    key: &RunKey,
    request: &RunRequest,
    files: &[RunFile],
) -> Result<(), RunFailure> {
    let begin = Instant::now();
    loop {
        let error = match runner.start(key, request.clone(), files.to_vec()).await {
            Ok(_) => return Ok(()),
            // A result of an earlier operation of this attempt, which nobody needs any more.
            Err(RunnerError::Refused(Refusal::OtherRun)) => {
                let acknowledged = runner.acknowledge(key).await;
                match acknowledged {
                    Ok(()) => continue,
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        let is_passing = match &error {
            RunnerError::Refused(refusal) => refusal.is_temporary(),
            _ => true,
        };
        let limit = match &error {
            RunnerError::Refused(Refusal::Busy | Refusal::TableFull) => BUSY_WAIT_MAX,
            _ => RUNNER_ABSENCE_MAX,
        };
        if !is_passing || begin.elapsed() >= limit {
            return Err(away(&error));
        }
        sleep(RETRY_INTERVAL).await;
    }
}

/// Follows a program to its end. An order to end at once terminates it; otherwise the program ends by itself.
pub(crate) async fn follow(
    runner: &Runner,
    step: &HelmStep,
    cancel: &CancelSignal,
    token: &RunToken,
    mut sink: OutputSink<'_>,
) -> Result<ProgramEnd, RunFailure> {
    let key = &step.key;
    let mut token = token.clone();
    let mut next = 0;
    let mut is_cancelled = false;
    let mut absent_since: Option<Instant> = None;
    loop {
        let piece = tokio::select! {
            renewed = token.renewed() => {
                if let Err(error) = runner.replace_token(key, renewed.expose_secret()).await {
                    warn!(run = %key, %error, "token of a program not renewed");
                }
                continue;
            }
            piece = runner.output(key, next, OUTPUT_WAIT) => piece,
            () = cancel.cancelled_hard(), if !is_cancelled => {
                is_cancelled = runner.cancel(key, false).await.is_ok();
                if !is_cancelled {
                    sleep(RETRY_INTERVAL).await;
                }
                continue;
            }
        };
        match piece {
            Ok(piece) => {
                absent_since = None;
                take(
                    &mut sink,
                    piece.offset - next.min(piece.offset),
                    &piece.bytes,
                )?;
                next = piece.next();
                if piece.is_last() {
                    acknowledge(runner, key).await;
                    return Ok(ProgramEnd::Ended(Box::new(piece.status)));
                }
            }
            Err(error) => {
                if let Some(end) = lost(runner, step, &error).await {
                    return Ok(end);
                }
                let since = *absent_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= RUNNER_ABSENCE_MAX {
                    return Err(away(&error));
                }
                sleep(RETRY_INTERVAL).await;
            }
        }
    }
}

fn take(sink: &mut OutputSink<'_>, cut: u64, bytes: &[u8]) -> Result<(), RunFailure> {
    match sink {
        OutputSink::Log(log) => {
            if cut > 0 {
                log.output(cut_mark(cut).as_bytes());
            }
            log.output(bytes);
        }
        OutputSink::Answer(_) if cut > 0 => {
            let sentence = "the answer of Helm is too large for the runner";
            return Err(RunFailure::new(
                FailureClass::Permanent,
                Code::HelmFailed,
                sentence,
            ));
        }
        OutputSink::Answer(answer) => answer.extend_from_slice(bytes),
    }
    Ok(())
}

/// The end of a program whose runner is another one by now.
async fn lost(runner: &Runner, step: &HelmStep, error: &RunnerError) -> Option<ProgramEnd> {
    let is_unknown = matches!(error, RunnerError::Refused(Refusal::UnknownRun));
    let info = runner.info().await.ok()?;
    if !is_unknown && info.instance == step.runner.instance {
        return None;
    }
    Some(ProgramEnd::Lost {
        for_memory: info.replaces_memory_kill && info.place == step.runner.place,
    })
}

/// Terminates a program at once, and waits for its end.
pub(crate) async fn kill(runner: &Runner, step: &HelmStep) -> Result<(), RunFailure> {
    let begin = Instant::now();
    while state(runner, step).await == ProcessState::Alive {
        if begin.elapsed() >= RUNNER_ABSENCE_MAX {
            let sentence = "the runner does not end a program of an earlier run";
            return Err(RunFailure::new(
                FailureClass::Waiting,
                Code::RunnerAway,
                sentence,
            ));
        }
        let _ = runner.cancel(&step.key, true).await;
        sleep(RETRY_INTERVAL / 5).await;
    }
    acknowledge(runner, &step.key).await;
    Ok(())
}

/// Ends the program of an earlier attempt. False if the runner does not report its end.
pub(crate) async fn end(runner: &Runner, step: &HelmStep) -> bool {
    if state(runner, step).await == ProcessState::Alive
        && let Err(failure) = kill(runner, step).await
    {
        warn!(run = %step.key, cause = %failure, "program of an earlier run not ended");
    }
    state(runner, step).await == ProcessState::Dead
}

async fn acknowledge(runner: &Runner, key: &RunKey) {
    if let Err(error) = runner.acknowledge(key).await {
        warn!(run = %key, %error, "result of a program not acknowledged");
    }
}

/// Failure of a call to the runner.
pub(crate) fn away(error: &RunnerError) -> RunFailure {
    let class = match error {
        RunnerError::Refused(Refusal::TooLarge | Refusal::Invalid(_)) => FailureClass::Permanent,
        _ => FailureClass::Waiting,
    };
    let code = match error {
        RunnerError::Refused(Refusal::TooLarge | Refusal::Invalid(_)) => Code::HelmChartInvalid,
        _ => Code::RunnerAway,
    };
    RunFailure::new(class, code, error.to_string())
}

#[cfg(test)]
mod tests;
