use fairlead_certs::Registration;
use fairlead_store::model::{Binding, Bootstrap, DeployKey, GitRepo};
use time::OffsetDateTime;

use super::*;

#[test]
fn the_fast_path_accepts_only_valid_fields() {
    let long = "x".repeat(400);
    let many: Map<String, Value> = (0..1025).map(|n| (n.to_string(), json!("x"))).collect();
    for (patch, plain) in [
        (json!({}), true),
        (json!({ "facts": { "cloud": "x", "gone": null } }), true),
        (
            json!({ "dynamicFacts": { "a": 1, "b": null, "c": { "d": null } } }),
            true,
        ),
        (json!({ "dynamicFacts": { &long: null } }), true),
        (
            json!({ "gitRepo": { "deployKey": "ssh-rsa AAAA\n", "type": 7 } }),
            true,
        ),
        (json!({ "facts": { "cloud": 1 } }), false),
        (json!({ "facts": { "": "x" } }), false),
        (json!({ "facts": many }), false),
        (json!({ "dynamicFacts": many }), false),
        (json!({ "dynamicFacts": { &long: 1 } }), false),
        (json!({ "dynamicFacts": { "a\n": 1 } }), false),
        (json!({ "dynamicFacts": [] }), false),
        (json!({ "gitRepo": { "deployKey": "AAAA" } }), false),
        (json!({ "gitRepo": { "deployKey": "ssh-rsa \0" } }), false),
        (
            json!({ "gitRepo": { "url": "https://me:secret@x/y/z" } }),
            false,
        ),
        (json!({ "displayName": " " }), false),
    ] {
        let sent = patch.as_object().unwrap();
        assert_eq!(ClusterSpec::is_plain(sent), plain, "{patch}");
        let judged = ClusterSpec::judge(&Fields::of(patch.clone()).unwrap());
        assert_eq!(judged.is_ok(), plain, "{patch}");
        let mut whole = Map::new();
        merge::cluster(&mut whole, sent.clone());
        let read = ClusterSpec::read(&mut Fields::of(Value::Object(whole)).unwrap());
        let read = read.and_then(|it| it.reject_credentials());
        assert_eq!(read.is_ok(), plain, "{patch}");
    }
}

#[test]
fn a_patch_repeats_only_if_every_value_is_equal() {
    let at = OffsetDateTime::UNIX_EPOCH;
    let binding = Binding::open(Registration::random().unwrap(), Bootstrap::new(1, at, None));
    let ids = ("c-a".parse().unwrap(), "t-a".parse().unwrap());
    let mut cluster = Cluster::new(ids.0, ids.1, binding, at);
    let fact = |value: Value| Fact {
        value,
        source: FactSource::Steward,
        received: 0,
        observed: 0,
    };
    cluster.facts.insert("cloud".to_owned(), fact(json!("x")));
    let version = json!({ "major": "1" });
    (cluster.dynamic_facts).insert("version".to_owned(), fact(version));
    let repeats =
        |patch: Value, cluster: &Cluster| ClusterSpec::repeats(patch.as_object().unwrap(), cluster);
    let key = json!({ "gitRepo": { "deployKey": "ssh-rsa AAAA" } });
    assert!(!repeats(key.clone(), &cluster), "there is no repository");
    let known = DeployKey {
        key: "ssh-rsa AAAA".to_owned(),
        ..DeployKey::default()
    };
    cluster.git_repo = Some(Box::new(GitRepo {
        deploy_keys: BTreeMap::from([("steward".to_owned(), known)]),
        ..GitRepo::default()
    }));
    for (patch, same) in [
        (json!({}), true),
        (key, true),
        (json!({ "facts": { "cloud": "x", "gone": null } }), true),
        (
            json!({ "dynamicFacts": { "version": { "major": "1" } } }),
            true,
        ),
        (json!({ "gitRepo": { "type": "auto" } }), true),
        (json!({ "facts": { "cloud": null } }), false),
        (json!({ "facts": null }), false),
        (
            json!({ "dynamicFacts": { "version": { "major": "2" } } }),
            false,
        ),
        (json!({ "dynamicFacts": { "new": 1 } }), false),
        (json!({ "gitRepo": { "deployKey": null } }), false),
        (json!({ "gitRepo": { "url": "ssh://x/y/z" } }), false),
        (json!({ "displayName": null }), false),
    ] {
        assert_eq!(repeats(patch.clone(), &cluster), same, "{patch}");
    }
}
