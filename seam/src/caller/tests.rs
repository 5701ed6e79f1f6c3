//! Tests of callers.

use time::Duration;

use super::*;

#[test]
fn renewed_credential_has_the_same_caller() {
    let caller = |sub: &str, expires| Caller {
        name: "corp.jane".to_owned(),
        token: None,
        role: Role::Operator,
        tenant: None,
        clusters: ClusterScope::All,
        namespaces: Vec::new(),
        grants: Arc::default(),
        subject: Some(Subject {
            issuer: "https://corp.test".into(),
            sub: sub.to_owned(),
            proof: SubjectProof::Signed,
        }),
        expires,
    };
    let end = OffsetDateTime::UNIX_EPOCH;
    let jane = caller("1", Some(end));
    assert!(caller("1", Some(end + Duration::HOUR)).is_same_as(&jane));
    assert!(!caller("2", Some(end)).is_same_as(&jane));
    let viewer = Caller {
        role: Role::Viewer,
        ..jane.clone()
    };
    assert!(!viewer.is_same_as(&jane));
}
