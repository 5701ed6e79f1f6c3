//! Status of the last sync, from the tool's own object.

use serde_json::Value;
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{secrets, tool::Layout};

/// Time for which Argo CD may answer a comparison from memory, without its key (`--revision-cache-expiration`), and the
/// difference of two clocks.
const CACHED_REVISION_TIME: Duration = Duration::seconds(3 * 60 + 10);

/// Annotation that requests a sync of Flux, and whose value Flux reports back.
const REQUEST: &str = "reconcile.fluxcd.io/requestedAt";

/// Sync of the tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sync {
    /// No object of the tool uses the Secret.
    NoSource,
    Source(SourceStatus),
}

/// Status of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SourceStatus {
    /// Last requested sync.
    pub(crate) requested: Option<String>,
    /// Last requested sync that has ended.
    pub(crate) handled: Option<String>,
    pub(crate) outcome: Outcome,
}

/// Outcome of the last sync.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Outcome {
    #[default]
    Unknown,
    Succeeded,
    Failed(String),
}

impl Sync {
    /// Sync of a `GitRepository` of Flux.
    pub(crate) fn of_flux(layout: &Layout, object: Option<&Value>) -> Self {
        let used = |object: &Value| {
            let name = object.pointer("/spec/secretRef/name")?.as_str()?;
            (name == layout.secret).then_some(())
        };
        let Some(object) = object.filter(|object| used(object).is_some()) else {
            return Sync::NoSource;
        };
        let handled = object.pointer("/status/lastHandledReconcileAt");
        Sync::Source(SourceStatus {
            requested: secrets::annotation(object, REQUEST).map(str::to_owned),
            handled: handled.and_then(Value::as_str).map(str::to_owned),
            outcome: outcome(object),
        })
    }
}

/// State of the Applications of Argo CD that read one repository, folded one by one.
#[derive(Debug)]
pub(crate) struct Applications<'a> {
    url: &'a str,
    /// Begin of comparisons that need the key which Argo CD has now.
    since: Option<OffsetDateTime>,
    count: usize,
    /// Number of those that were compared with Git after that time.
    compared: usize,
    failure: Option<String>,
}

impl<'a> Applications<'a> {
    /// `written` is the time at which Argo CD got its key.
    pub(crate) fn new(url: &'a str, written: Option<&str>) -> Self {
        let written = written.and_then(moment);
        Applications {
            url,
            since: written.and_then(|it| it.checked_add(CACHED_REVISION_TIME)),
            count: 0,
            compared: 0,
            failure: None,
        }
    }

    pub(crate) fn add(&mut self, application: &Value) {
        let sources = application
            .pointer("/spec/sources")
            .and_then(Value::as_array);
        let one = application.pointer("/spec/source");
        let mut sources = sources.into_iter().flatten().chain(one);
        let url = |source: &Value| source.get("repoURL")?.as_str().map(|it| it == self.url);
        if !sources.any(|source| url(source) == Some(true)) {
            return;
        }
        self.count += 1;
        // The time is that of the begin of a comparison with the newest commit.
        let compared = application
            .pointer("/status/reconciledAt")
            .and_then(Value::as_str);
        let is_later = self.since.is_some() && compared.and_then(moment) > self.since;
        self.compared += usize::from(is_later);
        let conditions = application
            .pointer("/status/conditions")
            .and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        let is_failure = |it: &&Value| it.get("type").is_some_and(|it| it == "ComparisonError");
        if let Some(condition) = conditions.find(is_failure) {
            let message = condition.get("message").and_then(Value::as_str);
            self.failure = Some(message.unwrap_or_default().to_owned());
        }
    }

    /// Sync of all. Argo CD compares by itself every few minutes, so each token counts as requested.
    pub(crate) fn sync(self, token: String) -> Sync {
        if self.count == 0 {
            return Sync::NoSource;
        }
        let outcome = match self.failure {
            Some(message) => Outcome::Failed(message),
            None => Outcome::Succeeded,
        };
        let is_handled = self.compared == self.count;
        Sync::Source(SourceStatus {
            handled: is_handled.then(|| token.clone()),
            requested: Some(token),
            outcome,
        })
    }
}

fn moment(text: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(text, &Rfc3339).ok()
}

fn outcome(object: &Value) -> Outcome {
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let field = |condition: &Value, name: &str| {
        let value = condition.get(name).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let mut conditions = conditions.into_iter().flatten();
    let Some(ready) = conditions.find(|it| field(it, "type") == "Ready") else {
        return Outcome::Unknown;
    };
    match field(ready, "status").as_str() {
        "True" => Outcome::Succeeded,
        "False" => Outcome::Failed(field(ready, "message")),
        _ => Outcome::Unknown,
    }
}

/// The object with a request for a sync.
pub(crate) fn with_request(mut object: Value, token: &str) -> Value {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        let annotations = metadata
            .entry("annotations")
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
        if let Value::Object(annotations) = annotations {
            annotations.insert(REQUEST.to_owned(), token.into());
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use fairlead_api::gitops::GitOpsTool;
    use serde_json::json;

    use super::*;

    fn source(ready: &str) -> Value {
        json!({
            "metadata": { "annotations": { REQUEST: "two" } },
            "spec": { "secretRef": { "name": "flux-system" } },
            "status": {
                "lastHandledReconcileAt": "one",
                "conditions": [
                    { "type": "ArtifactInStorage", "status": "True" },
                    { "type": "Ready", "status": ready, "message": "no access" },
                ],
            },
        })
    }

    fn of(object: Option<&Value>) -> Sync {
        Sync::of_flux(&Layout::of(GitOpsTool::Flux).unwrap(), object)
    }

    #[test]
    fn outcome_is_the_condition_ready() {
        for (ready, outcome) in [
            ("True", Outcome::Succeeded),
            ("False", Outcome::Failed("no access".to_owned())),
            ("Unknown", Outcome::Unknown),
        ] {
            let expected = SourceStatus {
                requested: Some("two".to_owned()),
                handled: Some("one".to_owned()),
                outcome,
            };
            assert_eq!(of(Some(&source(ready))), Sync::Source(expected), "{ready}");
        }
    }

    #[test]
    fn source_with_another_secret_is_none() {
        assert_eq!(of(None), Sync::NoSource);
        let mut other = source("True");
        other["spec"]["secretRef"]["name"] = json!("other");
        assert_eq!(of(Some(&other)), Sync::NoSource);
    }

    fn application(reconciled: &str, failure: Option<&str>) -> Value {
        let condition =
            failure.map(|message| json!({ "type": "ComparisonError", "message": message }));
        json!({
            "spec": { "source": { "repoURL": "ssh://git@git.example/a/b.git" } },
            "status": { "reconciledAt": reconciled, "conditions": condition.into_iter().collect::<Vec<_>>() },
        })
    }

    #[test]
    fn applications_prove_a_key_that_they_were_all_compared_with() {
        let of = |applications: &[Value]| {
            let since = Some("2026-11-26T10:00:00Z");
            let mut all = Applications::new("ssh://git@git.example/a/b.git", since);
            applications.iter().for_each(|it| all.add(it));
            match all.sync("token".to_owned()) {
                Sync::NoSource => None,
                Sync::Source(source) => Some((source.handled.is_some(), source.outcome)),
            }
        };
        let later = application("2026-11-26T10:03:11Z", None);
        // Argo CD may have answered it from memory.
        let same = application("2026-11-26T10:03:10Z", None);
        let failed = application("2026-11-26T10:03:12Z", Some("knownhosts: key mismatch"));
        let mut other = later.clone();
        other["spec"]["source"]["repoURL"] = json!("ssh://git@git.example/other");
        assert_eq!(of(&[other.clone()]), None);
        assert_eq!(
            of(&[later.clone(), other]),
            Some((true, Outcome::Succeeded))
        );
        assert_eq!(
            of(&[later.clone(), same]),
            Some((false, Outcome::Succeeded))
        );
        let refused = Outcome::Failed("knownhosts: key mismatch".to_owned());
        assert_eq!(of(&[later, failed]), Some((true, refused)));
        let several = json!({ "spec": { "sources": [{ "repoURL": "x" }, { "repoURL": "ssh://git@git.example/a/b.git" }] } });
        assert_eq!(of(&[several]), Some((false, Outcome::Succeeded)));
    }

    #[test]
    fn request_is_an_annotation_beside_the_others() {
        let mut object = source("True");
        object["metadata"]["annotations"]["a"] = json!("b");
        let requested = with_request(object, "three");
        assert_eq!(
            requested["metadata"]["annotations"],
            json!({ REQUEST: "three", "a": "b" })
        );
        let bare = with_request(json!({ "metadata": {} }), "one");
        assert_eq!(bare["metadata"]["annotations"][REQUEST], "one");
    }
}
