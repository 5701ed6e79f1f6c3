//! Results of polls in the document of a source.

use fairlead_api::delivery::Source;
use fairlead_store::model::BundleSource;

use super::{Rig, SOURCE};
use crate::sources::{keeper::request, state::shown};

impl Rig {
    fn shown(&self) -> Source {
        shown(&self.source())
    }

    fn version(&self) -> u64 {
        let view = self.store.view();
        view.source(&SOURCE.parse().unwrap()).unwrap().version
    }

    async fn request(&self) {
        let id = SOURCE.parse().unwrap();
        self.change(move |draft| request(draft, &id, 0)).await;
    }

    async fn put_suspended(&self) {
        let suspended = BundleSource {
            suspended: true,
            ..self.source()
        };
        self.change(move |draft| draft.put_source(suspended.clone()))
            .await;
    }
}

#[tokio::test]
async fn equal_results_are_written_once() {
    let rig = Rig::new().await;
    rig.file("shop/web.yaml", "kind: ConfigMap\n");
    rig.push();
    rig.put(&["shop"], |_| {}).await;
    assert!(rig.shown().syncing && rig.shown().since.is_none());
    assert_eq!(rig.poll().await, None);
    let read = rig.shown();
    assert!(!read.syncing && read.since.is_some() && read.commit.is_some());
    assert_eq!(rig.version(), 2, "commit and result are one change");
    rig.poll().await;
    assert_eq!((rig.version(), rig.shown()), (2, read.clone()));

    rig.server.refuse(500);
    let reason = rig.poll().await;
    assert!(reason.is_some());
    let failed = rig.shown();
    assert_eq!((rig.version(), &failed.commit), (3, &read.commit));
    assert!(failed.since > read.since);
    assert_eq!(rig.poll().await, reason);
    assert_eq!((rig.version(), rig.shown()), (3, failed.clone()));
    rig.server.refuse(403);
    let other = rig.poll().await;
    assert!(other.is_some() && other != reason);
    assert_eq!(rig.version(), 4);

    rig.server.refuse(0);
    assert_eq!(rig.poll().await, None);
    assert_eq!(rig.version(), 5);
    assert!(rig.shown().since > failed.since);
    rig.poll().await;
    assert_eq!(rig.version(), 5);
}

#[tokio::test]
async fn a_requested_poll_is_answered_with_the_same_result_too() {
    let rig = Rig::new().await;
    rig.file("shop/web.yaml", "kind: ConfigMap\n");
    rig.push();
    rig.put(&["shop"], |_| {}).await;
    rig.poll().await;
    let read = rig.shown();
    for is_refused in [false, true, true] {
        rig.server.refuse(if is_refused { 500 } else { 0 });
        rig.request().await;
        assert!(rig.shown().syncing);
        assert_eq!(rig.poll().await.is_some(), is_refused);
        assert!(!rig.shown().syncing);
    }
    rig.server.refuse(0);
    rig.poll().await;
    let healed = rig.shown();
    assert!(healed.since > read.since && healed.commit == read.commit);
    rig.put_suspended().await;
    rig.request().await;
    assert!(!rig.shown().syncing, "a suspended source waits for nothing");
}

#[tokio::test]
async fn refused_folder_is_shown_until_the_next_commit() {
    let rig = Rig::new().await;
    rig.file(
        "front/fairlead.yaml",
        "kind: helm\nchart: {repository: https://charts.test, name: web, version: 1.2.3}\n",
    );
    rig.push();
    rig.put(&["front"], |_| {}).await;
    // The chart is requested again with each poll, and the reason stays.
    let reason = rig.poll().await;
    assert!(reason.as_ref().is_some_and(|it| it.starts_with("FL-6610")));
    let (version, refused) = (rig.version(), rig.shown());
    assert_eq!(rig.poll().await, reason);
    assert_eq!((rig.version(), rig.shown()), (version, refused));
}
