//! Assertions that hold for each provider.

use std::{collections::BTreeSet, sync::Arc};

use fairlead_api::resources::CreationPolicy;
use fairlead_repositories::{
    DesiredRepo, GitServer, GitServerError, KnownRepo, RepoOwner, RepoSecrets, RetiredRepo,
    Retirement,
};

use crate::{
    contents,
    fakes::{Fake, FakeKind},
    host::{Host, absent, content, deploy_key, desired, known, open, open_with, public_key, url},
    variables,
};

/// Runs all cases, each with a group of its own.
pub(crate) async fn contract(host: Arc<dyn Host>) {
    let host = host.as_ref();
    created_with_its_group_and_stays(host).await;
    existing_ones_are_adopted_by_policy_only(host).await;
    own_creations_are_recognised(host).await;
    keys_are_kept_as_declared(host).await;
    all_pages_of_keys_are_read(host).await;
    files_change_in_one_commit(host).await;
    foreign_files_stay(host).await;
    contents::declared_files_are_kept(host).await;
    contents::undeclared_files_are_removed_unless_edited(host).await;
    contents::folders_of_others_stay(host).await;
    variables::kept_as_declared(host).await;
    variables::all_pages_are_read(host).await;
    changed_descriptions_are_corrected(host).await;
    archived_ones_are_refused_or_adopted(host).await;
    retired_ones_are_archived_or_deleted(host).await;
    renamed_ones_are_refused(host).await;
    missing_groups_are_refused_without_the_setting(host).await;
}

#[tokio::test]
async fn gitea_keeps_the_contract() {
    contract(Fake::start(FakeKind::Gitea).await).await;
}

#[tokio::test]
async fn gitlab_keeps_the_contract() {
    let fake = Fake::start(FakeKind::GitLab).await;
    subgroups_are_created(fake.as_ref()).await;
    contract(fake).await;
}

#[tokio::test]
async fn github_keeps_the_contract() {
    contract(Fake::start(FakeKind::GitHub).await).await;
}

pub(crate) async fn rejected(host: &dyn Host, desired: &DesiredRepo, known: &KnownRepo) -> String {
    let opened = open(host);
    match opened.ensure(desired, known).await {
        Err(GitServerError::Rejected(reason)) => {
            assert!(!reason.contains(&host.token()), "{reason}");
            reason
        }
        other => panic!("rejection expected: {other:?}"),
    }
}

async fn created_with_its_group_and_stays(host: &dyn Host) {
    let opened = open(host);
    let mut wish = desired("fresh/edge");
    wish.url = None;
    wish.path = Some("fresh".to_owned());
    wish.name = Some("edge".to_owned());
    let steward = ("steward".to_owned(), deploy_key(1, false));
    wish.deploy_keys = [steward, ("ci".to_owned(), deploy_key(2, true))].into();
    wish.files = [
        ("a.yml".to_owned(), content("a: 1\n", &[])),
        ("deep/er/b.yml".to_owned(), content("", &[])),
    ]
    .into();
    let made = opened.ensure(&wish, &KnownRepo::default()).await;
    let made = made.unwrap();
    assert_eq!(made.url, url("fresh/edge"));
    assert!(
        made.host_keys
            .unwrap()
            .starts_with("ssh.git.example ssh-ed25519")
    );
    let names: BTreeSet<_> = ["ci", "steward"].map(str::to_owned).into();
    assert_eq!(made.deploy_keys, names);
    let observed = host.observe("fresh/edge").await.unwrap();
    assert_eq!(observed.description, "Edge (Fairlead: c-edge)");
    assert!(!observed.archived);
    let keys = [
        ("ci".to_owned(), public_key(2), true),
        ("steward".to_owned(), public_key(1), false),
    ];
    assert_eq!(observed.keys, keys);
    let files = [("a.yml", "a: 1\n"), ("deep/er/b.yml", "")];
    let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
    assert_eq!(observed.files, files.into());
    assert_eq!(observed.commits, 1, "one commit has all files");
    let before = KnownRepo {
        url: Some(made.url),
        deploy_keys: made.deploy_keys,
        ..KnownRepo::default()
    };
    let again = opened.ensure(&wish, &before).await.unwrap();
    assert_eq!(again.corrected, Vec::<String>::new());
    assert_eq!(host.observe("fresh/edge").await.unwrap(), observed);
}

async fn existing_ones_are_adopted_by_policy_only(host: &dyn Host) {
    host.add_repo("taken/edge", "main", &[("README.md", "mine\n")])
        .await;
    let mut wish = desired("taken/edge");
    let before = host.observe("taken/edge").await;
    let reason = rejected(host, &wish, &KnownRepo::default()).await;
    assert!(reason.contains("exists on git.example already"), "{reason}");
    assert_eq!(
        host.observe("taken/edge").await,
        before,
        "nothing is changed"
    );
    wish.creation_policy = Some(CreationPolicy::Adopt);
    let adopted = open(host).ensure(&wish, &KnownRepo::default()).await;
    assert_eq!(adopted.unwrap().corrected, ["description"]);
    // Another owner does not take it over, as a tenant could with the repository of another one.
    wish.owner = RepoOwner::Cluster("c-other".parse().unwrap());
    for known in [KnownRepo::default(), known("taken/edge")] {
        let reason = rejected(host, &wish, &known).await;
        assert!(reason.contains("belongs to c-edge"), "{reason}");
    }
}

/// A hub that ended before it could record the creation.
async fn own_creations_are_recognised(host: &dyn Host) {
    let opened = open(host);
    let wish = desired("own/edge");
    let none = KnownRepo::default();
    opened.ensure(&wish, &none).await.unwrap();
    let again = opened.ensure(&wish, &none).await.unwrap();
    assert_eq!(again.corrected, Vec::<String>::new());
}

async fn keys_are_kept_as_declared(host: &dyn Host) {
    let opened = open(host);
    let mut wish = desired("keys/edge");
    let old = ("old".to_owned(), deploy_key(11, false));
    wish.deploy_keys = [("steward".to_owned(), deploy_key(10, false)), old].into();
    let none = KnownRepo::default();
    let made = opened.ensure(&wish, &none).await.unwrap();
    host.add_key("keys/edge", "foreign", &public_key(12)).await;
    host.add_key("keys/edge", "hand-made", &public_key(13))
        .await;
    let before = KnownRepo {
        url: Some(made.url),
        deploy_keys: made.deploy_keys,
        ..KnownRepo::default()
    };
    wish.deploy_keys = [
        ("steward".to_owned(), deploy_key(14, false)),
        ("hand-made".to_owned(), deploy_key(13, true)),
    ]
    .into();
    let changed = opened.ensure(&wish, &before).await.unwrap();
    let names: BTreeSet<_> = ["steward", "hand-made"].map(str::to_owned).into();
    assert_eq!(changed.deploy_keys, names);
    let keys = [
        ("foreign".to_owned(), public_key(12), false),
        ("hand-made".to_owned(), public_key(13), true),
        ("steward".to_owned(), public_key(14), false),
    ];
    assert_eq!(host.observe("keys/edge").await.unwrap().keys, keys);
    wish.deploy_keys
        .insert("twice".to_owned(), deploy_key(14, true));
    let reason = rejected(host, &wish, &before).await;
    assert!(
        reason.contains("steward and twice are the same key"),
        "{reason}"
    );
}

async fn all_pages_of_keys_are_read(host: &dyn Host) {
    let opened = open(host);
    let mut wish = desired("many/edge");
    let none = KnownRepo::default();
    opened.ensure(&wish, &none).await.unwrap();
    let count = host.many_keys();
    for number in 0..count {
        let number = u32::try_from(number).unwrap();
        let title = format!("key-{number:04}");
        host.add_key("many/edge", &title, &public_key(1000 + number))
            .await;
    }
    // The last one is on the last page.
    let last = u32::try_from(count).unwrap() - 1;
    let title = format!("key-{last:04}");
    wish.deploy_keys = [(title.clone(), deploy_key(1000 + last, false))].into();
    let known = known("many/edge");
    let again = opened.ensure(&wish, &known).await.unwrap();
    assert_eq!(again.corrected, Vec::<String>::new(), "the key is there");
    wish.deploy_keys = [(title.clone(), deploy_key(1000 + last, true))].into();
    let changed = opened.ensure(&wish, &known).await.unwrap();
    assert_eq!(changed.corrected, [format!("deploy key {title}")]);
    let keys = host.observe("many/edge").await.unwrap().keys;
    assert_eq!(keys.len(), count);
}

async fn files_change_in_one_commit(host: &dyn Host) {
    let files = [("a/one.yml", "1\n"), ("two.yml", "2\n"), ("mine.txt", "?")];
    host.add_repo("files/edge", "trunk", &files).await;
    let mut wish = desired("files/edge");
    wish.files = [
        ("a/one.yml".to_owned(), content("one\n", &["0\n", "1\n"])),
        ("two.yml".to_owned(), absent(&["2\n"])),
        ("b/three.yml".to_owned(), content("three\n", &[])),
    ]
    .into();
    let opened = open(host);
    let known = known("files/edge");
    let done = opened.ensure(&wish, &known).await.unwrap();
    let corrected = ["file a/one.yml", "file b/three.yml", "file two.yml"];
    assert_eq!(done.corrected[1..], corrected, "{done:?}");
    let observed = host.observe("files/edge").await.unwrap();
    let files = [
        ("a/one.yml", "one\n"),
        ("b/three.yml", "three\n"),
        ("mine.txt", "?"),
    ];
    let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
    assert_eq!(observed.files, files.into());
    assert_eq!(observed.commits, 2);
    let again = opened.ensure(&wish, &known).await.unwrap();
    assert_eq!(again.corrected, Vec::<String>::new());
}

async fn foreign_files_stay(host: &dyn Host) {
    let files = [("common.yml", "edited: true\n"), ("c-old.yml", "edited\n")];
    host.add_repo("foreign/edge", "main", &files).await;
    let mut wish = desired("foreign/edge");
    wish.files = [
        ("common.yml".to_owned(), content("classes: []\n", &[""])),
        ("c-old.yml".to_owned(), absent(&["classes: []\n"])),
    ]
    .into();
    let known = known("foreign/edge");
    open(host).ensure(&wish, &known).await.unwrap();
    let observed = host.observe("foreign/edge").await.unwrap();
    let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
    assert_eq!((observed.files, observed.commits), (files.into(), 1));
}

async fn changed_descriptions_are_corrected(host: &dyn Host) {
    let opened = open(host);
    let wish = desired("described/edge");
    let none = KnownRepo::default();
    opened.ensure(&wish, &none).await.unwrap();
    host.describe("described/edge", "changed by hand").await;
    let known = known("described/edge");
    let done = opened.ensure(&wish, &known).await.unwrap();
    assert_eq!(done.corrected, ["description"]);
    let observed = host.observe("described/edge").await.unwrap();
    assert_eq!(observed.description, "Edge (Fairlead: c-edge)");
}

async fn archived_ones_are_refused_or_adopted(host: &dyn Host) {
    host.add_repo("old/edge", "main", &[("a", "b")]).await;
    host.archive("old/edge").await;
    let mut wish = desired("old/edge");
    let known = known("old/edge");
    let reason = rejected(host, &wish, &known).await;
    assert!(reason.contains("is archived on git.example"), "{reason}");
    wish.creation_policy = Some(CreationPolicy::Adopt);
    let done = open(host).ensure(&wish, &known).await.unwrap();
    assert_eq!(done.corrected, ["archived", "description"]);
    assert!(!host.observe("old/edge").await.unwrap().archived);
}

async fn retired_ones_are_archived_or_deleted(host: &dyn Host) {
    let opened = open(host);
    let wish = desired("ended/edge");
    let none = KnownRepo::default();
    opened.ensure(&wish, &none).await.unwrap();
    let mut retired = RetiredRepo {
        owner: wish.owner.clone(),
        url: url("ended/edge"),
        api_secret: None,
        has_access_token: false,
        retirement: Retirement::Archive,
    };
    for _ in 0..2 {
        opened
            .server
            .retire(&retired, &RepoSecrets::default())
            .await
            .unwrap();
        assert!(host.observe("ended/edge").await.unwrap().archived);
    }
    retired.retirement = Retirement::Delete;
    retired.owner = RepoOwner::Cluster("c-heir".parse().unwrap());
    let refused = opened
        .server
        .retire(&retired, &RepoSecrets::default())
        .await;
    let reason = refused.unwrap_err().to_string();
    assert!(reason.contains("does not name c-heir"), "{reason}");
    retired.owner = wish.owner.clone();
    for _ in 0..2 {
        opened
            .server
            .retire(&retired, &RepoSecrets::default())
            .await
            .unwrap();
        assert_eq!(host.observe("ended/edge").await, None);
    }
}

async fn renamed_ones_are_refused(host: &dyn Host) {
    host.add_repo("moved/edge", "main", &[("a", "b")]).await;
    host.rename("moved/edge", "border").await;
    let wish = desired("moved/edge");
    let known = known("moved/edge");
    let reason = rejected(host, &wish, &known).await;
    assert!(reason.contains("was renamed to moved/border"), "{reason}");
    let retired = RetiredRepo {
        owner: wish.owner.clone(),
        url: url("moved/edge"),
        api_secret: None,
        has_access_token: false,
        retirement: Retirement::Delete,
    };
    let refused = open(host)
        .server
        .retire(&retired, &RepoSecrets::default())
        .await;
    assert!(
        matches!(refused, Err(GitServerError::Rejected(_))),
        "{refused:?}"
    );
    assert!(host.observe("moved/border").await.is_some());
}

async fn missing_groups_are_refused_without_the_setting(host: &dyn Host) {
    let opened = open_with(host, |it| it.create_groups = false);
    let wish = desired("nowhere/edge");
    let refused = opened.ensure(&wish, &KnownRepo::default()).await;
    let reason = refused.unwrap_err().to_string();
    assert!(reason.contains("has no group nowhere"), "{reason}");
}

async fn subgroups_are_created(host: &dyn Host) {
    let wish = desired("sub/group/below/edge");
    let none = KnownRepo::default();
    open(host).ensure(&wish, &none).await.unwrap();
    assert!(host.observe("sub/group/below/edge").await.is_some());
}
