//! Assertions about CI variables, for each provider.

use std::fs;

use fairlead_api::resources::ValueSource;
use fairlead_repositories::{DesiredVariable, GitServer, KnownRepo, RepoSecrets, VariableSource};

use crate::{
    fakes::{Fake, FakeKind},
    host::{Host, declared, desired, known, open, open_with, restrict},
};

const SECRET: &str = "s3cret-of-the-ci";

fn variable(source: VariableSource, masked: bool) -> DesiredVariable {
    DesiredVariable {
        source,
        version: None,
        protected: false,
        masked,
        raw: false,
    }
}

fn plain(text: &str) -> DesiredVariable {
    variable(VariableSource::Text(text.to_owned()), false)
}

fn sealed() -> DesiredVariable {
    variable(VariableSource::Sealed("v1.x".to_owned()), true)
}

fn secrets(name: &str, value: &str) -> RepoSecrets {
    RepoSecrets {
        values: [(name.to_owned(), value.to_owned().into())].into(),
        ..RepoSecrets::default()
    }
}

pub(crate) async fn kept_as_declared(host: &dyn Host) {
    let opened = open(host);
    let mut wish = desired("variables/edge");
    wish.ci_variables = [
        ("CLUSTERS".to_owned(), plain("c-one c-two")),
        ("TOKEN".to_owned(), sealed()),
        ("Mixed_old".to_owned(), plain("1")),
    ]
    .into();
    let values = secrets("TOKEN", SECRET);
    let none = KnownRepo::default();
    let made = opened.server.ensure(&wish, &none, &values).await.unwrap();
    host.set_variable("variables/edge", "BY_HAND", "mine").await;
    let mut known = known("variables/edge");
    known.ci_variables = made.ci_variables;
    let again = opened.server.ensure(&wish, &known, &values).await.unwrap();
    assert_eq!(again.corrected, Vec::<String>::new());

    wish.ci_variables.remove("Mixed_old");
    wish.ci_variables
        .insert("CLUSTERS".to_owned(), plain("c-two"));
    let done = opened.server.ensure(&wish, &known, &values).await.unwrap();
    assert_eq!(done.corrected.len(), 2, "{done:?}");
    assert!(!format!("{done:?}").contains(SECRET), "{done:?}");
    let observed = host.variables("variables/edge").await;
    let expected = [
        ("BY_HAND", Some("mine"), false),
        ("CLUSTERS", Some("c-two"), false),
        ("TOKEN", host.shows_secrets().then_some(SECRET), true),
    ];
    let expected =
        expected.map(|(name, value, masked)| (name.to_owned(), value.map(str::to_owned), masked));
    assert_eq!(observed, expected);

    // A plain variable becomes a masked one, and changes of people are corrected.
    wish.ci_variables.insert("CLUSTERS".to_owned(), sealed());
    wish.ci_variables
        .insert("BY_HAND".to_owned(), plain("ours"));
    let mut values = values;
    values
        .values
        .insert("CLUSTERS".to_owned(), "masked-value".to_owned().into());
    opened.server.ensure(&wish, &known, &values).await.unwrap();
    let observed = host.variables("variables/edge").await;
    let clusters = observed.iter().filter(|(name, ..)| name == "CLUSTERS");
    assert_eq!(clusters.map(|it| it.2).collect::<Vec<_>>(), [true]);
    let by_hand = observed
        .iter()
        .find(|(name, ..)| name == "BY_HAND")
        .unwrap();
    assert_eq!(by_hand.1.as_deref(), Some("ours"));
}

pub(crate) async fn all_pages_are_read(host: &dyn Host) {
    let mut wish = desired("pages/edge");
    let many = (0..60).map(|number| (format!("V_{number}"), plain("1")));
    wish.ci_variables = many.collect();
    let opened = open(host);
    let made = opened.ensure(&wish, &KnownRepo::default()).await.unwrap();
    assert_eq!(made.ci_variables.len(), 60);
    let again = opened.ensure(&wish, &known("pages/edge")).await.unwrap();
    assert_eq!(again.corrected, Vec::<String>::new());
}

/// Reason against one variable; all other parts of the repository are as desired.
async fn rejected(fake: &Fake, variable: DesiredVariable) -> String {
    let mut wish = desired("refused/edge");
    wish.ci_variables = [
        ("AFTER".to_owned(), plain("1")),
        ("REFUSED".to_owned(), variable),
        ("ZONE".to_owned(), plain("2")),
    ]
    .into();
    wish.files = [("a".to_owned(), declared("text"))].into();
    let made = open(fake).ensure(&wish, &KnownRepo::default()).await;
    let mut made = made.unwrap();
    let names: Vec<_> = made.ci_variables.iter().map(String::as_str).collect();
    assert_eq!(names, ["AFTER", "ZONE"]);
    assert_eq!(fake.variables("refused/edge").await.len(), 2);
    let observed = fake.observe("refused/edge").await.unwrap();
    assert_eq!(observed.files["a"], "text");
    assert_eq!(made.unmet.len(), 1, "{made:?}");
    made.unmet.remove(0)
}

#[tokio::test]
async fn a_variable_that_lost_its_credential_keeps_its_value() {
    let fake = Fake::start(FakeKind::GitLab).await;
    let mut wish = desired("lost/edge");
    wish.ci_variables = [("TOKEN".to_owned(), sealed())].into();
    let opened = open(fake.as_ref());
    let none = KnownRepo::default();
    let values = secrets("TOKEN", SECRET);
    opened.server.ensure(&wish, &none, &values).await.unwrap();
    let mut known = known("lost/edge");
    known.ci_variables = ["TOKEN".to_owned()].into();
    let done = opened.ensure(&wish, &known).await.unwrap();
    assert_eq!(
        (done.unmet.len(), &done.ci_variables),
        (1, &known.ci_variables)
    );
    let observed = fake.variables("lost/edge").await;
    assert_eq!(observed[0].1.as_deref(), Some(SECRET));
}

#[tokio::test]
async fn variables_without_a_value_are_refused_with_their_name() {
    let fake = Fake::start(FakeKind::GitLab).await;
    for (source, expected) in [
        (
            VariableSource::None,
            "the CI variable REFUSED: it has no value",
        ),
        (
            VariableSource::Sealed("v1.x".to_owned()),
            "another key of the hub",
        ),
    ] {
        let reason = rejected(&fake, variable(source, true)).await;
        assert!(reason.contains(expected), "{reason}");
    }
}

#[tokio::test]
async fn servers_without_protected_variables_refuse_them() {
    for kind in [FakeKind::GitHub, FakeKind::Gitea] {
        let fake = Fake::start(kind).await;
        let protected = DesiredVariable {
            protected: true,
            ..plain("1")
        };
        let reason = rejected(&fake, protected).await;
        assert!(reason.contains("protected is unsupported"), "{reason}");
    }
}

#[tokio::test]
async fn credentials_come_from_the_folder_of_the_tenant_alone() {
    let fake = Fake::start(FakeKind::GitLab).await;
    let home = tempfile::tempdir().unwrap();
    for (tenant, text) in [("t-acme", "of-acme"), ("t-other", "of-other")] {
        let folder = home.path().join(tenant);
        fs::create_dir(&folder).unwrap();
        restrict(&folder.join(tenant), text);
    }
    let opened = open_with(fake.as_ref(), |it| {
        it.credentials_dir = Some(home.path().to_owned());
    });
    let mut wish = desired("files/edge");
    let of = |name: &str| {
        let name = name.to_owned();
        variable(
            VariableSource::Credential(ValueSource { name, key: None }),
            true,
        )
    };
    wish.ci_variables = [("TOKEN".to_owned(), of("t-acme"))].into();
    opened.ensure(&wish, &KnownRepo::default()).await.unwrap();
    let observed = fake.variables("files/edge").await;
    assert_eq!(observed[0].1.as_deref(), Some("of-acme"));
    for name in ["t-other", "../t-other/t-other"] {
        wish.ci_variables = [("TOKEN".to_owned(), of(name))].into();
        let done = opened.ensure(&wish, &known("files/edge")).await.unwrap();
        assert_eq!(done.unmet.len(), 1, "{done:?}");
        assert!(!format!("{done:?}").contains("of-other"), "{done:?}");
        let observed = fake.variables("files/edge").await;
        assert_eq!(observed[0].1.as_deref(), Some("of-acme"));
    }
}
