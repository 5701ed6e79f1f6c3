//! Faults of providers, each in the form of its API.

use std::{sync::Arc, time::Duration};

use fairlead_api::Code;
use fairlead_git_servers::ProviderKind;
use fairlead_repositories::{
    GitServer, GitServerError, KnownRepo, RepoSecrets, ReportedRepo, RetiredRepo, Retirement,
};

use crate::{
    fakes::{Fake, FakeKind, Fault},
    host::{Host, Opened, deploy_key, desired, known, open, open_with, url},
};

async fn all() -> Vec<Arc<Fake>> {
    let mut fakes = Vec::new();
    for kind in FakeKind::ALL {
        fakes.push(Fake::start(kind).await);
    }
    fakes
}

async fn first_call(opened: &Opened, path: &str) -> Result<ReportedRepo, GitServerError> {
    let none = KnownRepo::default();
    opened.ensure(&desired(path), &none).await
}

/// Result of the deletion of a repository.
async fn retired(opened: &Opened, path: &str) -> Result<(), GitServerError> {
    let retired = RetiredRepo {
        owner: desired(path).owner,
        url: url(path),
        api_secret: None,
        has_access_token: false,
        retirement: Retirement::Delete,
    };
    let none = RepoSecrets::default();
    opened.server.retire(&retired, &none).await
}

/// Result for a repository with a key while this fault lasts.
async fn during(fake: &Fake, fault: Fault) -> GitServerError {
    let opened = open(fake);
    let mut wish = desired("faults/edge");
    wish.deploy_keys = [("steward".to_owned(), deploy_key(1, false))].into();
    fake.set_fault(Some(fault));
    let refused = opened.ensure(&wish, &KnownRepo::default()).await;
    let error = refused.unwrap_err();
    assert!(!error.to_string().contains(&fake.token()), "{error}");
    fake.set_fault(None);
    error
}

#[tokio::test]
async fn expired_tokens_are_named_with_the_next_step() {
    for fake in all().await {
        let error = during(&fake, Fault::Expired).await;
        let GitServerError::Rejected(reason) = error else {
            panic!("{error:?}");
        };
        assert!(reason.contains("replace the token"), "{reason}");
    }
}

#[tokio::test]
async fn rate_limits_return_the_wait_of_the_server() {
    for fake in all().await {
        let error = during(&fake, Fault::Throttled).await;
        let GitServerError::Throttled { wait, reason } = error else {
            panic!("{error:?}");
        };
        assert_eq!(wait, Duration::from_secs(7));
        assert!(reason.contains("limits the rate"), "{reason}");
    }
}

#[tokio::test]
async fn status_429_of_each_provider_returns_its_wait() {
    for fake in all().await {
        let error = during(&fake, Fault::TooManyRequests).await;
        let GitServerError::Throttled { wait, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(wait, Duration::from_secs(9));
    }
}

#[tokio::test]
async fn a_throttled_server_gets_no_request_meanwhile() {
    for fake in all().await {
        let opened = open(fake.as_ref());
        let wish = desired("faults/edge");
        fake.set_fault(Some(Fault::Throttled));
        let none = KnownRepo::default();
        opened.ensure(&wish, &none).await.unwrap_err();
        let before = fake.requests();
        let refused = opened.ensure(&wish, &none).await;
        assert!(matches!(refused, Err(GitServerError::Throttled { .. })));
        assert_eq!(fake.requests(), before);
    }
}

#[tokio::test]
async fn errors_of_the_server_may_be_retried() {
    for fake in all().await {
        let error = during(&fake, Fault::Broken).await;
        assert!(matches!(error, GitServerError::Unavailable(_)), "{error:?}");
    }
}

#[tokio::test]
async fn keys_in_use_elsewhere_are_rejected_and_the_next_call_continues() {
    for fake in all().await {
        let error = during(&fake, Fault::KeyInUse).await;
        let GitServerError::Rejected(reason) = error else {
            panic!("{error:?}");
        };
        assert!(reason.contains("adding the deploy key steward"), "{reason}");
        let mut wish = desired("faults/edge");
        wish.deploy_keys = [("steward".to_owned(), deploy_key(1, false))].into();
        let none = KnownRepo::default();
        let done = open(fake.as_ref()).ensure(&wish, &none).await;
        assert_eq!(done.unwrap().corrected, ["deploy key steward"]);
    }
}

#[tokio::test]
async fn conflicts_at_creation_are_rejected() {
    for fake in all().await {
        for fault in [Fault::Conflict, Fault::Conflict409] {
            let error = during(&fake, fault).await;
            let GitServerError::Rejected(reason) = error else {
                panic!("{error:?}");
            };
            assert!(reason.contains("creating the repository"), "{reason}");
        }
    }
}

#[tokio::test]
async fn a_missing_repository_is_created_again_and_shown() {
    for fake in all().await {
        let opened = open(fake.as_ref());
        let known = known("gone/edge");
        let done = opened.ensure(&desired("gone/edge"), &known).await;
        assert_eq!(done.unwrap().corrected, ["repository"]);
    }
}

#[tokio::test]
async fn a_repository_gone_for_good_is_created_again_or_retired() {
    for fake in all().await {
        fake.add_repo("gone/other", "main", &[]).await;
        fake.set_fault(Some(Fault::Gone));
        let opened = open(fake.as_ref());
        assert_eq!(retired(&opened, "gone/edge").await, Ok(()));
        let (wish, known) = (desired("gone/edge"), known("gone/edge"));
        let done = opened.ensure(&wish, &known).await;
        assert_eq!(done.unwrap().corrected, ["repository"]);
    }
}

#[tokio::test]
async fn a_group_gone_for_good_is_a_missing_one() {
    for fake in all().await {
        fake.set_fault(Some(Fault::Gone));
        let opened = open_with(fake.as_ref(), |it| it.create_groups = false);
        let refused = first_call(&opened, "nowhere/edge").await;
        let reason = refused.unwrap_err().to_string();
        assert!(reason.contains("has no group nowhere"), "{reason}");
    }
}

#[tokio::test]
async fn the_end_of_a_repository_reports_faults_as_its_creation_does() {
    for fake in all().await {
        let path = "faults/edge";
        first_call(&open(fake.as_ref()), path).await.unwrap();
        let during = async |fault| {
            // A new one, since a rate limit lasts.
            let opened = open(fake.as_ref());
            fake.set_fault(Some(fault));
            let error = retired(&opened, path).await.unwrap_err();
            fake.set_fault(None);
            error
        };
        let GitServerError::Rejected(reason) = during(Fault::Expired).await else {
            panic!("an expired token is no outage");
        };
        assert!(reason.contains("replace the token"), "{reason}");
        let broken = during(Fault::Broken).await;
        assert!(
            matches!(broken, GitServerError::Unavailable(_)),
            "{broken:?}"
        );
        let throttled = during(Fault::Throttled).await;
        let wait = Duration::from_secs(7);
        assert!(
            matches!(throttled, GitServerError::Throttled { wait: found, .. } if found == wait),
            "{throttled:?}"
        );
        assert!(fake.observe(path).await.is_some());
        assert_eq!(retired(&open(fake.as_ref()), path).await, Ok(()));
        assert!(fake.observe(path).await.is_none());
    }
}

#[tokio::test]
async fn a_wrong_provider_is_no_missing_repository() {
    let fake = Fake::start(FakeKind::Gitea).await;
    let opened = open_with(fake.as_ref(), |it| it.create_groups = false);
    fake.set_fault(Some(Fault::NoApi));
    let refused = first_call(&opened, "a/b");
    let reason = refused.await.unwrap_err().to_string();
    assert!(reason.contains("neither GitLab nor GitHub"), "{reason}");
    fake.set_fault(None);
    let named = open_with(fake.as_ref(), |it| it.provider = Some(ProviderKind::GitHub));
    let refused = first_call(&named, "a/b");
    refused.await.unwrap_err();
}

#[tokio::test]
async fn a_group_of_others_gets_no_request() {
    let fake = Fake::start(FakeKind::GitLab).await;
    let groups = |groups: &[&str]| {
        let groups = groups.iter().map(|it| (*it).to_owned()).collect();
        [("t-acme".to_owned(), groups)].into()
    };
    let denied = open_with(fake.as_ref(), |it| it.tenants = groups(&["acme/*"]));
    let error = first_call(&denied, "other/edge").await.unwrap_err();
    let GitServerError::Denied(code, reason) = error else {
        panic!("{error:?}");
    };
    assert_eq!(code, Code::GroupNotAllowed);
    assert!(reason.contains("may not use the group other"), "{reason}");
    assert_eq!(fake.requests(), 0);
    let allowed = open_with(fake.as_ref(), |it| it.tenants = groups(&["other"]));
    first_call(&allowed, "other/edge").await.unwrap();
}

#[tokio::test]
async fn an_unreachable_server_may_be_retried() {
    let fake = Fake::start(FakeKind::GitLab).await;
    // Bound, so that no other test listens there.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = socket.local_addr().unwrap();
    let opened = open_with(fake.as_ref(), |it| it.endpoint = format!("http://{closed}"));
    let refused = first_call(&opened, "a/b");
    let error = refused.await.unwrap_err();
    assert!(matches!(error, GitServerError::Unavailable(_)), "{error:?}");
}
