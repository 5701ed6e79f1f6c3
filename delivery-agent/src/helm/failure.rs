//! Failures of Helm in one sentence, from its exit, its errors and its record.
//!
//! Helm has no codes, so its texts are matched. They are those of Helm 4; any other text becomes a general failure.

mod parse;

use fairlead_api::Code;
use fairlead_manifests::ObjectKey;
use fairlead_runner::{Cause, Ending, Exit};

use super::target::ReleaseTarget;
use crate::engine::{FailureClass, RunFailure};
use parse::{
    after, between, error_text, immutable_object, import_conflict, kube_object, missing_right,
    one_line, schema_problem, template_place, template_trace,
};

/// A program that did not succeed.
pub(crate) struct Failed<'a> {
    pub(crate) target: &'a ReleaseTarget,
    pub(crate) ending: &'a Ending,
    /// The end of stderr, masked.
    pub(crate) errors: &'a str,
    /// Kind and name of the failed hook, by the record.
    pub(crate) hook: Option<(&'a str, &'a str)>,
    /// Memory limit of the runner in bytes.
    pub(crate) memory_limit: Option<u64>,
    pub(crate) timeout_seconds: u32,
}

/// Judges a program that did not succeed.
pub(crate) fn judge(failed: &Failed<'_>) -> RunFailure {
    by_ending(failed).unwrap_or_else(|| by_text(failed))
}

fn by_ending(failed: &Failed<'_>) -> Option<RunFailure> {
    let target = failed.target;
    let (code, class, cause) = match (failed.ending.cause, failed.ending.exit) {
        _ if failed.ending.out_of_memory => {
            let limit = failed.memory_limit.map(limit_text).unwrap_or_default();
            let cause = format!("Helm was killed for memory{limit}");
            (Code::HelmMemory, FailureClass::Retry, cause)
        }
        (Cause::TimedOut, _) => {
            let minutes = failed.timeout_seconds / 60;
            let cause = format!("Helm did not end within {minutes} min");
            (Code::HelmTimeout, FailureClass::Retry, cause)
        }
        (Cause::AgentGone | Cause::RunnerEnded, _) => (
            Code::RunnerAway,
            FailureClass::Waiting,
            "the runner ended while Helm ran".to_owned(),
        ),
        (_, Exit::Signal(signal)) => {
            let cause = format!("Helm was ended by signal {signal}");
            (Code::HelmFailed, FailureClass::Retry, cause)
        }
        _ => return None,
    };
    Some(RunFailure::new(class, code, format!("{target}: {cause}")))
}

/// Failure of an earlier program, by the description of its revision, like `Upgrade "web" failed: …`.
pub(crate) fn of_description(target: &ReleaseTarget, description: &str) -> RunFailure {
    let ending = Ending {
        exit: Exit::Code(1),
        cause: Cause::Finished,
        out_of_memory: false,
        duration_ms: 0,
    };
    let text = description
        .split_once(" failed: ")
        .map_or(description, |it| it.1);
    by_text(&Failed {
        target,
        ending: &ending,
        errors: text,
        hook: None,
        memory_limit: None,
        timeout_seconds: 0,
    })
}

pub(crate) fn limit_text(bytes: u64) -> String {
    const BYTES_PER_MIB: u64 = 1 << 20;
    match bytes / BYTES_PER_MIB {
        mib if mib >= 1024 && mib % 1024 == 0 => format!(" (limit {} GiB)", mib / 1024),
        mib => format!(" (limit {mib} MiB)"),
    }
}

fn by_text(failed: &Failed<'_>) -> RunFailure {
    let target = failed.target;
    let text = error_text(failed.errors);
    let (code, class, cause) = chart(text)
        .or_else(|| hook(text, failed))
        .or_else(|| cluster(text, target))
        .unwrap_or_else(|| {
            let cause = match one_line(text) {
                line if line.is_empty() => "Helm failed without a message".to_owned(),
                line => line,
            };
            (Code::HelmFailed, FailureClass::Retry, cause)
        });
    RunFailure::new(class, code, format!("{target}: {cause}"))
}

type Finding = Option<(Code, FailureClass, String)>;

/// Faults of the chart and of its values: nothing was written.
fn chart(text: &str) -> Finding {
    let never = |code, cause| Some((code, FailureClass::Permanent, cause));
    if let Some(problems) = after(text, "in the following chart(s):\n") {
        return never(Code::HelmValuesRefused, schema_problem(problems));
    }
    if let Some(needs) = after(text, "chart requires kubeVersion: ") {
        let needs = one_line(needs).replace(" which is incompatible with ", ", the cluster has ");
        return never(
            Code::HelmKubernetesVersion,
            format!("the chart needs Kubernetes {needs}"),
        );
    }
    if let Some(missing) = after(text, "missing in charts/ directory: ") {
        let cause = format!("the chart lacks its dependencies {}", one_line(missing));
        return never(Code::HelmChartInvalid, cause);
    }
    if text.contains("unable to detect chart at")
        || text.contains("validation: chart.metadata")
        || text.contains("cannot load Chart.yaml")
    {
        let cause = one_line(text.rsplit("Chart.yaml: ").next().unwrap_or(text));
        return never(
            Code::HelmChartInvalid,
            format!("Chart.yaml is unusable: {cause}"),
        );
    }
    let (place, problem) = template_place(text).or_else(|| template_trace(text))?;
    never(Code::HelmTemplateFailed, format!("{place}: {problem}"))
}

fn hook(text: &str, failed: &Failed<'_>) -> Finding {
    let (before, cause) = text
        .split_once(" hooks failed: ")
        .or_else(|| text.split_once(": failed post-install: "))
        .or_else(|| Some(("post-install", after(text, "failed post-install: ")?)))
        .or_else(|| Some(("pre-install", after(text, "failed pre-install: ")?)))
        .or_else(|| Some(("", after(text, "warning: Hook ")?)))?;
    let event = before.rsplit([' ', ':']).next().unwrap_or_default();
    let hook = match failed.hook {
        Some((kind, name)) => format!("hook {kind} {}/{name}", failed.target.namespace),
        None => "a hook".to_owned(),
    };
    let event = match event {
        "" => String::new(),
        event => format!(" ({event})"),
    };
    if cause.contains("context deadline exceeded") || cause.contains("timed out waiting") {
        let minutes = failed.timeout_seconds / 60;
        let cause = format!("{hook}{event} did not end within its time of {minutes} min");
        return Some((Code::HelmHookFailed, FailureClass::Retry, cause));
    }
    let cause = format!("{hook}{event} failed: {}", one_line(cause));
    Some((Code::HelmHookFailed, FailureClass::Retry, cause))
}

/// Refusals of the API server.
fn cluster(text: &str, target: &ReleaseTarget) -> Finding {
    if text.contains("kubernetes cluster unreachable")
        || text.contains("connection refused")
        || text.contains("the server has asked for the client to provide credentials")
        || text.contains("etcdserver: ")
    {
        let cause = format!(
            "Helm cannot work with the API server: {}",
            last_cause(text, "unreachable: ")
        );
        return Some((Code::ApiServerAway, FailureClass::Waiting, cause));
    }
    if let Some((user, right)) = missing_right(text) {
        let cause = format!("{user} needs the rule {right}");
        return Some((Code::MissingRight, FailureClass::Retry, cause));
    }
    if text.contains("cannot be imported into the current release") {
        return Some((
            Code::HelmObjectOwned,
            FailureClass::Permanent,
            import_conflict(text, target),
        ));
    }
    if text.contains("field is immutable") || text.contains("updates to statefulset spec") {
        let cause = immutable_object(text);
        return Some((Code::HelmFieldImmutable, FailureClass::Permanent, cause));
    }
    if let Some(rest) = after(text, "conflict with \"") {
        let manager = rest.split('"').next().unwrap_or_default();
        let fields = rest
            .split_once(": ")
            .map_or(rest, |it| it.1)
            .replace("\n- ", " ");
        let object = kube_object(text).unwrap_or_else(|| "an object".to_owned());
        let cause = format!("{object}: {manager} holds {}", one_line(&fields));
        return Some((Code::HelmFieldConflict, FailureClass::Permanent, cause));
    }
    if let Some((_, cause)) = text.split_once("failed to create typed patch object") {
        let object = kube_object(text).unwrap_or_else(|| "an object".to_owned());
        let cause = one_line(cause.split_once("): ").map_or(cause, |it| it.1));
        let cause = format!("{object} does not fit its schema: {cause}");
        return Some((Code::ObjectRefused, FailureClass::Permanent, cause));
    }
    if let Some(kind) = between(text, "no matches for kind \"", "\"") {
        let version = between(text, "in version \"", "\"").unwrap_or("unknown");
        let cause = format!("waits for kind {kind} ({version}), which the cluster has not");
        return Some((Code::DeploymentWaits, FailureClass::Waiting, cause));
    }
    if text.contains("another operation (install/upgrade/rollback) is in progress") {
        let cause = "another operation of Helm is in progress";
        return Some((
            Code::HelmReleaseLocked,
            FailureClass::Waiting,
            cause.to_owned(),
        ));
    }
    None
}

fn last_cause(text: &str, mark: &str) -> String {
    one_line(text.rsplit(mark).next().unwrap_or(text))
}

/// Objects as people read them.
pub(crate) fn shown(kind: &str, namespace: &str, name: &str) -> String {
    let key = ObjectKey {
        group: String::new(),
        kind: kind.to_owned(),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        name: name.to_owned(),
    };
    key.to_string()
}

#[cfg(test)]
mod tests;
