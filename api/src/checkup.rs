//! Result of `fairlead doctor`: sections of stages, each with its time, and evidence for the first failure.

use std::{fmt, time::Duration};

use serde::Serialize;
use serde_json::Value;

use crate::code::{Code, Failure};

/// Result of all checks.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkup {
    /// Parts that were checked, in their order.
    pub sections: Vec<CheckSection>,
}

/// A part that was checked: the path to one hub, the cluster, or the hub itself.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckSection {
    /// URL of the hub, or the name of the part.
    pub subject: String,
    /// Way to the subject, such as through a proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// Stages in their order.
    pub stages: Vec<CheckedStage>,
}

/// A stage with its result.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedStage {
    /// Name of the stage, one word.
    pub stage: &'static str,
    /// Result of the stage.
    pub result: StageResult,
    /// Time of the stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub millis: Option<u64>,
    /// Findings: one line without secrets.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Failure of a failed stage.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub failure: Option<StageFailure>,
}

/// Result of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StageResult {
    /// The stage passed.
    Ok,
    /// The stage failed.
    Failed,
    /// An earlier stage failed.
    NotTried,
    /// The settings need no such stage.
    NotNeeded,
}

/// Failure of a stage.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageFailure {
    /// Code of the failure.
    pub code: Code,
    /// One sentence: the cause.
    pub cause: String,
    /// Observations that show the cause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<CheckEvidence>,
    /// Next step, one sentence.
    pub next: String,
}

/// An observation: for example the status of an answer, or the issuer of a certificate.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckEvidence {
    /// Name of the observed value.
    pub name: &'static str,
    /// The value: a text or a number.
    pub value: Value,
}

impl CheckEvidence {
    /// An observed value.
    #[must_use]
    pub fn new(name: &'static str, value: impl Into<Value>) -> Self {
        let value = value.into();
        CheckEvidence { name, value }
    }
}

impl fmt::Display for CheckEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::String(text) => write!(f, "{}: {text}", self.name),
            other => write!(f, "{}: {other}", self.name),
        }
    }
}

impl StageResult {
    /// Words for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            StageResult::Ok => "ok",
            StageResult::Failed => "failed",
            StageResult::NotTried => "not tried",
            StageResult::NotNeeded => "not needed",
        }
    }
}

impl CheckedStage {
    /// A stage that passed in this time.
    #[must_use]
    pub fn passed(stage: &'static str, took: Duration, detail: impl Into<String>) -> Self {
        CheckedStage {
            millis: Some(millis(took)),
            detail: detail.into(),
            ..CheckedStage::of(stage, StageResult::Ok)
        }
    }

    /// A stage that failed after this time.
    #[must_use]
    pub fn failed(
        stage: &'static str,
        took: Duration,
        failure: Failure,
        evidence: Vec<CheckEvidence>,
    ) -> Self {
        let next = failure.next_step().to_owned();
        CheckedStage {
            millis: Some(millis(took)),
            failure: Some(StageFailure {
                code: failure.code,
                cause: failure.cause,
                evidence,
                next,
            }),
            ..CheckedStage::of(stage, StageResult::Failed)
        }
    }

    /// A stage after a failed one.
    #[must_use]
    pub fn not_tried(stage: &'static str) -> Self {
        CheckedStage::of(stage, StageResult::NotTried)
    }

    /// A stage that the settings do not need.
    #[must_use]
    pub fn not_needed(stage: &'static str, detail: impl Into<String>) -> Self {
        CheckedStage {
            detail: detail.into(),
            ..CheckedStage::of(stage, StageResult::NotNeeded)
        }
    }

    const fn of(stage: &'static str, result: StageResult) -> Self {
        CheckedStage {
            stage,
            result,
            millis: None,
            detail: String::new(),
            failure: None,
        }
    }
}

impl CheckSection {
    /// A section without stages.
    #[must_use]
    pub fn new(subject: impl Into<String>) -> Self {
        CheckSection {
            subject: subject.into(),
            way: None,
            stages: Vec::new(),
        }
    }

    /// Adds the outcome of a stage: its detail, or its failure without further evidence.
    pub fn add(&mut self, stage: &'static str, took: Duration, outcome: Result<String, Failure>) {
        self.stages.push(match outcome {
            Ok(detail) => CheckedStage::passed(stage, took, detail),
            Err(failure) => CheckedStage::failed(stage, took, failure, Vec::new()),
        });
    }

    /// Whether a stage failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.first_failure().is_some()
    }

    fn first_failure(&self) -> Option<(&'static str, &StageFailure)> {
        let mut stages = self.stages.iter();
        stages.find_map(|it| Some((it.stage, it.failure.as_ref()?)))
    }
}

impl Checkup {
    /// Subject, stage and failure of the first failed stage.
    #[must_use]
    pub fn first_failure(&self) -> Option<(&str, &'static str, &StageFailure)> {
        self.sections.iter().find_map(|section| {
            let (stage, failure) = section.first_failure()?;
            Some((section.subject.as_str(), stage, failure))
        })
    }

    /// Text for people: one line per stage, then the first failure with evidence and next step.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for section in &self.sections {
            text.push_str(&section.subject);
            if let Some(way) = &section.way {
                text.push_str(&format!(", {way}"));
            }
            text.push('\n');
            for stage in &section.stages {
                text.push_str(stage.line().trim_end());
                text.push('\n');
            }
        }
        if let Some((subject, stage, failure)) = self.first_failure() {
            text.push_str(&format!("\nfailed:   {stage} of {subject}\n"));
            text.push_str(&format!("cause:    {}\n", failure.cause));
            for evidence in &failure.evidence {
                text.push_str(&format!("evidence: {evidence}\n"));
            }
            text.push_str(&format!("next:     {}\n", failure.next));
            text.push_str(&format!("code:     {}\n", failure.code));
        }
        text
    }
}

impl CheckedStage {
    fn line(&self) -> String {
        let millis = self.millis.map_or(String::new(), |it| format!("{it} ms"));
        let detail = match &self.failure {
            Some(failure) => failure.code.to_string(),
            None => self.detail.clone(),
        };
        let result = self.result.as_str();
        format!("  {:<11} {result:<11} {millis:>9}  {detail}", self.stage)
    }
}

fn millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkup() -> Checkup {
        let mut path = CheckSection::new("https://hub.example");
        let took = Duration::from_millis(3);
        path.add("dns", took, Ok("10.0.0.1".to_owned()));
        path.stages
            .push(CheckedStage::not_needed("proxy", "direct"));
        let evidence = vec![
            CheckEvidence::new("issuer", "CN=Corp"),
            CheckEvidence::new("status", 403),
        ];
        let failure = Failure::new(Code::DialTls);
        let failed = CheckedStage::failed("tls", took, failure, evidence);
        path.stages
            .extend([failed, CheckedStage::not_tried("upgrade")]);
        Checkup {
            sections: vec![CheckSection::new("settings"), path],
        }
    }

    #[test]
    fn first_failure_is_shown_with_evidence_and_next_step() {
        let text = checkup().text();
        for line in [
            "https://hub.example\n  dns         ok               3 ms  10.0.0.1\n",
            "  tls         failed           3 ms  FL-3105\n  upgrade     not tried\n\n",
            "failed:   tls of https://hub.example\n",
            "evidence: issuer: CN=Corp\nevidence: status: 403\nnext:     Set the CA",
            "code:     FL-3105\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn programs_get_code_and_evidence_of_the_stage() {
        let json = serde_json::to_value(checkup()).unwrap();
        let failed = json.pointer("/sections/1/stages/2").unwrap();
        assert_eq!(failed["result"], "failed");
        assert_eq!(failed["code"], "FL-3105");
        assert_eq!(failed["evidence"][1]["value"], 403);
        assert_eq!(
            json.pointer("/sections/1/stages/3/result").unwrap(),
            "notTried"
        );
    }
}
