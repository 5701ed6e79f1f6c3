use std::{fs, sync::Mutex};

use fairlead_certs::Registration;
use fairlead_store::{
    Actor, Place, Retention, StoreError, millis,
    model::{Binding, Bootstrap, Cluster, Fact, FactSource},
};
use fairlead_testkit::{
    fake_influxdb::{FakeInfluxDb, REJECTED_LINE},
    wall_clock::WallClock,
};
use prometheus::core::Collector;
use serde_json::{Value, json};
use tempfile::TempDir;
use time::{Duration as Days, OffsetDateTime};

use super::*;
use crate::influx::feed::FeedError;

const START_SECONDS: i64 = 1_795_262_400;
/// `me:secret`
const CREDENTIALS: &str = "Basic bWU6c2VjcmV0";

struct Rig {
    dir: TempDir,
    fake: FakeInfluxDb,
    store: Store,
    clock: WallClock,
    metrics: Mutex<Option<InfluxMetrics>>,
}

impl Rig {
    async fn new() -> Rig {
        Rig::with(FakeInfluxDb::start("", Some(CREDENTIALS))).await
    }

    async fn with(fake: FakeInfluxDb) -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let start = OffsetDateTime::from_unix_timestamp(START_SECONDS).unwrap();
        let clock = WallClock::at(start);
        let place = Place::File(dir.path().join("store.db"));
        let store = Store::open(&place, Clock::new(clock.reader()))
            .await
            .unwrap();
        let rig = Rig {
            fake,
            store,
            clock,
            dir,
            metrics: Mutex::default(),
        };
        let now = rig.clock.now();
        let bootstrap = Bootstrap::new(1, now, None);
        let binding = Binding::open(Registration::random().unwrap(), bootstrap);
        let id = "c-a".parse().unwrap();
        let cluster = Cluster::new(id, "t-default".parse().unwrap(), binding, now);
        rig.change(move |draft| draft.put_cluster(cluster.clone()))
            .await;
        rig
    }

    async fn change(
        &self,
        decide: impl FnMut(&mut fairlead_store::Draft) -> Result<(), StoreError> + Send + 'static,
    ) {
        self.store.change(Actor::Hub, decide).await.unwrap();
    }

    /// Changes a fact one second later.
    async fn set(&self, name: &str, value: Value) {
        self.clock.advance(Days::SECOND);
        let (name, now) = (name.to_owned(), millis(self.clock.now()));
        self.change(move |draft| {
            let mut cluster = draft
                .cluster(&"c-a".parse().unwrap())
                .unwrap()
                .value
                .clone();
            let fact = Fact {
                value: value.clone(),
                source: FactSource::Agent,
                received: now,
                observed: now,
            };
            cluster.dynamic_facts.insert(name.clone(), fact);
            draft.put_cluster(cluster)
        })
        .await;
    }

    /// Response status from now on; `None` accepts everything.
    fn answers(&self, status: Option<u16>) {
        *self.fake.script.write_error.lock().unwrap() = status;
    }

    /// Lines accepted since the last call, without tags and times.
    fn taken(&self) -> Vec<String> {
        let short = |line: &String| {
            let (series, rest) = line.split_once(' ').unwrap();
            let (fields, _) = rest.rsplit_once(' ').unwrap();
            let (name, _) = series.split_once(',').unwrap();
            format!("{name} {fields}")
        };
        self.fake.take_lines().iter().map(short).collect()
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("influx")
    }

    async fn feed_for(&self, database: &str) -> Feed {
        let login = InfluxLogin::Password {
            user: "me".to_owned(),
            password: "secret".to_owned().into(),
        };
        let url = self.fake.url().parse::<InfluxUrl>().unwrap();
        let client = InfluxClient::new(&url.0, "facts", login, None).unwrap();
        let metrics = InfluxMetrics::new(Clock::new(self.clock.reader())).unwrap();
        *self.metrics.lock().unwrap() = Some(metrics.clone());
        let target = cursor::target(&self.fake.url(), database);
        let place = (self.folder(), 1024 * 1024);
        Feed::open(place, target, self.store.clone(), Arc::new(client), metrics)
            .await
            .unwrap()
    }

    async fn feed(&self) -> Feed {
        self.feed_for("facts").await
    }

    fn metric(&self, name: &str, label: &str) -> f64 {
        let metrics = self.metrics.lock().unwrap();
        let families = metrics.as_ref().unwrap().collect();
        let family = families.iter().find(|it| it.name() == name).unwrap();
        let mut rows = family.get_metric().iter();
        let row = rows.find(|row| row.get_label().iter().all(|it| it.value() == label));
        let row = row.unwrap();
        row.get_counter().get_value() + row.get_gauge().get_value()
    }
}

/// Runs steps until there is nothing to do; true if the feed wants to pause.
async fn run(feed: &mut Feed, may_send: bool) -> bool {
    for _ in 0..1000 {
        match feed.step(may_send).await.unwrap() {
            Step::More => {}
            Step::Idle => return false,
            Step::Pause => return true,
        }
    }
    panic!("the feed does not become idle");
}

#[tokio::test]
async fn all_facts_are_written_first_and_then_their_changes() {
    let rig = Rig::new().await;
    rig.set("nodes", json!({ "count": 3 })).await;
    rig.set("nodes", json!({ "count": 4 })).await;
    let mut feed = rig.feed().await;
    assert!(!run(&mut feed, true).await);
    let at = (START_SECONDS + 2) * 1000;
    let tags = "cluster=c-a,source=agent,tenant=t-default";
    assert_eq!(
        rig.fake.take_lines(),
        [format!("nodes,{tags} count=4i {at}")]
    );
    rig.set("nodes", json!({ "count": 5 })).await;
    rig.set("site", json!("Bern")).await;
    rig.change(|draft| {
        let mut cluster = draft
            .cluster(&"c-a".parse().unwrap())
            .unwrap()
            .value
            .clone();
        cluster.dynamic_facts.remove("site");
        cluster.display_name = Some("no fact".to_owned());
        draft.put_cluster(cluster)
    })
    .await;
    run(&mut feed, true).await;
    assert_eq!(rig.taken(), ["nodes count=5i", "site value=\"Bern\""]);
    assert_eq!(rig.metric("fairlead_influx_lines_written_total", ""), 3.0);
    // A restarted feed has nothing to do.
    run(&mut rig.feed().await, true).await;
    assert!(rig.taken().is_empty());
    // Another InfluxDB starts empty.
    run(&mut rig.feed_for("others").await, true).await;
    assert_eq!(rig.taken(), ["nodes count=5i"]);
}

#[tokio::test]
async fn facts_during_an_outage_are_spooled_and_sent_in_order() {
    let rig = Rig::new().await;
    let mut feed = rig.feed().await;
    run(&mut feed, true).await;
    rig.answers(Some(503));
    for n in 1..=3 {
        rig.set("n", json!(n)).await;
        assert_eq!(run(&mut feed, n == 1).await, n == 1);
    }
    assert_eq!(rig.metric("fairlead_influx_state", "error"), 1.0);
    assert_eq!(
        rig.metric("fairlead_influx_oldest_wait_duration_seconds", ""),
        2.0
    );
    assert!(rig.metric("fairlead_influx_spool_bytes", "") > 100.0);
    assert!(run(&mut feed, true).await);
    drop(feed);
    // The hub was killed and restarted; spooled batches do not need the change log.
    let mut feed = rig.feed().await;
    rig.set("n", json!(4)).await;
    rig.answers(None);
    assert!(!run(&mut feed, true).await);
    assert_eq!(
        rig.taken(),
        ["n value=1i", "n value=2i", "n value=3i", "n value=4i"]
    );
    assert_eq!(rig.metric("fairlead_influx_state", "up"), 1.0);
    assert_eq!(rig.metric("fairlead_influx_spool_bytes", ""), 0.0);
    run(&mut rig.feed().await, true).await;
    assert!(rig.taken().is_empty());
}

#[tokio::test]
async fn a_kill_between_write_and_cursor_repeats_the_write() {
    let rig = Rig::new().await;
    let mut feed = rig.feed().await;
    run(&mut feed, true).await;
    let cursor = rig.folder().join("cursor");
    for error in [false, true] {
        rig.set("n", json!(i32::from(error))).await;
        if error {
            run(&mut feed, false).await;
        }
        let before = fs::read(&cursor).unwrap();
        let spooled: Vec<_> = fs::read_dir(rig.folder())
            .unwrap()
            .map(|it| it.unwrap().path())
            .map(|path| (fs::read(&path).unwrap(), path))
            .collect();
        run(&mut feed, true).await;
        let first = rig.fake.take_lines();
        assert_eq!(first.len(), 1);
        assert_ne!(fs::read(&cursor).unwrap(), before);
        for (bytes, path) in spooled {
            fs::write(path, bytes).unwrap();
        }
        feed = rig.feed().await;
        run(&mut feed, true).await;
        assert_eq!(rig.fake.take_lines(), first, "the same point");
    }
}

#[tokio::test]
async fn a_rejected_line_is_dropped_and_the_others_are_written() {
    for is_helpful in [false, true] {
        let rig = Rig::with(match is_helpful {
            true => FakeInfluxDb::start("", Some(CREDENTIALS)),
            false => FakeInfluxDb::all_or_nothing("", Some(CREDENTIALS)),
        })
        .await;
        let mut feed = rig.feed().await;
        run(&mut feed, true).await;
        for n in 1..=9 {
            rig.set(
                &format!("n{n}"),
                json!(if n % 4 == 3 { REJECTED_LINE } else { "good" }),
            )
            .await;
        }
        assert!(!run(&mut feed, true).await);
        let mut taken = rig.taken();
        taken.sort();
        let good = [1, 2, 4, 5, 6, 8, 9].map(|n| format!("n{n} value=\"good\""));
        assert_eq!(taken, good);
        let dropped = rig.metric("fairlead_influx_lines_dropped_total", "refused");
        assert_eq!(dropped, 2.0);
        assert_eq!(rig.metric("fairlead_influx_lines_written_total", ""), 7.0);
    }
}

#[tokio::test]
async fn rejected_credentials_are_retried() {
    for status in [401, 403, 404, 500] {
        let rig = Rig::new().await;
        rig.set("n", json!(1)).await;
        let mut feed = rig.feed().await;
        rig.answers(Some(status));
        assert!(run(&mut feed, true).await, "{status}");
        rig.answers(None);
        run(&mut feed, true).await;
        assert_eq!(rig.taken(), ["n value=1i"], "{status}");
    }
}

#[tokio::test]
async fn facts_stay_in_the_log_if_neither_influxdb_nor_the_disk_accepts_them() {
    let rig = Rig::new().await;
    let mut feed = rig.feed().await;
    run(&mut feed, true).await;
    rig.answers(Some(503));
    rig.set("n", json!(1)).await;
    fs::remove_dir_all(rig.folder()).unwrap();
    assert!(matches!(feed.step(true).await, Err(FeedError::Disk(_))));
    fs::create_dir(rig.folder()).unwrap();
    assert!(run(&mut feed, true).await);
    rig.answers(None);
    run(&mut feed, true).await;
    assert_eq!(rig.taken(), ["n value=1i"]);
}

#[tokio::test]
async fn a_trimmed_log_causes_a_full_write() {
    let rig = Rig::new().await;
    let mut feed = rig.feed().await;
    run(&mut feed, true).await;
    rig.set("n", json!(1)).await;
    rig.set("n", json!(2)).await;
    rig.clock.advance(Days::days(30));
    let tidied = rig.store.tidy(&Retention::default()).await.unwrap();
    assert!(tidied.lines > 0);
    run(&mut feed, true).await;
    assert_eq!(rig.taken(), ["n value=2i"]);
    rig.set("n", json!(3)).await;
    run(&mut feed, true).await;
    assert_eq!(rig.taken(), ["n value=3i"]);
}

#[tokio::test]
async fn a_moved_clusters_facts_are_written_under_its_new_tenant() {
    let rig = Rig::new().await;
    rig.set("n", json!(1)).await;
    let mut feed = rig.feed().await;
    run(&mut feed, true).await;
    rig.taken();
    rig.clock.advance(Days::SECOND);
    let now = rig.clock.now();
    rig.change(move |draft| {
        let tenant = fairlead_store::model::Tenant::new("t-b".parse().unwrap(), now);
        draft.put_tenant(tenant)?;
        let mut cluster = draft
            .cluster(&"c-a".parse().unwrap())
            .unwrap()
            .value
            .clone();
        cluster.tenant = "t-b".parse().unwrap();
        draft.put_cluster(cluster)
    })
    .await;
    run(&mut feed, true).await;
    let at = (START_SECONDS + 2) * 1000;
    assert_eq!(
        rig.fake.take_lines(),
        [format!(
            "n,cluster=c-a,source=agent,tenant=t-b value=1i {at}"
        )]
    );
}

#[test]
fn urls_with_credentials_are_rejected() {
    for bad in [
        "influx:8086",
        "ftp://influx",
        "http://me:secret@influx:8086",
        "http://me@influx",
        "http://influx/?p=secret",
        "http://",
    ] {
        let error = bad.parse::<InfluxUrl>().unwrap_err();
        assert!(!error.to_string().contains("secret"));
    }
    let url: InfluxUrl = "https://influx.example:8086/base/".parse().unwrap();
    assert_eq!(url.to_string(), "https://influx.example:8086/base/");
}

#[test]
fn pauses_grow_up_to_a_limit() {
    let mut pause = Pause::default();
    let mut whole = RETRY_DELAY_MIN;
    for _ in 0..12 {
        let next = pause.next();
        assert!(whole / 2 <= next && next <= whole, "{next:?}");
        whole = (whole * 2).min(RETRY_DELAY_MAX);
    }
}

#[test]
fn credentials_travel_over_https_or_loopback_only() {
    for (url, confidential) in [
        ("https://influx.example:8086", true),
        ("http://127.0.0.1:8086", true),
        ("http://[::1]:8086", true),
        ("http://localhost:8086", true),
        ("http://influx.example:8086", false),
        ("http://10.0.0.1:8086", false),
        ("http://localhost.example:8086", false),
    ] {
        let url: InfluxUrl = url.parse().unwrap();
        assert_eq!(is_confidential(&url.0), confidential, "{url}");
    }
}

#[test]
fn credentials_over_plain_http_end_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let open = |url: &str, login| {
        let config = InfluxConfig {
            url: url.parse().unwrap(),
            database: "facts".to_owned(),
            login,
            ca_pem: None,
            spool: MIN_SPOOL_BYTES,
            answers: false,
        };
        let data_dir = DataDir::open(dir.path()).unwrap();
        let opened = Influx::open(config, &data_dir, Clock::system());
        opened.map(drop).map_err(|failure| failure.code)
    };
    let token = || InfluxLogin::Token("secret".into());
    let remote = "http://influx.example:8086";
    assert_eq!(open(remote, token()), Err(Code::BadConfig));
    assert_eq!(open(remote, InfluxLogin::Nobody), Ok(()));
    assert_eq!(open("http://127.0.0.1:8086", token()), Ok(()));
    assert_eq!(open("https://influx.example:8086", token()), Ok(()));
}
