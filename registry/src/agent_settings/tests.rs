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
    let rules = ["db:5432", "[::1]:80", "*.shop:80,443", "10.0.0.0/8:*"];
    assert!(check(&targets(&rules)).is_ok());
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
        targets(&["db:0"]),
        targets(&["*:80"]),
        targets(&["user@db:80"]),
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
