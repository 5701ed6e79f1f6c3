use serde_json::json;

use super::*;

#[test]
fn share_is_a_number_or_a_percentage() {
    for (value, share) in [
        (json!(3), Share::Count(3)),
        (json!("3"), Share::Count(3)),
        (json!("25%"), Share::Percent(25)),
    ] {
        assert_eq!(serde_json::from_value::<Share>(value).unwrap(), share);
    }
    assert_eq!(serde_json::to_value(Share::Count(3)).unwrap(), json!(3));
    assert_eq!(json!(Share::Percent(5)), json!("5%"));
    for bad in [
        json!(-1),
        json!("101%"),
        json!("x"),
        json!(1.5),
        json!(null),
    ] {
        assert!(
            serde_json::from_value::<Share>(bad.clone()).is_err(),
            "{bad}"
        );
    }
}

#[test]
fn options_of_a_file_are_read() {
    let fields: BundleFields = serde_json::from_value(json!({
        "kind": "helm",
        "helm": {"release": "shop", "timeout": "5m", "crds": "replace"},
        "targets": [
            {"name": "edge", "selector": "site=edge", "vars": {"replicas": 1}},
            {"clusters": ["c-a"], "skip": true},
        ],
        "rollout": {"waves": [
            {"name": "canary", "count": 1, "soak": "2m"},
            {"name": "rest", "maxUnavailable": "25%", "maxFailures": 3},
        ]},
        "dependsOn": ["b-crds"],
        "ignore": [{"kind": "Deployment", "pointers": ["/spec/replicas"]}],
    }))
    .unwrap();
    assert_eq!(fields.kind, BundleKind::Helm);
    assert_eq!(fields.drift, DriftPolicy::Correct);
    assert!(fields.targets[1].skip);
    let waves = fields.rollout.unwrap().waves;
    assert_eq!(waves[1].max_failures, Some(Share::Count(3)));
    let wrong = json!({"targets": [{"selektor": "a=b"}]});
    let error = serde_json::from_value::<BundleFields>(wrong).unwrap_err();
    assert!(error.to_string().contains("selektor"), "{error}");
}
