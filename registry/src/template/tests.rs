use fairlead_certs::Registration;
use fairlead_store::model::{Binding, Bootstrap, Fact, FactSource};
use time::macros::datetime;

use super::*;

fn cluster() -> Cluster {
    let at = datetime!(2026-11-21 12:00 UTC);
    let ids = ("c-a".parse().unwrap(), "t-a".parse().unwrap());
    let binding = Binding::open(Registration::random().unwrap(), Bootstrap::new(1, at, None));
    let cloud = Fact {
        value: json!("own"),
        source: FactSource::People,
        received: 0,
        observed: 0,
    };
    Cluster {
        facts: BTreeMap::from([("cloud".to_owned(), cloud)]),
        tenant_git_repo_revision: Some("v2".to_owned()),
        ..Cluster::new(ids.0, ids.1, binding, at)
    }
}

#[test]
fn templates_fill_gaps_and_each_value_has_its_origin() {
    let template: ClusterTemplate = serde_json::from_value(json!({
        "facts": { "cloud": "template", "region": "template" },
        "gitRepo": { "url": "ssh://git@git.example/a/b.git", "kind": "unmanaged" },
        "tenantGitRepoRevision": "v1",
        "globalGitRepoRevision": "v1",
        "deleteProtection": true,
    }))
    .unwrap();
    let cluster = cluster();
    let effective = Effective::of(&cluster, Some(&template)).explained();
    let of = |path: &str| {
        let entry = &effective[path];
        (
            entry["value"].clone(),
            entry["from"].as_str().unwrap().to_owned(),
        )
    };
    assert_eq!(of("facts.cloud"), (json!("own"), "cluster".to_owned()));
    assert_eq!(
        of("facts.region"),
        (json!("template"), "template".to_owned())
    );
    assert_eq!(
        of("tenantGitRepoRevision"),
        (json!("v2"), "cluster".to_owned())
    );
    assert_eq!(
        of("globalGitRepoRevision"),
        (json!("v1"), "template".to_owned())
    );
    assert_eq!(
        of("gitRepo.type"),
        (json!("unmanaged"), "template".to_owned())
    );
    assert_eq!(of("deleteProtection"), (json!(true), "template".to_owned()));
    let alone = Effective::of(&cluster, None).explained();
    assert_eq!(alone.as_object().unwrap().len(), 2);
}
