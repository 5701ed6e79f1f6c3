//! A process with concurrent writers of all kinds; it prints each acknowledged write on standard
//! output.

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

const WRITER_COUNT: usize = 8;
/// Without output for this long, the process counts as dead.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(60);

/// Acknowledged changes of each cluster, in order: present or deleted, and the revision.
pub(crate) type Answered = BTreeMap<ClusterId, Vec<(bool, u64)>>;

/// Handle of a writing process.
pub(crate) struct CrashWriter {
    child: Child,
    reader: JoinHandle<Answered>,
    said: Receiver<()>,
}

impl CrashWriter {
    pub(crate) fn start(place: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["load", place])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (tell, said) = channel();
        // Drained all the time, so that the process never blocks on its output.
        let reader = std::thread::spawn(move || {
            let mut answered = Answered::new();
            for line in lines {
                let line = line.unwrap();
                let mut words = line.split(' ');
                let what = words.next().unwrap();
                let numbers: Vec<usize> = words.filter_map(|word| word.parse().ok()).collect();
                let &[writer, n, revision] = numbers.as_slice() else {
                    // The last line was cut off.
                    break;
                };
                let (_, cluster) = pair(writer, n);
                let answer = (what == "made", revision as u64);
                answered.entry(cluster).or_default().push(answer);
                // Fails after the process was killed.
                let _ = tell.send(());
            }
            answered
        });
        CrashWriter {
            child,
            reader,
            said,
        }
    }

    /// Waits for this many more acknowledgements.
    pub(crate) fn wait_for(&self, answers: usize) {
        for _ in 0..answers {
            let said = self.said.recv_timeout(OUTPUT_TIMEOUT);
            said.expect("the writer answers nothing any more");
        }
    }

    /// Kills the process; output written before its death counts.
    pub(crate) fn kill(mut self) -> Answered {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.reader.join().unwrap()
    }
}

/// Tenant and cluster number `n` of a writer, created in one change.
fn pair(writer: usize, n: usize) -> (TenantId, ClusterId) {
    let name = format!("s-{writer}-{n}");
    let (tenant, cluster) = (format!("t-{name}"), format!("c-{name}"));
    (tenant.parse().unwrap(), cluster.parse().unwrap())
}

/// True if the cluster is deleted again after its creation.
pub(crate) fn leaves(cluster: &ClusterId) -> bool {
    let n = cluster.as_str().rsplit('-').next().unwrap();
    n.parse::<usize>().unwrap() % 3 == 2
}

#[tokio::main]
pub(crate) async fn run(place: &str) {
    let place: Place = place.parse().unwrap();
    let store = Store::open(&place, Clock::system()).await.unwrap();
    let writers: Vec<_> = (0..WRITER_COUNT)
        .map(|writer| tokio::spawn(write(store.clone(), writer)))
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

/// Writes forever. Tenant, cluster, catalog and fact of a pair are created atomically. Every third
/// pair is deleted again.
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
            // Nothing was acknowledged.
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
