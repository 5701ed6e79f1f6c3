//! Tests of `authorize`.

use super::*;
use fairlead_seam::{ClusterScope, NamespaceGrant};

fn permit(name: &str, role: Role, as_user: Option<&'static str>) -> Result<Permit, Failure> {
    let caller = Arc::new(Caller {
        token: None,
        name: name.to_owned(),
        role: Role::Admin,
        tenant: None,
        clusters: ClusterScope::All,
        namespaces: Vec::new(),
        grants: Arc::default(),
        subject: None,
        expires: None,
    });
    let grant = Arc::new(Grant::of(role, "t-acme".parse().unwrap()));
    let as_user = as_user.map(HeaderValue::from_static);
    Permit::new(&"c-demo".parse().unwrap(), &caller, &grant, as_user)
}

#[test]
fn permit_names_user_role_and_tenant_and_never_system() {
    let permit = permit("system:masters", Role::Operator, None).unwrap();
    let ImpersonatedNames::Caller(names) = &permit.names else {
        panic!("{permit:?}");
    };
    assert_eq!(names.user, "fairlead:system:masters");
    assert_eq!(
        names.groups,
        ["fairlead:operator", "fairlead:tenant:t-acme:operator"]
    );
}

#[test]
fn role_in_namespaces_impersonates_nobody_else() {
    let grant = Arc::new(Grant {
        role: None,
        namespaces: vec![NamespaceGrant {
            namespace: "shop".parse().unwrap(),
            role: Role::Operator,
        }],
        ..Grant::of(Role::Viewer, "t-acme".parse().unwrap())
    });
    let as_user = Some(HeaderValue::from_static("dev"));
    let refused = Permit::new(
        &"c-demo".parse().unwrap(),
        &Arc::new(crate::front::samples::caller("ann")),
        &grant,
        as_user,
    );
    assert_eq!(refused.unwrap_err().code, Code::NoImpersonation);
}

#[test]
fn only_an_admin_impersonates_another_user() {
    let other = permit("ann", Role::Admin, Some("dev")).unwrap();
    assert_eq!(
        other.names,
        ImpersonatedNames::Other(HeaderValue::from_static("dev"))
    );
    for role in [Role::Operator, Role::Viewer] {
        let refused = permit("ann", role, Some("dev")).unwrap_err();
        assert_eq!(refused, Failure::new(Code::NoImpersonation));
    }
}

#[test]
fn invalid_header_value_makes_no_permit() {
    for name in ["a\r\nfairlead-group: x", "a\0", "a\n"] {
        assert_eq!(
            permit(name, Role::Viewer, None).unwrap_err().code,
            Code::Internal,
            "{name:?}"
        );
    }
}

#[test]
fn tcp_needs_a_role_of_its_own() {
    let caller = crate::front::samples::caller("ann");
    let tenant = || "t-acme".parse().unwrap();
    let only_tcp = Grant {
        role: None,
        tcp: true,
        ..Grant::of(Role::Viewer, tenant())
    };
    for (grant, api, tcp) in [
        (
            Grant::of(Role::Viewer, tenant()),
            None,
            Some(Code::TcpNotAllowed),
        ),
        (
            Grant::of(Role::Operator, tenant()),
            None,
            Some(Code::TcpNotAllowed),
        ),
        (Grant::of(Role::Admin, tenant()), None, None),
        (only_tcp, Some(Code::NotAllowed), None),
    ] {
        let code = |is_tcp| check_kind(&caller, &grant, is_tcp).err().map(|it| it.code);
        assert_eq!((code(false), code(true)), (api, tcp), "{grant:?}");
    }
}
