use super::*;

#[tokio::test]
async fn engine_without_its_lease_observes_nothing() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    hub.release_with(1, &["a"], |spec| spec.drift = DriftPolicy::Correct);
    let agent = Agent::start(&api, &hub);
    until_ready(&hub, 1).await;
    drop(agent);
    let (shared, mut engine, _senders) = engine(&api, &hub);
    let observing = until_async("observation", async || shared.observer.followed().await > 0);
    tokio::select! {
        () = engine.run() => panic!("the engine ended"),
        () = observing => {}
    }
    engine.stop().await;
    assert_eq!(shared.observer.followed().await, 0);
}

#[tokio::test]
async fn agent_without_the_lease_reports_nothing() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    hub.release(1, &["a"]);
    let _agent = Agent::start(&api, &hub);
    until_ready(&hub, 1).await;
    // The first reports of an agent have all states: a deployment that they lack is gone for the hub.
    let idle = Arc::new(FakeHub::default());
    idle.release(1, &["a"]);
    api.take_requests();
    let _second = Agent::start(&api, &idle);
    let is_read = |it: &String| it.starts_with("GET") && it.contains("/leases/");
    until("a read of the Lease", || {
        api.take_requests().iter().any(is_read)
    })
    .await;
    assert_eq!(*idle.whole_reports.lock().unwrap(), 0);
}

#[tokio::test]
async fn first_reports_of_a_restarted_agent_have_each_deployment() {
    let (api, hub) = (api().await, Arc::new(FakeHub::default()));
    hub.release(1, &["a"]);
    let agent = Agent::start(&api, &hub);
    until_ready(&hub, 1).await;
    drop(agent);
    hub.reports.lock().unwrap().clear();
    free_lease(&api);
    let _agent = Agent::start(&api, &hub);
    until("first reports", || *hub.whole_reports.lock().unwrap() > 1).await;
    assert_eq!(hub.reports.lock().unwrap().len(), 1);
}

type Senders = (watch::Sender<Desired>, watch::Sender<Arc<SiteLimits>>);

/// Engine of an agent that has the Lease, its parts, and the senders that end it.
fn engine(api: &FakeApi, hub: &Arc<FakeHub>) -> (Arc<Shared>, Engine, Senders) {
    let (desired_sender, desired) = watch::channel::<Desired>(None);
    let (site_sender, site) = watch::channel(Arc::new(SiteLimits::default()));
    let process = Arc::new(ProcessIdentity::of_pod("pod"));
    let fences = Fences::new(api.client(), process);
    let uploads = Uploads::new(hub.clone());
    let (observer, findings) = Observer::new(fences.clone(), api.discovery(), uploads.clone());
    let shared = Arc::new(Shared {
        client: api.client(),
        discovery: api.discovery(),
        fences,
        content: ContentCache::new(hub.clone(), None),
        executors: Executors {
            manifests: Arc::new(ManifestExecutor),
            helm: None,
        },
        observer,
        desired,
        site,
        states: watch::channel(States::default()).0,
        permits: Arc::new(Semaphore::new(1)),
        uploads,
    });
    let (_, commands) = mpsc::channel(1);
    let engine = Engine::new(shared.clone(), commands, findings);
    (shared, engine, (desired_sender, site_sender))
}
