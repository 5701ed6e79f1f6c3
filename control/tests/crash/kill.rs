//! Killed in the middle of writing, again and again.

use fairlead_control::{
    Clock,
    store::{Place, Store, View},
};

use crate::{
    load::{Answered, Writer, leaves},
    place::Ground,
};

/// How many kills one store goes through: looking through it takes longer each time.
const KILLS_OF_ONE: u32 = 10;

pub(crate) fn nothing_that_was_answered_is_lost_and_nothing_is_there_in_halves<G: Ground>(
    kills: u32,
) {
    let (mut ground, mut answered, mut kept) = (G::new(), Answered::default(), 0);
    for round in 0..kills {
        if round % KILLS_OF_ONE == 0 && round > 0 {
            kept += answered.len();
            (ground, answered) = (G::new(), Answered::default());
            println!(
                "{}: killed {round} of {kills} times: {kept} answers kept",
                G::NAME
            );
        }
        // Sooner and later, and never twice the same in a hundred rounds.
        let after = 1 + (round as usize * 61) % 307;
        let writer = Writer::start(&ground.place(), &format!("r{round}"));
        writer.wait_for(after);
        writer.kill(&mut answered);
        look(&ground.place(), &answered, u64::MAX);
    }
    kept += answered.len();
    println!(
        "{}: killed {kills} times: {kept} answers kept, nothing in halves",
        G::NAME
    );
}

/// A store shows what was answered up to a revision, its own at most, and each pair whole.
#[tokio::main]
pub(crate) async fn look(place: &str, answered: &Answered, up_to: u64) {
    let place: Place = place.parse().unwrap();
    let store = Store::open(&place, Clock::system()).await.unwrap();
    let view = store.view();
    for (cluster, history) in answered {
        let last = history.iter().rfind(|(_, revision)| *revision <= up_to);
        let there = view.cluster(cluster).is_some();
        match last {
            None => assert!(!there, "{cluster} is of a later time"),
            Some((made, revision)) => {
                assert!(
                    view.revision().0 >= *revision,
                    "{cluster} at {revision} is lost"
                );
                // What was made and not said to be gone may have been on its way out.
                assert!(
                    there == *made || (*made && leaves(cluster)),
                    "{cluster} was answered and is not so"
                );
            }
        }
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
