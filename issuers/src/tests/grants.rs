//! Roles of several rules, per tenant, cluster and namespace.

use fairlead_registry::NoRole;
use fairlead_seam::{ClusterScope, GrantKind, ScopedGrant, SubjectProof};
use serde_json::Value;

use super::*;
use crate::{config, vouched::Vouched};

const RULES: &str = r#"
[issuer.corp]
url = "https://idp.example"
audience = ["fairlead"]
roles = [
  { claim = "groups", value = "a-admins", role = "admin", tenant = "t-a" },
  { claim = "groups", value = "a-staff", role = "viewer", tenant = "t-a" },
  { claim = "groups", value = "c-1-ops", role = "operator", cluster = "c-1" },
  { claim = "groups", value = "run-*", role = "operator", cluster = "*" },
  { claim = "groups", value = "shop", role = "operator", cluster = "c-2", namespaces = ["shop", "shop-test"] },
  { claim = "groups", value = "prod-ops", role = "operator", tenant = "t-a", selector = "env=prod,!frozen" },
  { claim = "groups", value = "staff", role = "viewer", break_glass = "admin" },
]
"#;

fn vouched(groups: &[&str]) -> Result<Vouched, NoRole> {
    let config = config::read(RULES).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    let claims: Value = json!({ "sub": "ann", "groups": groups });
    let mapping = &config.issuers[0].mapping;
    mapping.apply(
        &"https://idp.example".into(),
        &claims,
        None,
        SubjectProof::Signed,
    )
}

/// Role, scope and kind in one text.
fn shown(grant: &ScopedGrant) -> String {
    let scope = &grant.scope;
    let tenant = scope.tenant.as_ref().map_or("*", TenantId::as_str);
    let cluster = match &scope.clusters {
        ClusterScope::All => "*".to_owned(),
        ClusterScope::One(id) => id.to_string(),
        ClusterScope::Selected(selector) => selector.to_string(),
    };
    let namespaces: Vec<&str> = scope.namespaces.iter().map(|it| it.as_str()).collect();
    let kind = match grant.kind {
        GrantKind::Standing => "",
        GrantKind::Temporary(_) => " for a time",
        GrantKind::BreakGlass => " in an emergency",
    };
    let namespaces = namespaces.join(",");
    format!("{} {tenant} {cluster} [{namespaces}]{kind}", grant.role)
}

#[test]
fn all_matching_rules_count_and_the_widest_is_the_own_role() {
    let ann = vouched(&["c-1-ops", "a-admins", "staff", "shop"]).unwrap();
    assert_eq!(
        (ann.role, &ann.tenant, &ann.clusters),
        (Role::Viewer, &None, &ClusterScope::All)
    );
    let more: Vec<String> = ann.grants.iter().map(shown).collect();
    assert_eq!(
        more,
        [
            "admin t-a * []",
            "operator * c-1 []",
            "operator * c-2 [shop,shop-test]",
            "admin * * [] in an emergency",
        ]
    );
}

#[test]
fn of_rules_with_one_scope_the_first_decides() {
    let ann = vouched(&["a-staff", "a-admins"]).unwrap();
    assert_eq!((ann.role, ann.grants.len()), (Role::Admin, 0));
}

#[test]
fn a_star_gives_a_role_in_each_cluster_of_the_list() {
    let ann = vouched(&["run-c-5", "run-c-6", "run-x"]).unwrap();
    assert_eq!(ann.clusters.id().map(ClusterId::as_str), Some("c-5"));
    let more: Vec<String> = ann.grants.iter().map(shown).collect();
    assert_eq!(more, ["operator * c-6 []"]);
}

#[test]
fn a_role_in_namespaces_alone_is_limited_to_them() {
    let ann = vouched(&["shop"]).unwrap();
    assert_eq!((ann.role, ann.namespaces.len()), (Role::Operator, 2));
    assert_eq!(ann.clusters.id().map(ClusterId::as_str), Some("c-2"));
    assert!(
        vouched(&["other"])
            .unwrap_err()
            .cause
            .contains("no role rule")
    );
}

#[test]
fn a_rule_selects_clusters_by_labels() {
    let ann = vouched(&["prod-ops", "c-1-ops"]).unwrap();
    let selector = ann.clusters.selector().map(ToString::to_string);
    assert_eq!(selector.as_deref(), Some("env=prod,!frozen"));
    let more: Vec<String> = ann.grants.iter().map(shown).collect();
    assert_eq!(more, ["operator * c-1 []"]);
    let ann = vouched(&["staff", "prod-ops"]).unwrap();
    assert!(ann.clusters.is_all());
    assert_eq!(shown(&ann.grants[0]), "operator t-a env=prod,!frozen []");
}

#[test]
fn mistakes_of_selectors_are_found() {
    for (fields, cause) in [
        (
            "role = \"viewer\", selector = \"env in (a\"",
            "is not understood",
        ),
        ("role = \"viewer\", selector = \" \"", "selector: empty"),
        (
            "role = \"viewer\", selector = \"a\", cluster = \"c-1\"",
            "selector: not together with cluster",
        ),
        (
            "role = \"tenant\", tenant = \"t-a\", selector = \"a\"",
            "selector: allowed with the roles",
        ),
        (
            "role = \"cluster\", selector = \"a\"",
            "selector: allowed with the roles",
        ),
    ] {
        let text = format!(
            "[issuer.corp]\nurl = \"https://idp.example\"\naudience = [\"a\"]\n\
             roles = [{{ claim = \"sub\", value = \"a\", {fields} }}]\n"
        );
        let mistakes = config::read(&text).err().unwrap_or_default().join("\n");
        assert!(mistakes.contains(cause), "{fields}: {mistakes}");
    }
}
