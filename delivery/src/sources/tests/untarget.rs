//! Commits that take bundles away from clusters.

use super::Rig;

#[tokio::test]
async fn a_commit_removes_objects_only_where_the_bundle_removes() {
    let rig = Rig::new().await;
    let file = |policy: &str, site: &str| {
        let options = format!("onUntarget: {policy}\ntargets: [{{selector: site={site}}}]\n");
        rig.file("shop/fairlead.yaml", &options);
        rig.push();
    };
    rig.file("shop/web.yaml", "kind: ConfigMap\n");
    rig.cluster("c-edge", "edge").await;
    rig.cluster("c-core", "core").await;
    file("keep", "edge");
    rig.put(&["shop"], |_| {}).await;
    assert_eq!(rig.poll().await, None);
    let removals = || {
        let removals = rig.bundle("b-shop").unwrap().removals;
        let removals = removals.into_iter().map(|(id, at)| (id.to_string(), at));
        removals.collect::<Vec<_>>()
    };
    // The policy and the targets change together: nobody has agreed to the removal before.
    for (policy, site, expected) in [
        ("remove", "core", vec![]),
        ("remove", "edge", vec![("c-core".to_owned(), 3)]),
        ("remove", "core", vec![("c-edge".to_owned(), 4)]),
        ("keep", "edge", vec![]),
        ("keep", "none", vec![]),
    ] {
        file(policy, site);
        assert_eq!(rig.poll().await, None);
        assert_eq!(removals(), expected, "{policy} {site}");
    }
    file("remove", "edge");
    rig.poll().await;
    rig.git(&["rm", "-q", "-r", "shop"]);
    rig.push();
    rig.poll().await;
    assert!(rig.bundle("b-shop").unwrap().orphaned);
    assert_eq!(removals(), [], "a deleted folder removes nothing");
}
