//! Tests of `address`.

use fairlead_api::Code;

use super::*;

fn locate(sni: Option<&str>, host: &str, path: &str) -> Result<String, Code> {
    let names = HubNames::new("clusters.hub.test", "hub.test");
    let uri = path.parse().unwrap();
    match names.locate(sni, Some(host), &uri) {
        Ok(Destination::Hub) => Ok("hub".to_owned()),
        Ok(Destination::Cluster(id, path, _)) => Ok(format!("{id} {path}")),
        Ok(Destination::Tcp(id)) => Ok(format!("tcp {id}")),
        Err(failure) => Err(failure.code()),
    }
}

#[test]
fn a_cluster_is_found_by_name_and_by_path() {
    let a = "c-a.clusters.hub.test";
    for (sni, host, path, found) in [
        (Some(a), a, "/api?x=1", "c-a /api?x=1"),
        (Some(a), "C-A.Clusters.Hub.Test:443", "/api", "c-a /api"),
        (Some(a), "c-a.clusters.hub.test.", "/api", "c-a /api"),
        (Some(a), "127.0.0.1:8443", "/api", "c-a /api"),
        (Some(a), "[::1]:8443", "/api", "c-a /api"),
        (Some(a), "hub.test:8443", "/api", "c-a /api"),
        (
            Some(a),
            "localhost",
            "/k8s/clusters/c-b/x",
            "c-a /k8s/clusters/c-b/x",
        ),
        (None, a, "/api", "c-a /api"),
        (
            Some("hub.test"),
            "hub.test",
            "/k8s/clusters/c-a/api/v1?watch=1",
            "c-a /api/v1?watch=1",
        ),
        (None, "127.0.0.1", "/k8s/clusters/c-a", "c-a /"),
        (None, "127.0.0.1", "/k8s/clusters/c-a?x=%2F", "c-a /?x=%2F"),
        (Some("lb.test"), "other.test", "/k8s/clusters/c-a/", "c-a /"),
        (Some("hub.test"), "hub.test", "/api/v1/clusters", "hub"),
        (Some("lb.test"), "10.0.0.1", "/connect", "hub"),
        (None, "hub.test", "/k8s", "hub"),
        (
            Some("hub.test"),
            "hub.test",
            "/v1/clusters/c-a/tcp/db:5432",
            "tcp c-a",
        ),
        (None, "10.0.0.1", "/v1/clusters/c-a/tcp/", "tcp c-a"),
        (
            Some(a),
            a,
            "/v1/clusters/c-b/tcp/db:5432",
            "c-a /v1/clusters/c-b/tcp/db:5432",
        ),
        (None, "hub.test", "/v1/clusters/c-a/tcp", "hub"),
        (None, "hub.test", "/v1/clusters/c-a/tcpx/db:5432", "hub"),
    ] {
        assert_eq!(
            locate(sni, host, path).as_deref(),
            Ok(found),
            "{sni:?} {host} {path}"
        );
    }
}

#[test]
fn conflicting_names_are_rejected() {
    let a = "c-a.clusters.hub.test";
    for (sni, host, code) in [
        (Some(a), "c-b.clusters.hub.test", Code::WrongHost),
        (Some("hub.test"), a, Code::WrongHost),
        (Some("lb.test"), a, Code::WrongHost),
        (Some(a), "evil.test", Code::WrongHost),
        (Some(a), "a.c-a.clusters.hub.test", Code::NoSuchCluster),
        (None, "demo.clusters.hub.test", Code::NoSuchCluster),
        (Some("x.clusters.hub.test"), "hub.test", Code::NoSuchCluster),
        (None, "me@hub.test", Code::BadRequest),
        (None, "hub.test:80:80", Code::BadRequest),
        (None, "hub.test:x", Code::BadRequest),
        (None, "[::1", Code::BadRequest),
        (None, "", Code::BadRequest),
        (None, "hub.test/x", Code::BadRequest),
    ] {
        assert_eq!(locate(sni, host, "/"), Err(code), "{sni:?} {host}");
    }
    assert_eq!(
        locate(None, "hub.test", "/k8s/clusters//x"),
        Err(Code::NoSuchCluster)
    );
    assert_eq!(
        locate(None, "hub.test", "/k8s/clusters/t-a/x"),
        Err(Code::NoSuchCluster)
    );
    assert_eq!(
        locate(None, "hub.test", "/k8s/clusters/c-A/x"),
        Err(Code::NoSuchCluster)
    );
    assert_eq!(
        locate(None, "hub.test", "/v1/clusters/t-a/tcp/db:1"),
        Err(Code::NoSuchCluster)
    );
}
