use fairlead_api::{config::FactCollection, gitops::GitOpsSettings};

use super::*;

#[test]
fn unusable_settings_are_rejected() {
    let facts = |facts: FactCollection| AgentSettings {
        facts: Some(facts),
        ..AgentSettings::default()
    };
    let targets = |targets: &[&str]| AgentSettings {
        allow_connect: Some(targets.iter().map(ToString::to_string).collect()),
        ..AgentSettings::default()
    };
    assert!(check(&targets(&["db:5432", "[::1]:80"])).is_ok());
    assert!(check(&facts(FactCollection::default())).is_ok());
    let confirmed = |key: String| AgentSettings {
        gitops: Some(GitOpsSettings {
            confirmed_key: Some(key),
            ..GitOpsSettings::default()
        }),
        ..AgentSettings::default()
    };
    assert!(check(&confirmed(format!("SHA256:{}", "a".repeat(43)))).is_ok());
    let version = AgentSettings {
        version: Some("a b".to_owned()),
        ..AgentSettings::default()
    };
    for bad in [
        version,
        confirmed("MD5:aa".to_owned()),
        confirmed(format!("SHA256:{}", "a".repeat(44))),
        targets(&["db"]),
        targets(&[":80"]),
        targets(&["db:x"]),
        facts(FactCollection {
            interval_seconds: Some(0),
            ..FactCollection::default()
        }),
        facts(FactCollection {
            disabled_collectors: vec!["x".repeat(65)],
            ..FactCollection::default()
        }),
        facts(FactCollection {
            contact_prefixes: vec![String::new()],
            ..FactCollection::default()
        }),
        facts(FactCollection {
            annotation_prefixes: vec!["a".to_owned(); 65],
            ..FactCollection::default()
        }),
    ] {
        assert!(check(&bad).is_err(), "{bad:?}");
    }
}
