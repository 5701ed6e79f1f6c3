use std::sync::Mutex;

use async_trait::async_trait;
use fairlead_api::delivery::DesiredBundle;
use http::Response;
use tokio::time::Instant;

use super::*;
use crate::HubUnreachable;

#[derive(Default)]
struct HubState {
    is_away: bool,
    generation: u64,
    /// Time and condition of each request.
    requests: Vec<(Instant, Option<String>)>,
}

/// Hub with one bundle. The ETag of its state is the generation.
#[derive(Default)]
struct FakeHub(Mutex<HubState>);

#[async_trait]
impl HubConnection for FakeHub {
    async fn send(
        &self,
        request: Request<Bytes>,
        _: usize,
    ) -> Result<Response<Bytes>, HubUnreachable> {
        let mut state = self.0.lock().unwrap();
        let condition = request.headers().get(header::IF_NONE_MATCH);
        let condition = condition.map(|it| it.to_str().unwrap().to_owned());
        state.requests.push((Instant::now(), condition.clone()));
        if state.is_away {
            return Err(HubUnreachable("away".to_owned()));
        }
        let etag = format!("\"{}\"", state.generation);
        if condition.as_ref() == Some(&etag) {
            let answer = Response::builder().status(StatusCode::NOT_MODIFIED);
            return Ok(answer.body(Bytes::new()).unwrap());
        }
        let desired = DesiredState {
            bundles: vec![DesiredBundle {
                bundle: "b-shop".parse().unwrap(),
                generation: state.generation,
                spec: None,
                remove: true,
                suspended: false,
            }],
            ..DesiredState::default()
        };
        let body = serde_json::to_vec(&desired).unwrap();
        let answer = Response::builder().header(header::ETAG, etag);
        Ok(answer.body(body.into()).unwrap())
    }
}

struct World {
    hub: Arc<FakeHub>,
    wanted: watch::Sender<Option<String>>,
    desired: watch::Receiver<Desired>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl World {
    fn start(is_away: bool) -> Self {
        let hub = Arc::new(FakeHub::default());
        hub.0.lock().unwrap().is_away = is_away;
        hub.0.lock().unwrap().generation = 1;
        let (wanted, probes) = watch::channel(None);
        let (sender, desired) = watch::channel(None);
        let task = tokio::spawn(follow(hub.clone(), probes, sender));
        Self {
            hub,
            wanted,
            desired,
            task,
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut HubState) -> T) -> T {
        work(&mut self.hub.0.lock().unwrap())
    }

    /// A probe with the name of the state of this generation.
    fn probe(&self, generation: u64) {
        self.wanted.send_replace(Some(generation.to_string()));
    }

    async fn until(&mut self, generation: u64) {
        let is_there = |desired: &Desired| {
            let bundles = desired.iter().flat_map(|desired| &desired.bundles);
            bundles.into_iter().any(|it| it.generation == generation)
        };
        self.desired.wait_for(is_there).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn state_is_pulled_when_a_probe_names_another_one_only() {
    let mut world = World::start(false);
    world.until(1).await;
    for _ in 0..10 {
        world.probe(1);
        sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(world.with(|hub| hub.requests.len()), 1);
    world.with(|hub| hub.generation = 2);
    world.probe(2);
    world.until(2).await;
    let last = world.with(|hub| hub.requests.last().unwrap().1.clone());
    assert_eq!(last.as_deref(), Some("\"1\""));
}

#[tokio::test(start_paused = true)]
async fn last_state_stays_while_the_hub_is_away() {
    let mut world = World::start(false);
    world.until(1).await;
    world.with(|hub| {
        hub.is_away = true;
        hub.generation = 2;
        hub.requests.clear();
    });
    world.probe(2);
    sleep(Duration::from_secs(600)).await;
    assert!(world.desired.borrow().is_some());
    let requests = world.with(|hub| hub.requests.len());
    assert!((2..30).contains(&requests), "{requests} requests");
    world.with(|hub| hub.is_away = false);
    world.until(2).await;
}

#[tokio::test(start_paused = true)]
async fn probe_ends_the_pause_after_failures() {
    let mut world = World::start(true);
    sleep(Duration::from_secs(600)).await;
    world.with(|hub| {
        hub.is_away = false;
        hub.requests.clear();
    });
    let start = Instant::now();
    world.probe(1);
    world.until(1).await;
    let first = world.with(|hub| hub.requests[0].0);
    assert!(first - start < FETCH_BACKOFF_MAX / 2);
}

/// Several hubs: the one that answers may know the change later than the one that probes.
#[tokio::test(start_paused = true)]
async fn hub_without_the_change_is_requested_again_with_pauses() {
    let mut world = World::start(false);
    world.until(1).await;
    world.with(|hub| hub.requests.clear());
    world.probe(2);
    sleep(Duration::from_secs(10)).await;
    let requests = world.with(|hub| hub.requests.len());
    assert!((2..12).contains(&requests), "{requests} requests");
    world.with(|hub| hub.generation = 2);
    world.until(2).await;
}
