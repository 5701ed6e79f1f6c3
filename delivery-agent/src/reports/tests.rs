use std::sync::Mutex;

use async_trait::async_trait;
use fairlead_api::delivery::ObjectCounts;
use http::Response;

use super::*;
use crate::HubUnreachable;

#[derive(Default)]
struct HubState {
    is_away: bool,
    /// Requests whose answers are lost.
    lost_answers: usize,
    /// Number of the last acknowledged reports.
    base: u64,
    /// True: the base is another one, as after a restart of the hub.
    is_restarted: bool,
    requests: Vec<DeploymentReports>,
    reports: BTreeMap<BundleId, DeploymentReport>,
}

/// Hub that takes reports on its own base only, as the real one does.
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
        if state.is_away {
            return Err(HubUnreachable("away".to_owned()));
        }
        assert!(request.body().len() <= MAX_REPORTS_BYTES);
        let body: DeploymentReports = serde_json::from_slice(request.body()).unwrap();
        state.requests.push(body.clone());
        let base = (state.base > 0).then(|| state.base.to_string());
        let is_known = body.base.is_none() || body.base == base && !state.is_restarted;
        let mut receipt = DeploymentReceipt { etag: None };
        if is_known {
            if body.base.is_none() {
                state.reports.clear();
            }
            state.is_restarted = false;
            state.base += 1;
            for bundle in &body.gone {
                state.reports.remove(bundle);
            }
            let reports = body.reports.into_iter();
            let reports = reports.map(|it| (it.bundle.clone(), it));
            state.reports.extend(reports);
            receipt.etag = Some(state.base.to_string());
        }
        if state.lost_answers > 0 {
            state.lost_answers -= 1;
            return Err(HubUnreachable("cut".to_owned()));
        }
        let json = serde_json::to_vec(&receipt).unwrap();
        Ok(Response::new(json.into()))
    }
}

struct World {
    hub: Arc<FakeHub>,
    states: watch::Sender<States>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl World {
    fn start() -> Self {
        Self::start_with(States {
            is_whole: true,
            ..States::default()
        })
    }

    fn start_with(states: States) -> Self {
        let hub = Arc::new(FakeHub::default());
        let (states, receiver) = watch::channel(states);
        let task = tokio::spawn(Reporter::new(hub.clone(), receiver).run());
        Self { hub, states, task }
    }

    fn with<T>(&self, work: impl FnOnce(&mut HubState) -> T) -> T {
        work(&mut self.hub.0.lock().unwrap())
    }

    fn publish(&self, report: DeploymentReport) {
        self.states.send_modify(|states| {
            states.gone.remove(&report.bundle);
            states.reports.insert(report.bundle.clone(), report);
        });
    }

    /// Waits until the hub has the states of the agent.
    async fn until_known(&self) {
        let expected = self.states.borrow().reports.clone();
        while self.with(|hub| hub.reports != expected) {
            // The paused clock moves on at once when all tasks wait.
            sleep(Duration::from_millis(100)).await;
        }
    }
}

fn report(bundle: &str, state: DeploymentState, generation: u64) -> DeploymentReport {
    DeploymentReport {
        bundle: bundle.parse().unwrap(),
        state,
        reason: None,
        code: None,
        generation,
        applied: generation,
        attempt: 0,
        next_try: None,
        retries_exhausted: false,
        objects: ObjectCounts { total: 1, ready: 1 },
        drift: Vec::new(),
        beside: Vec::new(),
        run: None,
    }
}

#[tokio::test(start_paused = true)]
async fn newest_state_of_each_deployment_waits_for_the_hub() {
    let world = World::start();
    world.publish(report("b-a", DeploymentState::Ready, 1));
    world.publish(report("b-b", DeploymentState::Ready, 1));
    world.until_known().await;
    world.with(|hub| {
        hub.is_away = true;
        hub.requests.clear();
    });
    for generation in 2..200 {
        world.publish(report("b-a", DeploymentState::Failed, generation));
        sleep(Duration::from_secs(1)).await;
    }
    world.with(|hub| hub.is_away = false);
    world.until_known().await;
    let requests = world.with(|hub| hub.requests.clone());
    let [request] = &requests[..] else {
        panic!("{requests:?}");
    };
    assert_eq!(request.reports.len(), 1, "no state of b-b again");
    assert_eq!(request.reports[0].generation, 199);
}

#[tokio::test(start_paused = true)]
async fn restarted_hub_gets_all_states() {
    let world = World::start();
    for bundle in ["b-a", "b-b"] {
        world.publish(report(bundle, DeploymentState::Ready, 1));
    }
    world.until_known().await;
    world.with(|hub| {
        hub.is_restarted = true;
        hub.reports.clear();
    });
    world.publish(report("b-b", DeploymentState::Ready, 2));
    world.until_known().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reported_before_each_journal_has_a_state() {
    let world = World::start_with(States::default());
    world.publish(report("b-a", DeploymentState::Ready, 1));
    sleep(Duration::from_secs(600)).await;
    assert_eq!(world.with(|hub| hub.requests.len()), 0);
    world.publish(report("b-b", DeploymentState::Ready, 1));
    world.states.send_modify(|states| states.is_whole = true);
    world.until_known().await;
    assert_eq!(world.with(|hub| hub.requests.len()), 1);
}

#[tokio::test(start_paused = true)]
async fn lost_answer_loses_no_state() {
    let world = World::start();
    world.publish(report("b-a", DeploymentState::Ready, 1));
    world.until_known().await;
    world.with(|hub| hub.lost_answers = 1);
    world.publish(report("b-a", DeploymentState::Failed, 2));
    world.until_known().await;
    world.publish(report("b-a", DeploymentState::Ready, 3));
    world.until_known().await;
}

#[tokio::test(start_paused = true)]
async fn removed_deployment_is_reported_as_gone() {
    let world = World::start();
    world.publish(report("b-a", DeploymentState::Ready, 1));
    world.publish(report("b-b", DeploymentState::Ready, 1));
    world.until_known().await;
    let bundle: BundleId = "b-a".parse().unwrap();
    world.states.send_modify(|states| {
        states.reports.remove(&bundle);
        states.gone.insert(bundle.clone());
    });
    world.until_known().await;
    let gone = world.with(|hub| hub.requests.last().unwrap().gone.clone());
    assert_eq!(gone, std::slice::from_ref(&bundle));
    // A new deployment with the same name is none that is gone.
    world.publish(report("b-a", DeploymentState::Ready, 5));
    world.until_known().await;
}

#[tokio::test(start_paused = true)]
async fn passing_state_is_reported_after_it_has_stood() {
    let world = World::start();
    world.publish(report("b-a", DeploymentState::Ready, 1));
    world.until_known().await;
    world.with(|hub| hub.requests.clear());
    for generation in 2..5 {
        world.publish(report("b-a", DeploymentState::Applying, generation));
        sleep(STANDING_TIME / 2).await;
        world.publish(report("b-a", DeploymentState::Ready, generation));
        world.until_known().await;
    }
    let states = |hub: &mut HubState| -> Vec<DeploymentState> {
        let reports = hub.requests.iter().flat_map(|it| &it.reports);
        reports.map(|it| it.state).collect()
    };
    assert_eq!(world.with(states), [DeploymentState::Ready; 3]);
    world.publish(report("b-a", DeploymentState::NotReady, 5));
    world.until_known().await;
}

#[tokio::test(start_paused = true)]
async fn many_states_go_in_pieces_of_the_limit() {
    let world = World::start();
    for number in 0..400 {
        let mut report = report(&format!("b-{number}"), DeploymentState::Failed, 1);
        report.reason = Some("x".repeat(4_000));
        world.publish(report);
    }
    world.until_known().await;
    let counts: Vec<_> = world.with(|hub| {
        let requests = hub.requests.iter();
        requests.map(|it| it.reports.len()).collect()
    });
    assert!(counts.len() > 2, "{counts:?}");
    assert_eq!(
        counts.iter().sum::<usize>(),
        400,
        "each state once: {counts:?}"
    );
}

#[test]
fn fields_beside_those_of_a_bundle_are_bounded() {
    let object = |object: &str, fields: Vec<String>| DriftedObject {
        object: object.to_owned(),
        fields,
        manager: Some("injector".to_owned()),
    };
    let mut report = report("b-a", DeploymentState::Ready, 1);
    let first = format!(".data.{}", "x".repeat(MAX_BESIDE_BYTES / 2));
    report.beside = vec![
        object("ConfigMap shop/a", vec![first.clone(), first.clone()]),
        object("ConfigMap shop/b", vec![first.clone()]),
    ];
    shorten(&mut report);
    assert_eq!(report.beside, [object("ConfigMap shop/a", vec![first])]);
}

#[tokio::test(start_paused = true)]
async fn one_large_state_holds_back_no_other() {
    let world = World::start();
    let mut large = report("b-large", DeploymentState::Failed, 1);
    large.reason = Some("x".repeat(MAX_REPORTS_BYTES));
    world.publish(large);
    world.publish(report("b-a", DeploymentState::Ready, 1));
    let bundles: [BundleId; 2] = ["b-a", "b-large"].map(|it| it.parse().unwrap());
    while world.with(|hub| !bundles.iter().all(|it| hub.reports.contains_key(it))) {
        sleep(Duration::from_millis(100)).await;
    }
}
