//! Sources over HTTP: the program git against `git http-backend` behind a small server.

mod limits;
mod results;
mod untarget;

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use fairlead_api::{
    Code,
    delivery::{BundleFields, GitSource},
    resources::Credentials,
};
use fairlead_store::{
    Actor, Clock, Draft, Place, Store, StoreError,
    model::{Binding, Bootstrap, BundleRecord, BundleSource, Cluster},
};
use fairlead_testkit::wall_clock::WallClock;
use tempfile::TempDir;
use time::OffsetDateTime;

use super::{SourceSettings, Sources, schedule::PollKey, state};
use crate::parts::DeliveryParts;
use fairlead_testkit::git_server::GitServer;

const SOURCE: &str = "s-platform";

/// A hub without a front, and a repository behind a server.
struct Rig {
    sources: Arc<Sources>,
    store: Store,
    server: GitServer,
    home: TempDir,
    clock: WallClock,
}

impl Rig {
    async fn new() -> Self {
        Rig::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut SourceSettings)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let start = OffsetDateTime::from_unix_timestamp(1_795_255_200).unwrap();
        let wall = WallClock::at(start);
        let clock = Clock::new(wall.reader());
        let place = Place::File(home.path().join("hub.db"));
        let store = Store::open(&place, clock.clone()).await.unwrap();
        let mut settings = SourceSettings {
            credentials: Some(home.path().join("credentials")),
            ..SourceSettings::of_data_dir(home.path())
        };
        change(&mut settings);
        let sources = Sources::new(DeliveryParts::of(&store, &clock), settings);
        sources.prepare().unwrap();
        let server = GitServer::start(home.path().join("served")).await;
        let rig = Rig {
            sources,
            store,
            server,
            home,
            clock: wall,
        };
        rig.git(&["init", "-q", "-b", "main", "."]);
        let served = rig.server.repository();
        let served = served.to_str().unwrap();
        rig.git(&["init", "-q", "--bare", "-b", "main", served]);
        rig.git(&["remote", "add", "origin", served]);
        rig
    }

    fn work(&self) -> PathBuf {
        let work = self.home.path().join("work");
        std::fs::create_dir_all(&work).unwrap();
        work
    }

    /// Runs git in the working copy.
    #[track_caller]
    fn git(&self, arguments: &[&str]) {
        git(&self.work(), arguments);
    }

    fn file(&self, path: &str, content: &str) {
        let path = self.work().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Commits everything and pushes.
    #[track_caller]
    fn push(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "change"]);
        self.git(&["push", "-q", "--force", "origin", "HEAD:main"]);
    }

    async fn put(&self, paths: &[&str], change: impl FnOnce(&mut BundleSource)) {
        let mut source = BundleSource {
            id: SOURCE.parse().unwrap(),
            tenant: "t-default".parse().unwrap(),
            git: GitSource {
                url: self.server.url(),
                reference: "main".to_owned(),
                paths: paths.iter().map(|it| (*it).to_owned()).collect(),
                credentials: None,
                host_keys: None,
                verify: None,
            },
            suspended: false,
            prune: false,
            commit: None,
            artifacts: Vec::new(),
            requested: 0,
            poll: None,
        };
        change(&mut source);
        self.change(move |draft| draft.put_source(source.clone()))
            .await;
    }

    async fn change(
        &self,
        change: impl FnMut(&mut Draft) -> Result<(), StoreError> + Send + 'static,
    ) {
        let changed = self.store.change::<_, StoreError, _>(Actor::Hub, change);
        changed.await.unwrap();
    }

    fn source(&self) -> BundleSource {
        let view = self.store.view();
        view.source(&SOURCE.parse().unwrap()).unwrap().value.clone()
    }

    async fn cluster(&self, id: &str, site: &str) {
        let now = time::OffsetDateTime::UNIX_EPOCH;
        let registration = fairlead_certs::Registration::from_bytes([1; 8]);
        let binding = Binding::open(registration, Bootstrap::new(1, now, None));
        let (id, tenant) = (id.parse().unwrap(), "t-default".parse().unwrap());
        let mut cluster = Cluster::new(id, tenant, binding, now);
        cluster
            .annotations
            .insert("site".to_owned(), site.to_owned());
        self.change(move |draft| draft.put_cluster(cluster.clone()))
            .await;
    }

    /// Polls once, and returns the reason of a failure.
    async fn poll(&self) -> Option<String> {
        self.clock.advance(time::Duration::SECOND);
        let source = self.source();
        let key = PollKey::of(&source.tenant, &source.git);
        self.sources.poll(&key).await;
        state::shown(&self.source()).reason
    }

    fn bundle(&self, id: &str) -> Option<BundleRecord> {
        let view = self.store.view();
        let bundle = view.bundle(&id.parse().unwrap());
        bundle.map(|it| it.value.clone())
    }

    fn generation(&self, id: &str) -> u64 {
        self.bundle(id)
            .and_then(|it| it.newest().map(|it| it.number))
            .unwrap_or(0)
    }
}

#[track_caller]
fn git(folder: &Path, arguments: &[&str]) {
    let output = Command::new("git")
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "anna")
        .env("GIT_AUTHOR_EMAIL", "anna@test")
        .env("GIT_COMMITTER_NAME", "anna")
        .env("GIT_COMMITTER_EMAIL", "anna@test")
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

#[tokio::test]
async fn only_changed_folders_get_a_generation() {
    let rig = Rig::new().await;
    rig.file("apps/shop/web.yaml", "kind: ConfigMap\n");
    rig.file(
        "apps/shop/fairlead.yaml",
        "namespace: shop\ntargets: [{selector: site=edge}]\n",
    );
    rig.file("apps/crds/crd.yaml", "kind: ConfigMap\n");
    rig.file("README.md", "other\n");
    rig.push();
    rig.put(&["apps/shop", "apps/crds"], |_| {}).await;
    assert_eq!(rig.poll().await, None);
    let shop = rig.bundle("b-shop").unwrap();
    assert_eq!(shop.fields.namespace.as_deref(), Some("shop"));
    assert_eq!(
        (shop.path.as_deref(), shop.fields.targets.len()),
        (Some("apps/shop"), 1)
    );
    let first = rig.source();
    assert_eq!(first.artifacts.len(), 2);
    let stored = rig
        .sources
        .parts
        .contents
        .get(&first.artifacts[1].artifact)
        .await
        .unwrap();
    assert!(stored.is_some_and(|it| it.starts_with(&[0x1f, 0x8b])));

    assert_eq!(rig.poll().await, None);
    assert_eq!((rig.generation("b-shop"), rig.generation("b-crds")), (1, 1));
    rig.file("README.md", "changed\n");
    rig.push();
    rig.poll().await;
    assert_ne!(rig.source().commit, first.commit);
    assert_eq!((rig.generation("b-shop"), rig.generation("b-crds")), (1, 1));
    rig.file("apps/shop/web.yaml", "kind: Secret\n");
    rig.push();
    rig.poll().await;
    assert_eq!((rig.generation("b-shop"), rig.generation("b-crds")), (2, 1));
    assert!(
        rig.bundle("b-shop")
            .unwrap()
            .newest()
            .unwrap()
            .by
            .starts_with("s-platform at ")
    );
    // Another commit with earlier content is a new generation.
    rig.git(&["reset", "-q", "--hard", "HEAD~1"]);
    rig.push();
    assert_eq!(rig.poll().await, None);
    assert_eq!(rig.generation("b-shop"), 3);
}

#[tokio::test]
async fn a_deleted_folder_orphans_its_bundle_and_a_returned_one_takes_it_back() {
    let rig = Rig::new().await;
    rig.file("shop/web.yaml", "kind: ConfigMap\n");
    rig.file("crds/crd.yaml", "kind: ConfigMap\n");
    rig.push();
    rig.put(&["shop", "crds"], |_| {}).await;
    rig.poll().await;
    rig.git(&["rm", "-q", "-r", "shop"]);
    rig.push();
    assert_eq!(rig.poll().await, None);
    let orphan = rig.bundle("b-shop").unwrap();
    assert!(orphan.orphaned && orphan.generations.len() == 1);
    assert!(!rig.bundle("b-crds").unwrap().orphaned);
    rig.file("shop/web.yaml", "kind: ConfigMap\n");
    rig.push();
    rig.poll().await;
    let back = rig.bundle("b-shop").unwrap();
    assert!(
        !back.orphaned && back.generations.len() == 1,
        "the content is the same"
    );

    rig.git(&["rm", "-q", "-r", "shop"]);
    rig.push();
    rig.put(&["shop", "crds"], |it| it.prune = true).await;
    rig.poll().await;
    assert_eq!(rig.bundle("b-shop"), None);
    assert!(rig.bundle("b-crds").is_some());
}

#[tokio::test]
async fn failures_keep_the_last_good_content() {
    let rig = Rig::new().await;
    rig.file("shop/web.yaml", "kind: ConfigMap\n");
    rig.push();
    rig.put(&["shop"], |_| {}).await;
    rig.poll().await;
    let content = || {
        (
            rig.source().commit,
            rig.source().artifacts,
            rig.bundle("b-shop"),
        )
    };
    let good = content();

    rig.git(&["push", "-q", "origin", "HEAD:other"]);
    git(
        &rig.server.repository(),
        &["symbolic-ref", "HEAD", "refs/heads/other"],
    );
    rig.git(&["push", "-q", "origin", ":main"]);
    let reason = rig.poll().await.unwrap();
    assert!(reason.starts_with("FL-6604"), "{reason}");
    rig.server.refuse(500);
    let reason = rig.poll().await.unwrap();
    assert!(reason.starts_with("FL-6601"), "{reason}");
    rig.server.refuse(403);
    let reason = rig.poll().await.unwrap();
    assert!(reason.starts_with("FL-6603"), "{reason}");
    rig.server.refuse(0);
    assert_eq!(content(), good);

    std::os::unix::fs::symlink("/etc/passwd", rig.work().join("shop/passwd")).unwrap();
    rig.file("shop/web.yaml", "kind: Secret\n");
    rig.push();
    let reason = rig.poll().await.unwrap();
    assert!(
        reason.starts_with("FL-6606") && reason.contains("passwd"),
        "{reason}"
    );
    let bundle = rig.bundle("b-shop").unwrap();
    assert!(!bundle.orphaned && bundle.generations.len() == 1);
    assert_eq!(
        rig.poll().await.unwrap(),
        reason,
        "the reason stays until the next commit"
    );
}

#[tokio::test]
async fn unsigned_commits_are_refused() {
    let rig = Rig::new().await;
    let key = |name: &str| rig.home.path().join(name).to_str().unwrap().to_owned();
    for name in ["anna", "mallory"] {
        let arguments = ["-q", "-t", "ed25519", "-N", "", "-f", &key(name)];
        let made = Command::new("ssh-keygen").args(arguments).status().unwrap();
        assert!(made.success());
    }
    let public = std::fs::read_to_string(key("anna.pub")).unwrap();
    let sign = |name: &str, content: &str| {
        rig.file("shop/web.yaml", content);
        rig.git(&["add", "-A"]);
        let setting = format!("user.signingKey={}", key(name));
        rig.git(&[
            "-c",
            "gpg.format=ssh",
            "-c",
            &setting,
            "commit",
            "-q",
            "-S",
            "-m",
            "signed",
        ]);
        rig.git(&["push", "-q", "--force", "origin", "HEAD:main"]);
    };
    sign("anna", "kind: ConfigMap\n");
    rig.put(&["shop"], |it| {
        it.git.verify = Some(format!("anna@test {public}"))
    })
    .await;
    assert_eq!(rig.poll().await, None);
    let good = rig.source().commit;
    rig.file("shop/web.yaml", "kind: Secret\n");
    rig.push();
    let reason = rig.poll().await.unwrap();
    assert!(reason.starts_with("FL-6605"), "{reason}");
    sign("mallory", "kind: Pod\n");
    let reason = rig.poll().await.unwrap();
    assert!(reason.starts_with("FL-6605"), "{reason}");
    assert_eq!((rig.source().commit, rig.generation("b-shop")), (good, 1));
    sign("anna", "kind: Service\n");
    assert_eq!(rig.poll().await, None);
    assert_eq!(rig.generation("b-shop"), 2);
}

#[tokio::test]
async fn names_of_others_are_refused_with_both_owners() {
    let rig = Rig::new().await;
    rig.file("one/shop/a.yaml", "a: 1\n");
    rig.file("two/shop/a.yaml", "a: 2\n");
    rig.file("crds/a.yaml", "a: 3\n");
    rig.push();
    let uploaded = || {
        let tenant = "t-default".parse().unwrap();
        BundleRecord::new("b-crds".parse().unwrap(), tenant, BundleFields::default())
    };
    rig.change(move |draft| draft.put_bundle(uploaded())).await;
    rig.put(&["one/shop", "two/shop", "crds"], |_| {}).await;
    let reason = rig.poll().await.unwrap();
    assert!(reason.starts_with("FL-6607"), "{reason}");
    assert!(reason.contains("one/shop and two/shop"), "{reason}");
    assert_eq!(rig.bundle("b-shop"), None);
    assert_eq!(
        rig.bundle("b-crds").unwrap().source,
        None,
        "the upload stays"
    );
}

#[tokio::test]
async fn a_person_keeps_the_options_of_a_folder_without_a_file() {
    let rig = Rig::new().await;
    rig.file("shop/web.yaml", "kind: ConfigMap\n");
    rig.push();
    rig.put(&["shop"], |_| {}).await;
    rig.poll().await;
    let mut bundle = rig.bundle("b-shop").unwrap();
    bundle.fields.namespace = Some("mine".to_owned());
    rig.change(move |draft| draft.put_bundle(bundle.clone()))
        .await;
    rig.file("shop/web.yaml", "kind: Secret\n");
    rig.push();
    assert_eq!(rig.poll().await, None);
    let bundle = rig.bundle("b-shop").unwrap();
    assert_eq!(
        (bundle.fields.namespace.as_deref(), bundle.generations.len()),
        (Some("mine"), 2)
    );
    rig.file("shop/fairlead.yaml", "name: store\nnamespace: theirs\n");
    rig.push();
    assert_eq!(rig.poll().await, None);
    assert!(
        rig.bundle("b-shop").unwrap().orphaned,
        "the file names another bundle"
    );
    let store = rig.bundle("b-store").unwrap();
    assert_eq!(store.fields.namespace.as_deref(), Some("theirs"));
}

#[tokio::test]
async fn a_token_is_sent_from_the_folder_of_the_tenant() {
    let rig = Rig::new().await;
    rig.file("shop/web.yaml", "kind: ConfigMap\n");
    rig.push();
    rig.server.require("bot", "s3cret");
    rig.put(&["shop"], |_| {}).await;
    let reason = rig.poll().await.unwrap();
    assert!(reason.starts_with("FL-6603"), "{reason}");
    let named = |it: &mut BundleSource| {
        it.git.credentials = Some(Credentials {
            name: "bot".to_owned(),
            namespace: None,
        });
    };
    rig.put(&["shop"], named).await;
    let reason = rig.poll().await.unwrap();
    assert!(
        reason.starts_with("FL-6603") && reason.contains("\"bot\""),
        "{reason}"
    );
    let folder = rig.home.path().join("credentials/t-default");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("bot"), "bot:s3cret\n").unwrap();
    assert_eq!(rig.poll().await, None);
    assert_eq!(rig.generation("b-shop"), 1);
    assert_eq!(Code::GitAccessDenied.number(), 6603);
}

#[tokio::test]
async fn tags_are_followed_by_version() {
    let rig = Rig::new().await;
    for (tag, content) in [("v1.0.0", "a"), ("v1.2.0", "b"), ("v2.0.0", "c")] {
        rig.file("shop/web.yaml", content);
        rig.push();
        rig.git(&["tag", "-a", "-m", tag, tag]);
        rig.git(&["push", "-q", "origin", tag]);
    }
    rig.put(&["shop"], |it| it.git.reference = "semver:1.x".to_owned())
        .await;
    assert_eq!(rig.poll().await, None);
    let folder = rig.source().artifacts[0].artifact.clone();
    rig.put(&["shop"], |it| it.git.reference = "v1.2.0".to_owned())
        .await;
    assert_eq!(rig.poll().await, None);
    assert_eq!(rig.source().artifacts[0].artifact, folder);
    let commit = rig.source().commit.unwrap();
    rig.put(&["shop"], move |it| it.git.reference = commit)
        .await;
    assert_eq!(rig.poll().await, None);
    assert_eq!(rig.generation("b-shop"), 1);
}
