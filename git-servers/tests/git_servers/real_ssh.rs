//! Host keys of a real OpenSSH server.

use fairlead_e2e::ssh::SshServer;
use fairlead_repositories::{GitServer, GitServerError};

use crate::{
    fakes::{Fake, FakeKind},
    host::open_with,
};

#[tokio::test]
#[ignore = "needs OpenSSH's server, which is unpacked once: `make gitea`"]
async fn host_keys_of_openssh_are_read() {
    let unpacked = SshServer::build().await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let ssh = SshServer::start(&unpacked, home.path()).await.unwrap();
    let (place, key) = ssh.known_host().trim().split_once(' ').unwrap();
    let port: u16 = place.rsplit_once(':').unwrap().1.parse().unwrap();
    let fake = Fake::start(FakeKind::Gitea).await;
    let opened = open_with(fake.as_ref(), |settings| {
        settings.ssh_host = Some("127.0.0.1".to_owned());
        settings.ssh_port = Some(port);
    });
    let scanned = opened.server.scan_host_keys().await.unwrap();
    // A comment may follow the key.
    let words: Vec<&str> = key.split(' ').take(2).collect();
    assert_eq!(scanned, format!("{place} {}\n", words.join(" ")));
}

#[tokio::test]
async fn an_unreachable_ssh_server_is_reported() {
    // Bound, so that no other test listens there.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = closed.local_addr().unwrap().port();
    let fake = Fake::start(FakeKind::Gitea).await;
    let opened = open_with(fake.as_ref(), |settings| {
        settings.ssh_host = Some("127.0.0.1".to_owned());
        settings.ssh_port = Some(port);
    });
    let error = opened.server.scan_host_keys().await.unwrap_err();
    assert!(matches!(error, GitServerError::Unavailable(_)), "{error:?}");
    assert!(error.to_string().contains(&port.to_string()), "{error}");
}
