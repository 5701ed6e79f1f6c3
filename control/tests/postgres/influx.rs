//! Several hubs on one database that write facts to InfluxDB.

use fairlead_facts::{InfluxConfig, InfluxLogin};
use fairlead_testkit::fake_influxdb::FakeInfluxDb;
use http::Method;
use serde_json::json;

use crate::{
    hub::{Rig, admin},
    rig::home,
};

#[tokio::test(flavor = "multi_thread")]
async fn each_hub_writes_the_facts_it_accepted() {
    let home = home().await;
    let mut hubs = Vec::new();
    for _ in 0..2 {
        let influx = FakeInfluxDb::start("", None);
        let rig = Rig::with(|config| {
            config.store = Some(home.place());
            config.influx = Some(InfluxConfig {
                url: influx.url().parse().unwrap(),
                database: "facts".to_owned(),
                login: InfluxLogin::Nobody,
                ca_pem: None,
                spool: 1 << 20,
                answers: false,
            });
        })
        .await;
        hubs.push((rig, influx));
    }
    let [(one, at_one), (two, at_two)] = hubs.try_into().ok().unwrap();
    let put = async |rig: &Rig, fact: &str| {
        let patch = json!({ "dynamicFacts": { fact: 1 } });
        let path = "/clusters/c-demo";
        rig.call(&admin(), Method::PATCH, path, patch).await.good();
    };
    one.cluster("demo", "t-default").await;
    put(&one, "first").await;
    // The other hub learns of the cluster asynchronously.
    let reached = *one.control.revision().borrow();
    let mut known = two.control.revision();
    known.wait_for(|known| *known >= reached).await.unwrap();
    let process = fairlead_runtime::Process::new();
    for rig in [&one, &two] {
        let modules = rig.control.seam().modules;
        let facts = modules.into_iter().find(|it| it.name() == "facts").unwrap();
        let process = process.clone();
        drop(tokio::spawn(async move { facts.run(process).await }));
    }
    assert!(at_one.accepted("first").await && at_two.accepted("first").await);
    put(&one, "ofone").await;
    known.wait_for(|known| *known > reached).await.unwrap();
    put(&two, "oftwo").await;
    assert!(at_one.accepted("ofone").await && at_two.accepted("oftwo").await);
    put(&one, "last").await;
    assert!(at_one.accepted("last").await);
    // An earlier change of the log would have arrived by now.
    let others = |influx: &FakeInfluxDb, fact: &str| {
        let lines = influx.script.lines.borrow();
        lines.iter().any(|line| line.starts_with(fact))
    };
    assert!(!others(&at_one, "oftwo"));
    assert!(!others(&at_two, "ofone"));
    process.start_drain();
}
