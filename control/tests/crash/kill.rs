//! Killed in the middle of writing, again and again.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use fairlead_api::ClusterId;
use fairlead_control::{
    Clock,
    store::{Place, Store},
};

use crate::load::pair;

/// What was answered: whether it is there, and at which revision that was said.
type Answered = BTreeMap<ClusterId, (bool, u64)>;

/// How many kills one file goes through: looking through it takes longer each time.
const KILLS_OF_ONE: u32 = 10;

pub(crate) fn nothing_that_was_answered_is_lost_and_nothing_is_there_in_halves(kills: u32) {
    let (mut dir, mut answered, mut kept) = (tempfile::tempdir().unwrap(), Answered::new(), 0);
    for round in 0..kills {
        if round % KILLS_OF_ONE == 0 {
            kept += answered.len();
            (dir, answered) = (tempfile::tempdir().unwrap(), Answered::new());
        }
        let place = format!("sqlite:{}", dir.path().join("fairlead.db").display());
        // Sooner and later, and never twice the same in a hundred rounds.
        let after = 1 + (round as usize * 61) % 307;
        one_round(&place, &format!("r{round}"), after, &mut answered);
        look(&place, &answered);
    }
    kept += answered.len();
    println!("killed {kills} times: {kept} answers kept, nothing in halves");
}

fn one_round(place: &str, round: &str, after: usize, answered: &mut Answered) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["load", place, round])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap()).lines();
    for (at, line) in said.enumerate() {
        // What was said before it died counts as well.
        let line = line.unwrap();
        let mut words = line.split(' ');
        let what = words.next().unwrap();
        let numbers: Vec<usize> = words.filter_map(|word| word.parse().ok()).collect();
        let &[writer, n, revision] = numbers.as_slice() else {
            // The last one was cut off.
            break;
        };
        let (_, cluster) = pair(round, writer, n);
        answered.insert(cluster, (what == "made", revision as u64));
        if at + 1 == after {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
}

#[tokio::main]
async fn look(place: &str, answered: &Answered) {
    let place: Place = place.parse().unwrap();
    let store = Store::open(&place, Clock::system()).await.unwrap();
    let view = store.view();
    for (cluster, (made, revision)) in answered {
        assert!(
            view.revision().0 >= *revision,
            "{cluster} at {revision} is lost"
        );
        let kept = view.cluster(cluster);
        // What was made and not said to be gone may have been on its way out.
        let leaving = cluster
            .as_str()
            .rsplit('-')
            .next()
            .unwrap()
            .parse::<usize>()
            .unwrap()
            % 3
            == 2;
        assert!(
            kept.is_some() == *made || (*made && leaving),
            "{cluster} was answered and is not so"
        );
    }
    for tenant in view
        .tenants()
        .filter(|it| it.value.id.as_str() != "t-default")
    {
        let clusters = view.clusters_of(&tenant.value.id).count();
        assert_eq!(clusters, 1, "{} is there in halves", tenant.value.id);
    }
    for cluster in view.clusters() {
        assert!(view.catalog(&cluster.value.id).is_some());
        assert_eq!(cluster.value.dynamic_facts.len(), 1);
    }
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    store.close().await;
}
