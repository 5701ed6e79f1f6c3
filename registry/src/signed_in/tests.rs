//! Tests of `signed_in`.

use fairlead_api::resources::Role;
use fairlead_store::model::PersonRole;

use super::*;

fn rights(role: Role) -> PersonRights {
    PersonRights {
        name: "corp.jane".to_owned(),
        roles: vec![PersonRole {
            role,
            tenant: None,
            cluster: None,
            selector: None,
            namespaces: Vec::new(),
            break_glass: false,
        }],
    }
}

fn sighting(second: i64, role: Option<Role>) -> Sighting {
    let issued = OffsetDateTime::from_unix_timestamp(second).unwrap();
    let subject = Subject {
        issuer: "https://corp.test".into(),
        sub: "jane".to_owned(),
        proof: SubjectProof::SignIn { issued },
    };
    Sighting {
        rights: role.map(rights),
        ..Sighting::of(&subject, None).unwrap()
    }
}

fn person(second: i64, role: Option<Role>) -> Person {
    let Sighting {
        id,
        subject,
        issued,
        rights,
    } = sighting(second, role);
    Person {
        id,
        issuer: subject.issuer.to_string(),
        subject: subject.sub,
        issued,
        rights,
    }
}

#[test]
fn newer_token_with_fewer_rights_voids_older_ones() {
    use Effect::{Newer, None as Nothing, Void};
    let (admin, viewer) = (Some(Role::Admin), Some(Role::Viewer));
    for (token, known, effect) in [
        ((10, viewer), (9, admin), Newer),
        ((10, None), (9, admin), Newer),
        ((10, admin), (9, None), Newer),
        ((10, admin), (9, admin), Nothing),
        // Older tokens with fewer rights stay valid.
        ((8, viewer), (9, admin), Nothing),
        ((8, admin), (9, admin), Nothing),
        ((8, admin), (9, viewer), Void),
        ((8, viewer), (9, None), Void),
        // Two tokens of one second.
        ((9, viewer), (9, admin), Newer),
        ((9, admin), (9, viewer), Void),
        ((9, admin), (9, None), Void),
    ] {
        let found = sighting(token.0, token.1).effect(Some(&person(known.0, known.1)));
        assert_eq!(found, effect, "{token:?} after {known:?}");
    }
}

#[test]
fn stranger_without_a_role_leaves_no_trace() {
    assert_eq!(sighting(1, None).effect(None), Effect::None);
    assert_eq!(sighting(1, Some(Role::Viewer)).effect(None), Effect::Newer);
}

#[test]
fn people_of_two_issuers_are_two_people() {
    let subject = |issuer: &str, sub: &str| Subject {
        issuer: issuer.into(),
        sub: sub.to_owned(),
        proof: SubjectProof::Signed,
    };
    let one = id_of(&subject("https://a.test", "jane"));
    assert_ne!(one, id_of(&subject("https://b.test", "jane")));
    assert_ne!(
        id_of(&subject("https://a.test", "x\0y")),
        id_of(&subject("https://a.test\0x", "y"))
    );
}
