//! Compares acknowledged writes with the content of the store.

use fairlead_store::{Clock, Place, Store, View};

use crate::load::{Answered, leaves};

/// Asserts that the store contains the acknowledged writes, and only complete pairs.
#[tokio::main]
pub(crate) async fn verify(place: &str, answered: &Answered) {
    let place: Place = place.parse().unwrap();
    let store = Store::open(&place, Clock::system()).await.unwrap();
    let view = store.view();
    for (cluster, history) in answered {
        let there = view.cluster(cluster).is_some();
        let Some((made, revision)) = history.last() else {
            continue;
        };
        assert!(
            view.revision().0 >= *revision,
            "{cluster} at {revision} is lost"
        );
        // A cluster without acknowledged deletion may have been on its way out.
        assert!(
            there == *made || (*made && leaves(cluster)),
            "{cluster} was answered and is not so"
        );
    }
    whole(&view);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    store.close().await;
}

fn whole(view: &View) {
    let made = view.tenants();
    for tenant in made.filter(|it| it.value.id.as_str() != "t-default") {
        let clusters = view.clusters_of(&tenant.value.id).count();
        assert_eq!(clusters, 1, "{} is there in halves", tenant.value.id);
    }
    for cluster in view.clusters() {
        assert!(view.catalog(&cluster.value.id).is_some());
        assert_eq!(cluster.value.dynamic_facts.len(), 1);
    }
}
