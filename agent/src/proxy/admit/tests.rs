use super::*;

const ADMITTED: &[(&[&str], &[&str])] = &[
    (&["fairlead:ann"], &["fairlead:admin"]),
    (&["fairlead:ann"], &["fairlead:operator"]),
    (&["fairlead:ann"], &["fairlead:viewer"]),
    (&["fairlead:ann"], &["fairlead:tenant:t-acme:admin"]),
    (&["fairlead:ann"], &["fairlead:tenant:t-acme:operator"]),
    (
        &["fairlead:ann"],
        &["fairlead:tenant:t-acme:viewer", "fairlead:viewer"],
    ),
    (&["fairlead:ann"], &["ops"]),
    (&["fairlead:ann"], &[]),
    (
        &["fairlead:Ann.Lee-2_x@acme.test+ci/job=1~a"],
        &["fairlead:viewer"],
    ),
    // No name below Fairlead's prefix is one of Kubernetes' own.
    (&["fairlead:system:admin"], &["fairlead:viewer"]),
];

const REFUSED: &[(&[&str], &[&str])] = &[
    (&[], &["fairlead:viewer"]),
    (&["fairlead:ann", "fairlead:bob"], &["fairlead:viewer"]),
    (&["fairlead:ann", "fairlead:ann"], &["fairlead:viewer"]),
    (&["fairlead:ann", "system:admin"], &["fairlead:viewer"]),
    (&[""], &["fairlead:viewer"]),
    (&["fairlead:"], &["fairlead:viewer"]),
    (&["fairlead"], &["fairlead:viewer"]),
    (&["ann"], &["fairlead:viewer"]),
    (&["Fairlead:ann"], &["fairlead:viewer"]),
    (&["FAIRLEAD:ann"], &["fairlead:viewer"]),
    (&[" fairlead:ann"], &["fairlead:viewer"]),
    (&["fairlead: ann"], &["fairlead:viewer"]),
    (&["fairlead:ann "], &["fairlead:viewer"]),
    (&["fairlead:ann,system:admin"], &["fairlead:viewer"]),
    (&["fairlead:ann\tlee"], &["fairlead:viewer"]),
    (&["fairlead:ann%0a"], &["fairlead:viewer"]),
    (&["fairlead:änn"], &["fairlead:viewer"]),
    (&["fairlead:ann;x"], &["fairlead:viewer"]),
    (&["fairlead:\"ann\""], &["fairlead:viewer"]),
    (&["system:admin"], &["fairlead:viewer"]),
    (
        &["system:serviceaccount:kube-system:default"],
        &["fairlead:viewer"],
    ),
    (&["kubernetes-admin"], &["fairlead:viewer"]),
    (&["fairlead:ann"], &["system:masters"]),
    (&["fairlead:ann"], &["fairlead:admin", "system:masters"]),
    (&["fairlead:ann"], &["system:masters", "fairlead:admin"]),
    (&["fairlead:ann"], &["SYSTEM:masters"]),
    (&["fairlead:ann"], &["system:authenticated"]),
    (&["fairlead:ann"], &["listed:but:System:x"]),
    (&["fairlead:ann"], &["Fairlead:admin"]),
    (&["fairlead:ann"], &["fairlead:Admin"]),
    (&["fairlead:ann"], &["fairlead:admin "]),
    (&["fairlead:ann"], &[" fairlead:admin"]),
    (&["fairlead:ann"], &["fairlead:admin,system:masters"]),
    (&["fairlead:ann"], &["fairlead:admin, fairlead:viewer"]),
    (&["fairlead:ann"], &["fairlead:"]),
    (&["fairlead:ann"], &["fairlead:root"]),
    (&["fairlead:ann"], &["fairlead:tenant:t-other:admin"]),
    (&["fairlead:ann"], &["fairlead:tenant:t-acme"]),
    (&["fairlead:ann"], &["fairlead:tenant:t-acme:root"]),
    (&["fairlead:ann"], &["fairlead:tenant:T-acme:admin"]),
    (&["fairlead:ann"], &["fairlead:tenant::admin"]),
    (&["fairlead:ann"], &["fairlead:tenant:t-acme:admin:x"]),
    (&["fairlead:ann"], &["fairlead:namespace:shop:admin"]),
    (&["fairlead:ann"], &["fairlead:namespace:shop"]),
    (&["fairlead:ann"], &["fairlead:namespace:shop:operator:x"]),
    (&["fairlead:ann"], &["fairlead:namespace:Shop:operator"]),
    (
        &["fairlead:ann"],
        &["fairlead:namespace:kube-system:operator"],
    ),
    (&["fairlead:ann"], &["fairlead:namespace:fairlead:viewer"]),
    (
        &["fairlead:ann"],
        &["fairlead:namespace:shop,system:masters:operator"],
    ),
    (&["fairlead:ann"], &["admin"]),
    (&["fairlead:ann"], &["Ops"]),
    (&["fairlead:ann"], &[""]),
];

fn rules() -> ImpersonationRules {
    // Invalid entries have no effect.
    let allowed = ["ops", "system:masters", " System:authenticated"].map(str::to_owned);
    let users = ["dev", "fairlead:someone", "system:admin"].map(str::to_owned);
    ImpersonationRules::new(&"t-acme".parse().unwrap(), &allowed, &users)
}

#[test]
fn as_user_is_admitted_alone_and_only_from_the_list() {
    let admitted_as = |users: &[&str], more: &[(&HeaderName, &str)]| {
        let mut headers = HeaderMap::new();
        for user in users {
            headers.append(&AS_USER, HeaderValue::from_str(user).unwrap());
        }
        for (name, value) in more {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        rules().admit(&headers).map_err(|failure| failure.code)
    };
    for user in ["dev", "fairlead:someone"] {
        let permitted = admitted_as(&[user], &[]).unwrap();
        assert_eq!(
            (permitted.user().to_str().unwrap(), permitted.groups()),
            (user, &[][..])
        );
    }
    for user in [
        "",
        "Dev",
        "dev ",
        "ann",
        "fairlead:ann",
        "system:admin",
        "system:masters",
    ] {
        assert_eq!(
            admitted_as(&[user], &[]),
            Err(Code::NoImpersonation),
            "{user:?}"
        );
    }
    for refused in [
        admitted_as(&["dev", "dev"], &[]),
        admitted_as(&["dev"], &[(&USER, "fairlead:ann")]),
        admitted_as(&["dev"], &[(&GROUP, "fairlead:admin")]),
    ] {
        assert_eq!(refused, Err(Code::AgentRefused));
    }
}

fn headers(users: &[&str], groups: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, values) in [(&USER, users), (&GROUP, groups)] {
        for value in values {
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
    }
    headers
}

#[test]
fn prefixed_users_and_listed_groups_are_admitted_unchanged() {
    for (users, groups) in ADMITTED {
        let permitted = rules().admit(&headers(users, groups)).unwrap();
        assert_eq!(permitted.user(), users[0]);
        assert_eq!(permitted.groups(), *groups);
    }
}

#[test]
fn other_users_and_groups_are_rejected() {
    for (users, groups) in REFUSED {
        let refused = rules().admit(&headers(users, groups));
        let failure = refused.expect_err(&format!("{users:?} {groups:?} must be refused"));
        assert_eq!(failure.code, Code::AgentRefused);
    }
}

#[test]
fn too_long_names_and_too_many_groups_are_rejected() {
    let long = format!("fairlead:{}", "a".repeat(MAX_USER_BYTES));
    assert!(rules().admit(&headers(&[&long], &[])).is_ok());
    assert!(
        rules()
            .admit(&headers(&[&format!("{long}a")], &[]))
            .is_err()
    );
    assert!(
        rules()
            .admit(&headers(&["fairlead:a"], &["ops"; MAX_GROUPS]))
            .is_ok()
    );
    assert!(
        rules()
            .admit(&headers(&["fairlead:a"], &["ops"; MAX_GROUPS + 1]))
            .is_err()
    );
}

#[test]
fn repeated_group_is_impersonated_once() {
    let permitted = rules()
        .admit(&headers(
            &["fairlead:a"],
            &["ops", "fairlead:viewer", "ops"],
        ))
        .unwrap();
    assert_eq!(permitted.groups(), ["ops", "fairlead:viewer"]);
}

#[test]
fn system_groups_cannot_be_allowed() {
    for bad in [
        "system:masters",
        "System:masters",
        " system:x",
        "",
        " ops",
        "a\nb",
    ] {
        assert_eq!(
            check_allowed(&[bad.to_owned()], &[]).unwrap_err().code,
            Code::BadConfig,
            "{bad:?}"
        );
        assert_eq!(
            check_allowed(&[], &[bad.to_owned()]).unwrap_err().code,
            Code::BadConfig,
            "{bad:?}"
        );
    }
    let names = ["ops".to_owned(), "acme:system:x".to_owned()];
    check_allowed(&names, &names).unwrap();
}

#[test]
fn groups_of_namespaces_pass_only_where_the_site_chose_them() {
    let chosen = impersonation::namespace_groups(&["shop".parse().unwrap()]);
    let rules = ImpersonationRules::new(&"t-acme".parse().unwrap(), &chosen, &[]);
    let asked = [
        "fairlead:viewer",
        "fairlead:namespace:shop:operator",
        "fairlead:namespace:blog:operator",
    ];
    let permitted = rules.admit(&headers(&["fairlead:ann"], &asked)).unwrap();
    let expected = ["fairlead:viewer", "fairlead:namespace:shop:operator"];
    assert_eq!(permitted.groups(), expected);
    assert!(!permitted.is_admin());
}

#[test]
fn only_admins_reach_the_agents_namespace() {
    let named = |name: &str, value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(USER_HEADER, "fairlead:ann".parse().unwrap());
        headers.insert(HeaderName::try_from(name).unwrap(), value.parse().unwrap());
        headers
    };
    let listed = ["ann@example.org".to_owned()];
    let rules = ImpersonationRules::new(&"t-a".parse().unwrap(), &[], &listed);
    for (group, is_admin) in [
        ("fairlead:admin", true),
        ("fairlead:operator", false),
        ("fairlead:viewer", false),
        ("fairlead:tenant:t-a:admin", false),
    ] {
        let user = rules.admit(&named(GROUP_HEADER, group)).unwrap();
        assert_eq!(user.is_admin(), is_admin, "{group}");
    }
    let mut headers = named(AS_HEADER, "ann@example.org");
    headers.remove(USER_HEADER);
    assert!(
        rules.admit(&headers).unwrap().is_admin(),
        "only admins name another user"
    );
}
