//! Tokens that the hub opens for a call: they replace those of files, for all providers.

use std::fs;

use fairlead_repositories::{
    GitServer, GitServerError, KnownRepo, RepoSecrets, RetiredRepo, Retirement,
};

use crate::{
    fakes::{Fake, FakeKind},
    host::{Host, desired, open_with, restrict, url},
};

const PATH: &str = "stored/edge";

#[tokio::test]
async fn tokens_of_the_store_replace_those_of_files() {
    for kind in FakeKind::ALL {
        let fake = Fake::start(kind).await;
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("wrong");
        restrict(&file, "another-token");
        let opened = open_with(fake.as_ref(), |it| it.token_file = Some(file.clone()));
        let stored = RepoSecrets {
            api_token: Some(fake.token().into()),
            ..RepoSecrets::default()
        };
        let refused = opened.ensure(&desired(PATH), &KnownRepo::default()).await;
        assert!(matches!(refused, Err(GitServerError::Rejected(_))));
        // Not even a file is needed.
        fs::remove_file(&file).unwrap();
        let known = KnownRepo::default();
        let server = &opened.server;
        server
            .ensure(&desired(PATH), &known, &stored)
            .await
            .unwrap();
        assert!(fake.observe(PATH).await.is_some());
        let retired = RetiredRepo {
            owner: desired(PATH).owner,
            url: url(PATH),
            api_secret: None,
            has_access_token: false,
            retirement: Retirement::Delete,
        };
        let refused = server.retire(&retired, &RepoSecrets::default()).await;
        assert!(matches!(refused, Err(GitServerError::Rejected(_))));
        server.retire(&retired, &stored).await.unwrap();
        assert!(fake.observe(PATH).await.is_none());
    }
}
