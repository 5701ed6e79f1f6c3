use fairlead_runner::release::history;
use serde_json::Value;

use super::*;
use crate::helm::{
    note::{HelmStep, RunnerMark},
    testing::{self, OTHER_RUN, RUN, record_secret},
};

const SPEC: &str = "abababababababababababababababababababab";

/// Revision of a run of the bundle.
fn ours(number: u32, status: &str, run: &str) -> Value {
    let attempt = number.to_string();
    let labels = [
        ("fairlead-run", run),
        ("fairlead-attempt", attempt.as_str()),
        ("fairlead-bundle", "b-web"),
        ("fairlead-spec", SPEC),
    ];
    record_secret(number, status, &labels)
}

struct Case {
    items: Vec<Value>,
    note: HelmNote,
    process: ProcessState,
    drift: DriftPolicy,
    is_ordered: bool,
    adopt: bool,
    has_values: bool,
    is_same_generation: bool,
}

impl Case {
    fn of(items: &[Value]) -> Self {
        Case {
            items: items.to_vec(),
            note: HelmNote::default(),
            process: ProcessState::Dead,
            drift: DriftPolicy::Report,
            is_ordered: false,
            adopt: false,
            has_values: true,
            is_same_generation: true,
        }
    }

    fn step(mut self, work: HelmWork, before: Option<u32>) -> Self {
        self.note.step = Some(HelmStep {
            key: format!("{RUN}.1").parse().unwrap(),
            work,
            before,
            runner: RunnerMark {
                instance: "a".into(),
                place: "b".into(),
            },
        });
        self
    }

    fn decided(&self) -> (&'static str, Option<u32>) {
        let mut history = history(&"web".parse().unwrap(), &self.items);
        if let (Some(newest), Some(step)) = (history.last_mut(), &self.note.step)
            && let HelmWork::Rollback(to) = step.work
        {
            newest.rolled_back_to = Some(to);
        }
        let newest = history.last().and_then(|it| {
            let key = RunKey {
                run: it.run.clone()?,
                attempt: it.attempt?,
            };
            Some(release_description(&key))
        });
        let spec = testing::spec();
        let spec_id: SpecId = spec.artifact.as_str().parse().unwrap();
        let decision = decide(&Facts {
            bundle: &spec.bundle,
            spec: &spec_id,
            history: &history,
            newest: newest.as_deref().map(|description| Newest {
                description,
                has_values: self.has_values,
            }),
            note: &self.note,
            process: self.process,
            is_same_generation: self.is_same_generation,
            drift: self.drift,
            is_ordered: self.is_ordered,
            adopt: self.adopt,
        });
        match decision {
            Decision::Nothing(it) => ("nothing", Some(it.number)),
            Decision::Attach => ("attach", None),
            Decision::Finished(it) => ("finished", Some(it.number)),
            Decision::Returned(good) => ("returned", Some(good)),
            Decision::Failed(it) => ("failed", Some(it.number)),
            Decision::Unlock(it) => ("unlock", Some(it.number)),
            Decision::FinishRemoval => ("finish removal", None),
            Decision::Start => ("start", None),
            Decision::Foreign(it) => ("foreign", Some(it.number)),
            Decision::Occupied(it) => ("occupied", Some(it.number)),
            Decision::Locked(it) => ("locked", Some(it.number)),
        }
    }
}

#[test]
fn deployed_content_is_not_deployed_again() {
    assert_eq!(Case::of(&[]).decided(), ("start", None));
    let deployed = [ours(3, "deployed", RUN)];
    assert_eq!(Case::of(&deployed).decided(), ("nothing", Some(3)));
    let mut rotated = Case::of(&deployed);
    rotated.has_values = false;
    assert_eq!(rotated.decided(), ("start", None));
    let mut other = ours(3, "deployed", RUN);
    other["metadata"]["labels"]["fairlead-spec"] = "00".into();
    assert_eq!(Case::of(&[other]).decided(), ("start", None));
    for status in ["failed", "superseded"] {
        let again = Case::of(&[ours(3, status, RUN)]);
        assert_eq!(again.decided(), ("start", None), "{status}");
    }
    let removing = Case::of(&[ours(3, "uninstalling", RUN)]);
    assert_eq!(removing.decided(), ("finish removal", None));
}

#[test]
fn release_of_somebody_else_is_taken_over_on_demand_only() {
    let mut case = Case::of(&[record_secret(4, "deployed", &[])]);
    case.is_ordered = true;
    assert_eq!(case.decided(), ("occupied", Some(4)));
    case.adopt = true;
    assert_eq!(case.decided(), ("start", None));
    let other = record_secret(
        4,
        "deployed",
        &[("fairlead-run", RUN), ("fairlead-bundle", "b-other")],
    );
    assert_eq!(Case::of(&[other]).decided(), ("occupied", Some(4)));
}

#[test]
fn revision_of_somebody_else_is_judged_by_policy() {
    // `helm upgrade` by hand copies the labels.
    let mut by_hand = ours(3, "deployed", RUN);
    by_hand["metadata"]["labels"]["version"] = "4".into();
    by_hand["metadata"]["name"] = "sh.helm.release.v1.web.v4".into();
    let items = [ours(3, "superseded", RUN), by_hand.clone()];
    let mut case = Case::of(&items);
    assert_eq!(case.decided(), ("foreign", Some(4)));
    case.is_ordered = true;
    assert_eq!(case.decided(), ("start", None));
    case.is_ordered = false;
    case.drift = DriftPolicy::Correct;
    assert_eq!(case.decided(), ("start", None));
    // Our own rollback copies them, too, and is noted.
    case.drift = DriftPolicy::Report;
    case.note.revision = Some(4);
    assert_eq!(case.decided(), ("start", None));
    let mut pending = by_hand;
    pending["metadata"]["labels"]["status"] = "pending-upgrade".into();
    let locked = Case::of(&[ours(3, "superseded", RUN), pending]);
    assert_eq!(locked.decided(), ("locked", Some(4)));
}

#[test]
fn interrupted_step_is_judged_by_what_it_left() {
    let upgrade = |items: &[Value]| Case::of(items).step(HelmWork::UpgradeInstall, Some(2));
    let before = ours(2, "deployed", OTHER_RUN);
    let with = |status| [before.clone(), ours(3, status, RUN)];
    for (items, decision) in [
        (with("pending-upgrade"), ("unlock", Some(3))),
        (with("deployed"), ("finished", Some(3))),
        (with("failed"), ("failed", Some(3))),
    ] {
        assert_eq!(upgrade(&items).decided(), decision);
    }
    // The interrupted run had other content.
    for status in ["deployed", "failed"] {
        let mut items = with(status);
        items[1]["metadata"]["labels"]["fairlead-spec"] = "00".into();
        assert_eq!(upgrade(&items).decided(), ("start", None), "{status}");
    }
    // The program wrote nothing, and what it should replace has the desired content by now.
    assert_eq!(
        upgrade(std::slice::from_ref(&before)).decided(),
        ("nothing", Some(2))
    );
    let mut alive = upgrade(&with("pending-upgrade"));
    alive.process = ProcessState::Alive;
    assert_eq!(alive.decided(), ("attach", None));
    let foreign = [before.clone(), record_secret(3, "deployed", &[])];
    let mut foreign = upgrade(&foreign);
    foreign.note.revision = Some(2);
    assert_eq!(foreign.decided(), ("foreign", Some(3)));
    // A removal that a newer order replaced.
    let removal =
        Case::of(&[ours(2, "uninstalling", OTHER_RUN)]).step(HelmWork::Uninstall, Some(2));
    assert_eq!(removal.decided(), ("finish removal", None));
}

#[test]
fn interrupted_return_is_judged_by_what_it_left() {
    let rolled_back = |status| {
        let items = [
            ours(2, "superseded", OTHER_RUN),
            ours(3, "superseded", RUN),
            ours(4, status, OTHER_RUN),
        ];
        Case::of(&items).step(HelmWork::Rollback(2), Some(3))
    };
    assert_eq!(rolled_back("deployed").decided(), ("returned", Some(2)));
    assert_eq!(
        rolled_back("pending-rollback").decided(),
        ("unlock", Some(4))
    );
    // Its content is not that of the newer generation.
    let mut newer = rolled_back("deployed");
    newer.is_same_generation = false;
    assert_eq!(newer.decided(), ("start", None));
}
