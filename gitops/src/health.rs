//! Health of the tool: its workloads, definitions and syncs, and whether an annotation pauses repairs. A pure function of
//! objects in the cluster.

use fairlead_api::{Code, gitops::GitOpsTool};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    secrets::{PAUSED, annotation},
    status::shortened,
};

/// Longest age of the last successful sync.
const SYNC_AGE_MAX: Duration = Duration::hours(1);
/// Problems in the fact.
const MAX_PROBLEMS: usize = 5;

/// Problem of the tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HealthProblem {
    pub(crate) code: Code,
    pub(crate) cause: String,
}

/// Health of the tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) problems: Vec<HealthProblem>,
    /// Hour of the last successful sync: a full time would be a change of the fact with each sync.
    pub(crate) last_sync: Option<String>,
    pub(crate) is_paused: bool,
    /// Paused workloads, like `Deployment source-controller`.
    pub(crate) paused_objects: Vec<String>,
}

impl Health {
    /// Value in the fact `gitops`.
    pub(crate) fn to_fact(&self) -> Value {
        let problem =
            |it: &HealthProblem| json!({ "code": it.code.to_string(), "cause": it.cause });
        let mut fact = json!({ "ready": self.problems.is_empty() });
        if let Value::Object(fact) = &mut fact {
            if !self.problems.is_empty() {
                let problems = self.problems.iter().take(MAX_PROBLEMS);
                fact.insert("problems".to_owned(), problems.map(problem).collect());
            }
            if let Some(last) = &self.last_sync {
                fact.insert("lastSync".to_owned(), last.as_str().into());
            }
            if self.is_paused {
                fact.insert("paused".to_owned(), true.into());
            }
            if !self.paused_objects.is_empty() {
                let objects = self.paused_objects.iter().take(MAX_PROBLEMS);
                let objects = objects.map(|it| Value::from(it.as_str()));
                fact.insert("pausedObjects".to_owned(), objects.collect());
            }
        }
        fact
    }
}

/// Objects of the tool, folded one by one.
#[derive(Debug, Default)]
pub(crate) struct HealthCheck {
    workloads: usize,
    definitions: Vec<String>,
    problems: Vec<HealthProblem>,
    last_sync: Option<OffsetDateTime>,
    has_syncs: bool,
    is_paused: bool,
    paused_objects: Vec<String>,
}

impl HealthCheck {
    /// Takes a Deployment or StatefulSet of the tool's namespace.
    pub(crate) fn add_workload(&mut self, kind: &str, workload: &Value) {
        self.workloads += 1;
        let name = text(workload, "/metadata/name").unwrap_or_default();
        if annotation(workload, PAUSED) == Some("true") {
            self.paused_objects.push(format!("{kind} {name}"));
        }
        let count = |pointer: &str| workload.pointer(pointer).and_then(Value::as_u64);
        let desired = count("/spec/replicas").unwrap_or(1);
        let available = count("/status/availableReplicas").unwrap_or_default();
        if available < desired {
            let cause = format!("{kind} {name} has {available} of {desired} replicas available");
            self.add(Code::GitOpsWorkloadUnavailable, cause);
        }
    }

    /// Takes an installed definition.
    pub(crate) fn add_definition(&mut self, definition: &Value) {
        self.definitions
            .extend(text(definition, "/metadata/name").map(str::to_owned));
    }

    /// Takes a Kustomization of Flux, or an Application of Argo CD.
    pub(crate) fn add_sync(&mut self, tool: GitOpsTool, object: &Value) {
        if object.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
            return;
        }
        self.has_syncs = true;
        let time = match tool {
            GitOpsTool::Argocd => text(object, "/status/operationState/finishedAt")
                .filter(|_| text(object, "/status/operationState/phase") == Some("Succeeded")),
            GitOpsTool::Flux | GitOpsTool::None => ready_since(object),
        };
        let time = time.and_then(|it| OffsetDateTime::parse(it, &Rfc3339).ok());
        self.last_sync = self.last_sync.max(time);
    }

    /// Takes the namespace of the tool.
    pub(crate) fn add_namespace(&mut self, namespace: &Value) {
        self.is_paused |= annotation(namespace, PAUSED) == Some("true");
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    fn add(&mut self, code: Code, cause: String) {
        self.problems.push(HealthProblem {
            code,
            cause: shortened(&cause),
        });
    }

    /// Health by these objects; `None` if the tool is not installed.
    pub(crate) fn finish(mut self, definitions: &[&str], now: OffsetDateTime) -> Option<Health> {
        if self.workloads == 0 && self.definitions.is_empty() {
            return None;
        }
        if self.workloads == 0 {
            self.add(
                Code::GitOpsWorkloadUnavailable,
                "the namespace has no workload of the tool".to_owned(),
            );
        }
        for name in definitions {
            if !self.definitions.iter().any(|it| it == name) {
                self.add(
                    Code::GitOpsDefinitionMissing,
                    format!("CustomResourceDefinition {name} does not exist"),
                );
            }
        }
        match self.last_sync {
            Some(last) if now - last > SYNC_AGE_MAX => {
                let hours = (now - last).whole_hours();
                self.add(
                    Code::GitOpsSyncOverdue,
                    format!("the last successful sync was {hours} h ago"),
                );
            }
            None if self.has_syncs => self.add(
                Code::GitOpsSyncOverdue,
                "no sync has succeeded yet".to_owned(),
            ),
            _ => {}
        }
        let hour = self.last_sync.and_then(|it| {
            it.replace_minute(0)
                .ok()?
                .replace_second(0)
                .ok()?
                .replace_nanosecond(0)
                .ok()
        });
        Some(Health {
            problems: self.problems,
            last_sync: hour.and_then(|it| it.format(&Rfc3339).ok()),
            is_paused: self.is_paused,
            paused_objects: self.paused_objects,
        })
    }
}

/// Time of the condition `Ready` of Flux, if it is true. Each reconciliation moves it.
fn ready_since(object: &Value) -> Option<&str> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let ready = conditions
        .iter()
        .find(|it| text(it, "/type") == Some("Ready"))?;
    text(ready, "/lastTransitionTime").filter(|_| text(ready, "/status") == Some("True"))
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITIONS: [&str; 1] = ["kustomizations.kustomize.toolkit.fluxcd.io"];

    fn now() -> OffsetDateTime {
        OffsetDateTime::parse("2026-11-26T12:30:00Z", &Rfc3339).unwrap()
    }

    fn workload(available: u64) -> Value {
        json!({ "metadata": { "name": "source-controller" }, "spec": { "replicas": 1 }, "status": { "availableReplicas": available } })
    }

    fn kustomization(ready: &str, at: &str) -> Value {
        json!({ "status": { "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": at }] } })
    }

    fn check(change: impl FnOnce(&mut HealthCheck)) -> HealthCheck {
        let mut check = HealthCheck::default();
        check.add_workload("Deployment", &workload(1));
        check.add_definition(&json!({ "metadata": { "name": DEFINITIONS[0] } }));
        change(&mut check);
        check
    }

    fn codes(check: HealthCheck) -> Vec<Code> {
        let health = check.finish(&DEFINITIONS, now()).unwrap();
        health.problems.iter().map(|it| it.code).collect()
    }

    #[test]
    fn tool_that_is_not_installed_has_no_health() {
        assert_eq!(HealthCheck::default().finish(&DEFINITIONS, now()), None);
    }

    #[test]
    fn working_tool_is_ready_with_the_hour_of_its_last_sync() {
        let check = check(|it| {
            it.add_sync(
                GitOpsTool::Flux,
                &kustomization("True", "2026-11-26T12:25:10Z"),
            );
            it.add_sync(
                GitOpsTool::Flux,
                &kustomization("False", "2026-11-26T12:29:10Z"),
            );
        });
        let fact = check.finish(&DEFINITIONS, now()).unwrap().to_fact();
        assert_eq!(
            fact,
            json!({ "ready": true, "lastSync": "2026-11-26T12:00:00Z" })
        );
    }

    #[test]
    fn each_problem_has_its_code() {
        let unavailable = check(|it| it.add_workload("Deployment", &workload(0)));
        assert_eq!(codes(unavailable), [Code::GitOpsWorkloadUnavailable]);
        let deleted = HealthCheck {
            workloads: 0,
            ..check(|_| ())
        };
        assert_eq!(codes(deleted), [Code::GitOpsWorkloadUnavailable]);
        let undefined = HealthCheck {
            definitions: Vec::new(),
            ..check(|_| ())
        };
        assert_eq!(codes(undefined), [Code::GitOpsDefinitionMissing]);
        let late = kustomization("True", "2026-11-26T09:00:00Z");
        let overdue = check(|it| it.add_sync(GitOpsTool::Flux, &late));
        assert_eq!(codes(overdue), [Code::GitOpsSyncOverdue]);
        let never = check(|it| {
            it.add_sync(
                GitOpsTool::Flux,
                &kustomization("False", "2026-11-26T12:00:00Z"),
            )
        });
        assert_eq!(codes(never), [Code::GitOpsSyncOverdue]);
        let suspended =
            check(|it| it.add_sync(GitOpsTool::Flux, &json!({ "spec": { "suspend": true } })));
        assert_eq!(codes(suspended), [], "a person has stopped it");
    }

    #[test]
    fn sync_of_argocd_is_its_last_succeeded_operation() {
        let application = |phase: &str| json!({ "status": { "operationState": { "phase": phase, "finishedAt": "2026-11-26T12:10:00Z" } } });
        assert_eq!(
            codes(check(
                |it| it.add_sync(GitOpsTool::Argocd, &application("Succeeded"))
            )),
            []
        );
        let failed = check(|it| it.add_sync(GitOpsTool::Argocd, &application("Failed")));
        assert_eq!(codes(failed), [Code::GitOpsSyncOverdue]);
    }

    #[test]
    fn pauses_are_in_the_fact() {
        let annotations = json!({ "fairlead/paused": "true" });
        let mut paused = workload(1);
        paused["metadata"]["annotations"] = annotations.clone();
        let check = check(|it| {
            it.add_namespace(&json!({ "metadata": { "annotations": annotations } }));
            it.add_workload("Deployment", &paused);
        });
        let fact = check.finish(&DEFINITIONS, now()).unwrap().to_fact();
        let objects = ["Deployment source-controller"];
        assert_eq!(
            fact,
            json!({ "ready": true, "paused": true, "pausedObjects": objects })
        );
    }
}
