//! Watches: cost at rest, interruptions, missing rights.

use super::*;

#[tokio::test(start_paused = true)]
async fn idle_deployment_costs_nothing_beside_its_watches() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    rig.settle().await;
    sleep(Duration::from_secs(25 * 60)).await;
    assert_eq!(rig.cluster.take_requests(), Vec::<String>::new());
    // Each object is compared about every hour.
    sleep(Duration::from_secs(3600)).await;
    let requests = rig.cluster.take_requests();
    let dry_runs = requests
        .iter()
        .filter(|it| it.starts_with("dry-run"))
        .count();
    assert!((2..=4).contains(&dry_runs), "{requests:?}");
    assert!(requests.len() <= 8, "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn writes_of_the_status_cost_no_comparison() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    rig.settle().await;
    for replicas in 0..60 {
        rig.cluster
            .set_status(WEB, json!({"observedGeneration": 1, "replicas": replicas}));
        sleep(Duration::from_secs(1)).await;
    }
    let requests = rig.cluster.take_requests();
    assert!(
        !requests.iter().any(|it| it.starts_with("dry-run")),
        "{requests:?}"
    );
    // The health is read at most every ten seconds.
    assert!((4..=7).contains(&requests.len()), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn deployments_share_a_watch_per_kind() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    sleep(Duration::from_secs(1)).await;
    let watches = |requests: &[String]| {
        requests
            .iter()
            .filter(|it| it.starts_with("watch"))
            .cloned()
            .collect::<Vec<_>>()
    };
    let first = watches(&rig.cluster.take_requests());
    assert_eq!(
        first,
        [
            "watch /api/v1/configmaps",
            "watch /apis/apps/v1/deployments"
        ]
    );
    rig.follow(DriftPolicy::Correct).await;
    rig.settle().await;
    rig.edit_map("9");
    rig.drift().await;
}

#[tokio::test(start_paused = true)]
async fn changes_during_an_interruption_are_found() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    rig.settle().await;
    rig.cluster
        .set_fault(|verb, _| (verb == "watch").then(|| refused(503, "away")));
    rig.cluster.end_watches(true);
    sleep(Duration::from_secs(30)).await;
    rig.edit_map("9");
    rig.cluster.remove(WEB);
    sleep(Duration::from_secs(120)).await;
    assert_eq!(rig.corrections(), 0);
    rig.cluster.clear_fault();
    let mut corrected = 0;
    while corrected < 2 {
        corrected += rig.corrected().await;
    }
    assert_eq!(rig.value(), "1");
    assert!(rig.cluster.get_now(WEB).is_some());
}

#[tokio::test(start_paused = true)]
async fn account_of_one_namespace_watches_that_namespace() {
    let cluster = FakeCluster::default();
    cluster.set_fault(|verb, path| {
        let is_forbidden = verb == "watch" && !path.contains("/namespaces/");
        is_forbidden.then(|| refused(403, "forbidden"))
    });
    let (monitor, events) = DriftMonitor::new(std::sync::Arc::new(cluster.clone()));
    let mut rig = Rig {
        cluster,
        monitor,
        events,
    };
    rig.follow(DriftPolicy::Correct).await;
    rig.settle().await;
    let start = Instant::now();
    rig.edit_map("9");
    rig.drift().await;
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn account_without_watches_compares_every_ten_minutes() {
    let cluster = FakeCluster::default();
    cluster.set_fault(|verb, _| (verb == "watch").then(|| refused(403, "forbidden")));
    let (monitor, events) = DriftMonitor::new(std::sync::Arc::new(cluster.clone()));
    let mut rig = Rig {
        cluster,
        monitor,
        events,
    };
    rig.follow(DriftPolicy::Correct).await;
    rig.settle().await;
    let start = Instant::now();
    rig.edit_map("9");
    rig.drift().await;
    let elapsed = start.elapsed().as_secs();
    assert!((300..=660).contains(&elapsed), "{elapsed}");
    assert_eq!(rig.corrected().await, 1);
}

#[tokio::test(start_paused = true)]
async fn hourly_comparison_finds_changes_without_events() {
    let mut rig = Rig::start(DriftPolicy::Correct).await;
    rig.settle().await;
    rig.cluster
        .change_unseen(MAP, |it| it["data"]["a"] = json!("9"));
    let start = Instant::now();
    assert_eq!(rig.corrected().await, 1);
    assert!(
        start.elapsed() < Duration::from_secs(3700),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(rig.value(), "1");
}

#[tokio::test(start_paused = true)]
async fn api_server_without_initial_events_is_listed() {
    let cluster = FakeCluster::default();
    let is_first = std::sync::atomic::AtomicUsize::new(0);
    cluster.set_fault(move |verb, _| {
        let is_refused = verb == "watch" && is_first.fetch_add(1, Ordering::SeqCst) < 2;
        is_refused.then(|| refused(422, "sendInitialEvents is forbidden"))
    });
    let (monitor, events) = DriftMonitor::new(std::sync::Arc::new(cluster.clone()));
    let mut rig = Rig {
        cluster,
        monitor,
        events,
    };
    rig.follow(DriftPolicy::Correct).await;
    sleep(Duration::from_secs(5)).await;
    let requests = rig.cluster.take_requests();
    assert!(
        requests.contains(&"list /api/v1/configmaps".to_owned()),
        "{requests:?}"
    );
    rig.settle().await;
    rig.edit_map("9");
    rig.drift().await;
}
