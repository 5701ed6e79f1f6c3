//! Note about a release in the journal: written before each step of Helm, read after a kill.

use fairlead_runner::release::Work;
use fairlead_runner::{RunKey, RunnerInfo};
use serde::{Deserialize, Serialize};

/// Kills for memory after which a run is not tried again.
pub(crate) const MAX_MEMORY_KILLS: u8 = 2;

/// State of a release, as the journal keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmNote {
    /// Step that has begun and whose end is not noted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<HelmStep>,
    /// Newest revision that a run of this bundle wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<u32>,
    /// Deployed revision that has the objects of failed ones before it deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleaned: Option<u32>,
    /// Number of kills for memory since the last success.
    #[serde(skip_serializing_if = "is_zero")]
    pub memory_kills: u8,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u8) -> bool {
    *count == 0
}

/// Step of Helm in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HelmStep {
    /// Run and attempt.
    pub key: RunKey,
    /// Program.
    pub work: HelmWork,
    /// Newest revision before the step; missing if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u32>,
    /// Runner of the program.
    pub runner: RunnerMark,
}

/// Program of a [`HelmStep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HelmWork {
    /// `helm upgrade --install`.
    UpgradeInstall,
    /// `helm rollback` to this revision.
    Rollback(u32),
    /// `helm uninstall`.
    Uninstall,
}

impl From<HelmWork> for Work {
    fn from(work: HelmWork) -> Work {
        match work {
            HelmWork::UpgradeInstall => Work::UpgradeInstall,
            HelmWork::Rollback(to) => Work::Rollback { to },
            HelmWork::Uninstall => Work::Uninstall,
        }
    }
}

/// One process of the runner, and its folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerMark {
    /// Name of the process.
    pub instance: String,
    /// Name of its work folder.
    pub place: String,
}

impl From<&RunnerInfo> for RunnerMark {
    fn from(info: &RunnerInfo) -> Self {
        Self {
            instance: info.instance.clone(),
            place: info.place.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::RUN, *};

    #[test]
    fn note_is_short_in_json() {
        assert_eq!(
            serde_json::to_value(HelmNote::default()).unwrap(),
            json!({})
        );
        let note = HelmNote {
            step: Some(HelmStep {
                key: format!("{RUN}.2").parse().unwrap(),
                work: HelmWork::Rollback(3),
                before: None,
                runner: RunnerMark {
                    instance: "a".into(),
                    place: "b".into(),
                },
            }),
            revision: Some(4),
            ..HelmNote::default()
        };
        let value = serde_json::to_value(&note).unwrap();
        let expected = json!({
            "step": {
                "key": format!("{RUN}.2"), "work": {"rollback": 3},
                "runner": {"instance": "a", "place": "b"},
            },
            "revision": 4,
        });
        assert_eq!(value, expected);
        assert_eq!(serde_json::from_value::<HelmNote>(value).unwrap(), note);
    }
}
