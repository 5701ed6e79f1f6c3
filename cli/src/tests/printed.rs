//! Printed resources as documents.

use super::{FLEET, hub::TestHub};

/// Summary of `apply` for one unchanged document.
pub(super) const SAME: &str = "0 created, 0 changed, 1 unchanged.\n";

#[test]
fn printed_cluster_or_tenant_is_a_document_without_secrets_that_changes_nothing() {
    let hub = TestHub::start();
    let demo = hub.json(&["cluster", "create", "demo"])["id"].clone();
    hub.applied(FLEET);
    for (kind, id) in [
        ("cluster", demo.as_str().unwrap()),
        ("cluster", "c-edge"),
        ("tenant", "t-default"),
        ("tenant", "t-acme"),
    ] {
        for format in ["yaml", "json"] {
            let shown = hub.run(&[kind, "get", id, "-o", format]).success();
            assert!(
                !shown.contains("token") && !shown.contains("fl1."),
                "{shown}"
            );
            let path = hub.file("shown.yaml", &shown);
            for more in [&[][..], &["--replace"]] {
                let words = [&[kind, "apply", "-f", &path], more].concat();
                let same = hub.run(&words).success();
                assert!(same == SAME, "{kind} {id} {more:?}: {same}");
            }
            let (new, other) = (
                format!("{id}-{format}"),
                shown.replace(id, &format!("{id}-{format}")),
            );
            let other = hub.file("other.yaml", &other);
            let made = hub.run(&[kind, "apply", "-f", &other]).success();
            assert!(made.contains(&format!("create {new}\n")), "{made}");
            assert!(
                made.ends_with("1 created, 0 changed, 0 unchanged.\n"),
                "{made}"
            );
            let again = hub.run(&[kind, "apply", "-f", &other]).success();
            assert!(again == SAME, "{again}");
        }
    }
    let list = hub.run(&["cluster", "list", "-o", "yaml"]).success();
    assert!(!list.contains("installURL"), "{list}");
    let same = hub.apply(&["-f", &hub.file("list.yaml", &list)]).success();
    assert!(same == "0 created, 0 changed, 6 unchanged.\n", "{same}");
}
