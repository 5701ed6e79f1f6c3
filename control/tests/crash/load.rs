//! Writes of all kinds, as fast as they are answered; what was answered is said on standard output.

use std::io::Write;

use fairlead_api::{ClusterId, TenantId};
use fairlead_certs::Registration;
use fairlead_control::{
    Clock,
    model::{Binding, Bootstrap, Cluster, Fact, FactSource, Tenant},
    store::{Actor, Draft, Place, Store, StoreError},
};
use serde_json::json;
use time::OffsetDateTime;

const WRITERS: usize = 8;

/// A tenant and a cluster that come together, in `round`, by `writer`.
pub(crate) fn pair(round: &str, writer: usize, n: usize) -> (TenantId, ClusterId) {
    let name = format!("{round}-{writer}-{n}");
    let (tenant, cluster) = (format!("t-{name}"), format!("c-{name}"));
    (tenant.parse().unwrap(), cluster.parse().unwrap())
}

#[tokio::main]
pub(crate) async fn run(place: &str, round: &str) {
    let place: Place = place.parse().unwrap();
    let store = Store::open(&place, Clock::system()).await.unwrap();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(store.clone(), round.to_owned(), writer)))
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

/// Never ends. Of each pair all or nothing is there: tenant, cluster, its catalog and its fact; every third one is deleted
/// again.
async fn write(store: Store, round: String, writer: usize) {
    for n in 0.. {
        let ids = pair(&round, writer, n);
        let (tenant, cluster) = ids.clone();
        let make = move |draft: &mut Draft| {
            draft.put_tenant(Tenant::new(tenant.clone(), OffsetDateTime::UNIX_EPOCH))?;
            draft.put_cluster(with_fact(&tenant, &cluster))?;
            draft.put_catalog(&cluster, vec![json!({"kind": "ConfigMap"})])
        };
        let made = store.change(Actor::Hub, make).await.unwrap();
        say(&format!("made {writer} {n} {}", made.revision));
        if n % 3 == 2 {
            let (tenant, cluster) = ids;
            let unmake = move |draft: &mut Draft| {
                draft.delete_cluster(&cluster)?;
                draft.delete_tenant(&tenant)
            };
            let gone = store.change::<_, StoreError, _>(Actor::Hub, unmake).await;
            say(&format!("gone {writer} {n} {}", gone.unwrap().revision));
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
