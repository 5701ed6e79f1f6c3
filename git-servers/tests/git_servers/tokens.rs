//! Assertions about access tokens of repositories.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use fairlead_api::resources::AccessTokenSettings;
use fairlead_repositories::{
    GitServer, KnownRepo, RepoSecrets, ReportedAccessToken, RetiredRepo, Retirement,
};

use crate::{
    fakes::{Fake, FakeKind},
    host::{Host, Opened, desired, known, open, open_with, url},
};

const NAME: &str = "t-acme/c-edge.access-token";

fn settings(scope: &str) -> AccessTokenSettings {
    AccessTokenSettings {
        scopes: [scope.to_owned()].into(),
        ..AccessTokenSettings::default()
    }
}

/// A GitLab, and a hub with a folder for credentials.
async fn world(home: &Path) -> (Arc<Fake>, Opened) {
    let fake = Fake::start(FakeKind::GitLab).await;
    let folder = home.to_owned();
    let opened = open_with(fake.as_ref(), |it| it.credentials_dir = Some(folder));
    (fake, opened)
}

fn id(token: Option<ReportedAccessToken>) -> String {
    match token {
        Some(ReportedAccessToken::Valid { id, .. }) => id,
        other => panic!("a token expected: {other:?}"),
    }
}

fn after(token: &str) -> KnownRepo {
    KnownRepo {
        access_token: Some(token.to_owned()),
        ..known("token/edge")
    }
}

#[tokio::test]
async fn tokens_are_stored_and_replaced_ahead_of_their_end() {
    let home = tempfile::tempdir().unwrap();
    let (fake, opened) = world(home.path()).await;
    let mut wish = desired("token/edge");
    wish.access_token = Some(settings("write_repository"));
    let made = opened.ensure(&wish, &KnownRepo::default()).await.unwrap();
    assert!(!format!("{made:?}").contains("glpat"), "{made:?}");
    let first = id(made.access_token);
    let file = home.path().join(NAME);
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text, format!("glpat-{first}"));
    let again = opened.ensure(&wish, &after(&first)).await.unwrap();
    assert_eq!(
        (again.corrected, id(again.access_token)),
        (Vec::new(), first.clone())
    );

    fake.end_tokens_in("token/edge", 20);
    let renewed = opened.ensure(&wish, &after(&first)).await.unwrap();
    let second = id(renewed.access_token);
    assert_ne!(first, second);
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        format!("glpat-{second}")
    );
    // Programs may still have the first one.
    opened.ensure(&wish, &after(&second)).await.unwrap();
    assert_eq!(fake.tokens("token/edge"), [first.clone(), second.clone()]);
    fake.age_tokens("token/edge");
    opened.ensure(&wish, &after(&second)).await.unwrap();
    assert_eq!(fake.tokens("token/edge"), vec![second.clone()]);

    // An unreadable file is a failed try.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let failed = opened.ensure(&wish, &after(&second)).await;
    assert!(
        matches!(&failed, Err(fairlead_repositories::GitServerError::Unavailable(reason)) if reason.contains("reading the access token")),
        "{failed:?}"
    );
    assert_eq!(fake.tokens("token/edge"), vec![second.clone()]);

    // A lost file and other rights need a new token as well.
    fs::remove_file(&file).unwrap();
    let third = id(opened
        .ensure(&wish, &after(&second))
        .await
        .unwrap()
        .access_token);
    wish.access_token = Some(settings("read_repository"));
    let fourth = id(opened
        .ensure(&wish, &after(&third))
        .await
        .unwrap()
        .access_token);
    assert_ne!(third, fourth);

    wish.access_token = None;
    let none = opened.ensure(&wish, &after(&fourth)).await.unwrap();
    assert_eq!(none.access_token, None);
    assert_eq!(fake.tokens("token/edge"), Vec::<String>::new());
}

#[tokio::test]
async fn tokens_of_deleted_owners_are_revoked_before_the_end() {
    let home = tempfile::tempdir().unwrap();
    let (fake, opened) = world(home.path()).await;
    let mut wish = desired("token/edge");
    wish.access_token = Some(settings("write_repository"));
    let made = opened.ensure(&wish, &KnownRepo::default()).await.unwrap();
    let token = id(made.access_token);
    fake.add_token("token/edge", "of a person");
    let all = fake.tokens("token/edge");
    assert_eq!((all.len(), &all[0]), (2, &token));
    let mut retired = RetiredRepo {
        owner: wish.owner.clone(),
        url: url("token/edge"),
        api_secret: None,
        has_access_token: false,
        retirement: Retirement::Archive,
    };
    let none = RepoSecrets::default();
    // Without a token of the hub, none is read: not every GitLab has them.
    opened.server.retire(&retired, &none).await.unwrap();
    assert_eq!(fake.tokens("token/edge"), all);
    retired.has_access_token = true;
    // The hub ended before it had revoked them.
    for _ in 0..2 {
        opened.server.retire(&retired, &none).await.unwrap();
        assert_eq!(fake.tokens("token/edge"), all[1..]);
        assert!(fake.observe("token/edge").await.unwrap().archived);
    }
}

#[tokio::test]
async fn servers_without_tokens_say_so_and_provide_the_rest() {
    for kind in [FakeKind::Gitea, FakeKind::GitHub] {
        let fake = Fake::start(kind).await;
        let mut wish = desired("token/edge");
        wish.access_token = Some(settings("write_repository"));
        let made = open(fake.as_ref())
            .ensure(&wish, &KnownRepo::default())
            .await;
        let token = made.unwrap().access_token;
        assert_eq!(token, Some(ReportedAccessToken::Unsupported));
    }
}

#[tokio::test]
async fn a_token_without_a_place_is_not_made() {
    let fake = Fake::start(FakeKind::GitLab).await;
    let mut wish = desired("token/edge");
    wish.access_token = Some(settings("write_repository"));
    let made = open(fake.as_ref())
        .ensure(&wish, &KnownRepo::default())
        .await;
    let made = made.unwrap();
    let [reason] = &made.unmet[..] else {
        panic!("{made:?}");
    };
    assert!(reason.contains("needs credentials_dir"), "{reason}");
    assert_eq!(made.access_token, Some(ReportedAccessToken::Failed));
    assert_eq!(fake.tokens("token/edge"), Vec::<String>::new());
}
