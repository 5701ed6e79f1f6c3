//! Writes of all kinds, as fast as they are answered, in a process of its own; what was answered is said on standard output.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread::JoinHandle,
    time::Duration,
};

use fairlead_api::{ClusterId, TenantId};
use fairlead_certs::Registration;
use fairlead_store::{
    Actor, Clock, Draft, Place, Store, StoreError,
    model::{Binding, Bootstrap, Cluster, Fact, FactSource, Tenant},
};
use serde_json::json;
use time::OffsetDateTime;

const WRITERS: usize = 8;
/// Nothing for so long: it will say nothing more.
const SILENT: Duration = Duration::from_secs(60);

/// What was answered of each cluster, in that order: whether it is there, and since which revision.
pub(crate) type Answered = BTreeMap<ClusterId, Vec<(bool, u64)>>;

/// A process that writes.
pub(crate) struct Writer {
    child: Child,
    reader: JoinHandle<Answered>,
    said: Receiver<()>,
}

impl Writer {
    pub(crate) fn start(place: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["load", place])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (tell, said) = channel();
        // Read all the time, so that it never waits for whoever looks at it.
        let reader = std::thread::spawn(move || {
            let mut answered = Answered::new();
            for line in lines {
                let line = line.unwrap();
                let mut words = line.split(' ');
                let what = words.next().unwrap();
                let numbers: Vec<usize> = words.filter_map(|word| word.parse().ok()).collect();
                let &[writer, n, revision] = numbers.as_slice() else {
                    // The last one was cut off.
                    break;
                };
                let (_, cluster) = pair(writer, n);
                let answer = (what == "made", revision as u64);
                answered.entry(cluster).or_default().push(answer);
                // Nobody listens any more when it was killed.
                let _ = tell.send(());
            }
            answered
        });
        Writer {
            child,
            reader,
            said,
        }
    }

    /// Until so many more things were answered.
    pub(crate) fn wait_for(&self, answers: usize) {
        for _ in 0..answers {
            let said = self.said.recv_timeout(SILENT);
            said.expect("the writer answers nothing any more");
        }
    }

    /// What was said before it died counts as well.
    pub(crate) fn kill(mut self) -> Answered {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.reader.join().unwrap()
    }
}

/// A tenant and a cluster that come together, by `writer`.
fn pair(writer: usize, n: usize) -> (TenantId, ClusterId) {
    let name = format!("s-{writer}-{n}");
    let (tenant, cluster) = (format!("t-{name}"), format!("c-{name}"));
    (tenant.parse().unwrap(), cluster.parse().unwrap())
}

/// Whether it is deleted again after it was made.
pub(crate) fn leaves(cluster: &ClusterId) -> bool {
    let n = cluster.as_str().rsplit('-').next().unwrap();
    n.parse::<usize>().unwrap() % 3 == 2
}

#[tokio::main]
pub(crate) async fn run(place: &str) {
    let place: Place = place.parse().unwrap();
    let store = Store::open(&place, Clock::system()).await.unwrap();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(store.clone(), writer)))
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

/// Never ends. Of each pair all or nothing is there: tenant, cluster, its catalog and its fact; every third one is deleted
/// again.
async fn write(store: Store, writer: usize) {
    for n in 0.. {
        let ids = pair(writer, n);
        let (tenant, cluster) = ids.clone();
        let leaves = leaves(&cluster);
        let make = move |draft: &mut Draft| {
            draft.put_tenant(Tenant::new(tenant.clone(), OffsetDateTime::UNIX_EPOCH))?;
            draft.put_cluster(with_fact(&tenant, &cluster))?;
            draft.put_catalog(&cluster, vec![json!({"kind": "ConfigMap"})])
        };
        match store.change(Actor::Hub, make).await {
            Ok(made) => say(&format!("made {writer} {n} {}", made.revision)),
            // Nobody was told that it is so.
            Err(StoreError::Away) => continue,
            Err(error) => panic!("{error:?}"),
        }
        if leaves {
            let (tenant, cluster) = ids;
            let unmake = move |draft: &mut Draft| {
                draft.delete_cluster(&cluster)?;
                draft.delete_tenant(&tenant)
            };
            match store.change::<_, StoreError, _>(Actor::Hub, unmake).await {
                Ok(gone) => say(&format!("gone {writer} {n} {}", gone.revision)),
                Err(StoreError::Away) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}

fn with_fact(tenant: &TenantId, cluster: &ClusterId) -> Cluster {
    let epoch = OffsetDateTime::UNIX_EPOCH;
    let bootstrap = Bootstrap::new(1, epoch, None);
    let binding = Binding::open(Registration::random().unwrap(), bootstrap);
    let mut made = Cluster::new(cluster.clone(), tenant.clone(), binding, epoch);
    let fact = Fact {
        value: json!(tenant.as_str()),
        source: FactSource::Agent,
        received: 0,
        observed: 0,
    };
    made.dynamic_facts.insert("tenant".to_owned(), fact);
    made
}

fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what}").unwrap();
    out.flush().unwrap();
}
