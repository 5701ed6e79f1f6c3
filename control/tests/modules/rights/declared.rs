//! Declared rights of each route, compared with the answers to callers of each role.

use fairlead_api::resources::Role;
use http::Method;

use super::{TABLE, of_role, world};
use crate::rig::Rig;

/// Path with values in the place of its parameters.
fn real(path: &str) -> String {
    let value = |segment: &str| match segment {
        "{clusterId}" => "c-of-a".to_owned(),
        "{tenantId}" => "t-a".to_owned(),
        "{tokenId}" => "k-none".to_owned(),
        "{accessRequestId}" => "ar-0000000000000000".to_owned(),
        "{groupId}" => "g-a".to_owned(),
        "{sourceId}" => "s-a".to_owned(),
        "{bundleId}" => "b-a".to_owned(),
        segment if segment.starts_with('{') => "x".to_owned(),
        segment => segment.to_owned(),
    };
    path.split('/').map(value).collect::<Vec<_>>().join("/")
}

/// A route outside of the table is called with the example of its description.
#[tokio::test]
async fn every_route_requires_its_declared_rights() {
    let rig = Rig::new().await;
    for route in rig.control.routes().iter().filter(|it| !it.is_open()) {
        let path = real(route.path());
        let method: Method = route.method().to_uppercase().parse().unwrap();
        let of_route = |row: &&(&str, &str, &str, &str)| {
            method.as_str() == row.0 && path == row.1.split('?').next().unwrap()
        };
        let rows: Vec<_> = TABLE.iter().filter(of_route).collect();
        let example = route.example_body().cloned();
        let has_request = !rows.is_empty() || !route.has_body() || example.is_some();
        assert!(has_request, "{method} {path} has neither row nor example");
        for (at, role) in Role::ALL.into_iter().enumerate() {
            let who = of_role(role);
            let is_allowed = route.rights().iter().any(|right| right.allows(&who));
            let found: String = if rows.is_empty() {
                world(&rig).await;
                let body = example.clone().unwrap_or_default();
                let reply = rig.call(&who, method.clone(), &path, body).await;
                if reply.status == 403 { "-" } else { "+" }.to_owned()
            } else {
                rows.iter()
                    .map(|row| char::from(row.3.as_bytes()[at]))
                    .collect()
            };
            // A hidden resource shows no rights.
            if found.contains('+') || !found.contains('?') {
                assert_eq!(found.contains('+'), is_allowed, "{role}: {method} {path}");
            }
        }
    }
}
