//! Assertions about declared content of repositories, for each provider.

use std::collections::BTreeMap;

use fairlead_repositories::{DesiredFile, KnownRepo};

use crate::{
    cases::rejected,
    host::{Host, content, declared, desired, known, open},
};

fn texts(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    let files = files.iter();
    files
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect()
}

pub(crate) async fn declared_files_are_kept(host: &dyn Host) {
    let files = [("a.yml", "edited\n"), ("old/b.yml", "?"), ("mine", "mine")];
    host.add_repo("declared/edge", "trunk", &files).await;
    let mut wish = desired("declared/edge");
    wish.files = [
        ("a.yml".to_owned(), declared("a: 1\n")),
        ("new/c.yml".to_owned(), declared("")),
        ("old/b.yml".to_owned(), DesiredFile::Deleted),
        ("never.yml".to_owned(), DesiredFile::Deleted),
    ]
    .into();
    let opened = open(host);
    let mut known = known("declared/edge");
    let done = opened.ensure(&wish, &known).await.unwrap();
    let corrected = ["file a.yml", "file new/c.yml", "file old/b.yml"];
    assert_eq!(done.corrected[1..], corrected, "{done:?}");
    let observed = host.observe("declared/edge").await.unwrap();
    let files = [("a.yml", "a: 1\n"), ("mine", "mine"), ("new/c.yml", "")];
    assert_eq!((observed.files, observed.commits), (texts(&files), 2));
    assert_eq!(
        done.files.keys().collect::<Vec<_>>(),
        ["a.yml", "new/c.yml"]
    );
    known.files = done.files.clone();
    let again = opened.ensure(&wish, &known).await.unwrap();
    assert_eq!((again.corrected, &again.files), (Vec::new(), &done.files));
    wish.files.insert("a.yml".to_owned(), declared("a: 2\n"));
    let changed = opened.ensure(&wish, &known).await.unwrap();
    assert_eq!(changed.corrected, ["file a.yml"]);
    let observed = host.observe("declared/edge").await.unwrap();
    assert_eq!(observed.files["a.yml"], "a: 2\n");
    assert_ne!(changed.files["a.yml"], done.files["a.yml"]);
}

pub(crate) async fn undeclared_files_are_removed_unless_edited(host: &dyn Host) {
    let opened = open(host);
    let mut wish = desired("undeclared/edge");
    let paths = ["class.yml", "edited.yml", "plain.yml"];
    let files = paths.map(|path| (path.to_owned(), declared("people: 1\n")));
    wish.files = files.into();
    let made = opened.ensure(&wish, &KnownRepo::default()).await;
    let mut known = known("undeclared/edge");
    known.files = made.unwrap().files;
    let edited = [("edited.yml".to_owned(), declared("edited\n"))];
    let mut by_hand = wish.clone();
    by_hand.files.extend(edited);
    opened.ensure(&by_hand, &known).await.unwrap();
    wish.files = [("class.yml".to_owned(), content("classes: []\n", &[]))].into();
    let done = opened.ensure(&wish, &known).await.unwrap();
    assert_eq!(done.corrected, ["file class.yml", "file plain.yml"]);
    assert!(done.files.is_empty(), "{done:?}");
    let observed = host.observe("undeclared/edge").await.unwrap();
    let files = [("class.yml", "classes: []\n"), ("edited.yml", "edited\n")];
    assert_eq!(observed.files, texts(&files));
    // Another repository has files of its own.
    known.url = None;
    known.files = [("edited.yml".to_owned(), made_id(host, "edited\n").await)].into();
    opened.ensure(&wish, &known).await.unwrap();
    let observed = host.observe("undeclared/edge").await.unwrap();
    assert_eq!(observed.files, texts(&files));
}

/// Id of a blob as the hub records it.
async fn made_id(host: &dyn Host, text: &str) -> String {
    let mut wish = desired("ids/edge");
    wish.files = [("a".to_owned(), declared(text))].into();
    let done = open(host).ensure(&wish, &KnownRepo::default()).await;
    done.unwrap().files["a"].clone()
}

pub(crate) async fn folders_of_others_stay(host: &dyn Host) {
    let files = [("docs/index.md", "text"), ("file", "text")];
    host.add_repo("places/edge", "main", &files).await;
    for path in ["docs", "file/below"] {
        let mut wish = desired("places/edge");
        wish.files = [(path.to_owned(), declared("mine"))].into();
        let reason = rejected(host, &wish, &known("places/edge")).await;
        assert!(reason.contains("cannot be written beside"), "{reason}");
    }
    let observed = host.observe("places/edge").await.unwrap();
    assert_eq!(observed.files, texts(&files));
}
