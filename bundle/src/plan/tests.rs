use std::sync::Arc;

use fairlead_api::delivery::SpecId;
use proptest::prelude::*;

use super::*;
use crate::generation::RenderedSpec;

fn cluster(number: u32) -> ClusterId {
    ClusterId::from_name(&format!("n{number}")).unwrap()
}

fn bundle() -> BundleId {
    "b-shop".parse().unwrap()
}

fn spec(content: u8) -> Outcome {
    let id = SpecId::of_sha256(&[content; 32]);
    let spec = Arc::new(RenderedSpec {
        id,
        json: Vec::new(),
    });
    Outcome::Spec { target: 1, spec }
}

fn blocked() -> Outcome {
    Outcome::Blocked {
        target: 1,
        reasons: vec![String::from("variable vars.a has no value")],
    }
}

fn targets() -> Vec<Target> {
    let named = |name: &str, skip| Target {
        name: Some(name.to_owned()),
        skip,
        ..Target::default()
    };
    vec![
        named("off", true),
        named("all", false),
        named("none", false),
    ]
}

#[test]
fn each_cluster_is_counted_once() {
    let mut builder = PlanBuilder::new(bundle(), &targets(), UntargetPolicy::Keep);
    let none = Outcome::Unmatched;
    let skipped = Outcome::Skipped { target: 0 };
    builder.add(&cluster(9), &none, &none);
    builder.add(&cluster(8), &none, &spec(1));
    builder.add(&cluster(7), &skipped, &spec(1));
    builder.add(&cluster(6), &spec(1), &spec(1));
    builder.add(&cluster(5), &spec(1), &spec(2));
    builder.add(&cluster(4), &blocked(), &spec(2));
    builder.add(&cluster(3), &spec(1), &blocked());
    builder.add(&cluster(2), &spec(1), &none);
    builder.add(&cluster(1), &blocked(), &skipped);
    assert_eq!(builder.removals().len(), 2);
    let plan = builder.finish();
    assert_eq!(plan.added, [cluster(7), cluster(8)]);
    assert_eq!(plan.changed, [cluster(4), cluster(5)]);
    assert_eq!(plan.removed, [cluster(1), cluster(2)]);
    assert_eq!(plan.blocked[0].cluster, cluster(3));
    assert_eq!(plan.unchanged, 1);
    let counts = plan.targets.iter().map(|target| target.clusters);
    assert_eq!(counts.collect::<Vec<_>>(), [1, 6, 0]);
    assert!(plan.confirm.is_some());
}

#[test]
fn a_plan_without_removals_needs_no_confirmation() {
    let mut builder = PlanBuilder::new(bundle(), &targets(), UntargetPolicy::Remove);
    builder.add(&cluster(1), &Outcome::Unmatched, &spec(1));
    assert_eq!(builder.finish().confirm, None);
}

#[test]
fn the_hash_names_bundle_cluster_and_policy() {
    let removal = |bundle: &str, number, deletes| Removal {
        bundle: bundle.parse().unwrap(),
        cluster: cluster(number),
        deletes,
    };
    let hash = |removals: &[Removal]| plan_hash(&removals.iter().cloned().collect()).unwrap();
    let first = hash(&[removal("b-a", 1, false)]);
    for other in [
        hash(&[removal("b-b", 1, false)]),
        hash(&[removal("b-a", 2, false)]),
        hash(&[removal("b-a", 1, true)]),
        hash(&[removal("b-a", 1, false), removal("b-a", 2, false)]),
    ] {
        assert_ne!(first, other);
    }
}

proptest! {
    #[test]
    fn the_hash_follows_the_removals_only(
        removed in prop::collection::btree_set(0..40_u32, 0..20),
        other in prop::collection::btree_set(0..40_u32, 0..20),
    ) {
        let hash = |numbers: &mut dyn Iterator<Item = &u32>, content| {
            let mut builder = PlanBuilder::new(bundle(), &targets(), UntargetPolicy::Keep);
            for number in numbers {
                builder.add(&cluster(100 + number), &Outcome::Unmatched, &spec(content));
                builder.add(&cluster(*number), &spec(content), &Outcome::Unmatched);
            }
            builder.finish().confirm
        };
        let forward = hash(&mut removed.iter(), 1);
        prop_assert_eq!(&forward, &hash(&mut removed.iter().rev(), 2));
        prop_assert_eq!(forward.is_none(), removed.is_empty());
        prop_assert_eq!(forward == hash(&mut other.iter(), 1), removed == other);
    }
}
