//! A hub with clusters, whose agents report at once.

use std::collections::BTreeMap;

use fairlead_api::{
    BundleId, ClusterId, Code, RolloutId,
    delivery::{
        BundleFields, Deployment, DeploymentReport, DeploymentReports, DeploymentState,
        DesiredBundle, DesiredState, ObjectCounts, Rollout,
    },
    resources::ClusterState,
};
use fairlead_certs::Registration;
use fairlead_delivery_store::RolloutFilter;
use fairlead_rollout::RolloutVerb;
use fairlead_store::{
    Actor, Clock, Draft, Place, Store, StoreError,
    model::{Binding, Bootstrap, BundleRecord, Cluster, Generation, Tenant},
};
use fairlead_testkit::wall_clock::WallClock;
use serde_json::{Value, json};
use tempfile::TempDir;
use time::{Duration, OffsetDateTime, macros::datetime};

use crate::{
    fleet::{TakenReports, supervisor::VerbError},
    generations::GenerationOptions,
    parts::DeliveryParts,
};

pub(super) const START: OffsetDateTime = datetime!(2026-11-24 12:00 UTC);
pub(super) const SHOP: &str = "b-shop";

pub(super) fn shop() -> BundleId {
    SHOP.parse().unwrap()
}

pub(super) fn id(number: usize) -> ClusterId {
    format!("c-{number:04}").parse().unwrap()
}

/// A hub without background work.
pub(super) struct TestHub {
    pub(super) store: Store,
    pub(super) parts: DeliveryParts,
    pub(super) clock: WallClock,
    dir: TempDir,
    /// ETag of the last receipt of each agent.
    bases: BTreeMap<ClusterId, String>,
}

impl TestHub {
    /// A hub with connected clusters, labelled `site=edge`.
    pub(super) async fn with(clusters: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut hub = Self::open(dir, WallClock::at(START)).await;
        hub.change(move |draft| {
            draft.put_tenant(Tenant::new("t-a".parse().unwrap(), START))?;
            draft.put_tenant(Tenant::new("t-b".parse().unwrap(), START))?;
            for number in 0..clusters {
                draft.put_cluster(cluster(number))?;
            }
            Ok(())
        })
        .await;
        // The first start of a hub knows no agents, so it waits for none.
        hub.pass().await;
        (0..clusters).for_each(|it| hub.connect(it));
        hub
    }

    async fn open(dir: TempDir, clock: WallClock) -> Self {
        let place = Place::File(dir.path().join("store.db"));
        let clock_of_store = Clock::new(clock.reader());
        let store = Store::open(&place, clock_of_store.clone()).await.unwrap();
        TestHub {
            parts: DeliveryParts::of(&store, &clock_of_store),
            store,
            clock,
            dir,
            bases: BTreeMap::new(),
        }
    }

    /// Stops the hub and starts it again.
    pub(super) async fn restart(self) -> Self {
        self.store.close().await;
        Self::open(self.dir, self.clock).await
    }

    pub(super) async fn change(
        &self,
        decide: impl FnMut(&mut Draft) -> Result<(), StoreError> + Send + 'static,
    ) {
        self.store.change(Actor::Hub, decide).await.unwrap();
    }

    /// Lets the hub work until nothing changes any more.
    pub(super) async fn pass(&mut self) {
        for _ in 0..3 {
            self.parts.fleet.pass().await.unwrap();
        }
    }

    fn set_state(&self, number: usize, state: ClusterState) {
        let mut status = self.store.observed(&id(number)).unwrap().status.clone();
        (status.state, status.since) = (state, self.clock.now());
        self.store.set_status(&id(number), status);
    }

    pub(super) fn connect(&self, number: usize) {
        self.set_state(number, ClusterState::Connected);
    }

    pub(super) fn disconnect(&self, number: usize) {
        self.set_state(number, ClusterState::Lost);
    }

    pub(super) fn is_connected(&self, cluster: &ClusterId) -> bool {
        let observed = self.store.observed(cluster);
        observed.is_some_and(|it| it.status.state == ClusterState::Connected)
    }

    /// Writes a generation of a bundle with these options.
    pub(super) async fn deploy_as(&mut self, bundle: &str, fields: Value) {
        let mut options = json!({"targets": [{"selector": "site=edge"}]});
        for (key, value) in fields.as_object().unwrap() {
            options[key] = value.clone();
        }
        let fields: BundleFields = serde_json::from_value(options).unwrap();
        let options = GenerationOptions {
            fields: fields.clone(),
            used: Default::default(),
            has_chart: false,
        };
        let stored = self.parts.generations.store_options(&options, 1).await;
        let (options, bundle) = (stored.unwrap(), bundle.parse::<BundleId>().unwrap());
        let artifact = fairlead_api::delivery::ArtifactId::of_sha256(&[7; 32]);
        let at = self.clock.now();
        self.change(move |draft| {
            let known = draft.bundle(&bundle).map(|it| it.value.clone());
            let tenant = "t-a".parse().unwrap();
            let new = || BundleRecord::new(bundle.clone(), tenant, fields.clone());
            let mut record = known.unwrap_or_else(new);
            record.fields = fields.clone();
            record.push(Generation {
                number: 0,
                artifact: artifact.clone(),
                options: options.clone(),
                at,
                by: "anna".to_owned(),
            });
            draft.put_bundle(record)
        })
        .await;
        self.pass().await;
    }

    pub(super) async fn deploy(&mut self, fields: Value) {
        self.deploy_as(SHOP, fields).await;
    }

    /// Changes the document of the bundle.
    pub(super) async fn amend(&mut self, amend: impl Fn(&mut BundleRecord) + Send + 'static) {
        self.change(move |draft| {
            let mut bundle = draft.bundle(&shop()).unwrap().value.clone();
            amend(&mut bundle);
            draft.put_bundle(bundle)
        })
        .await;
        self.pass().await;
    }

    /// Changes labels of clusters.
    pub(super) async fn label(&mut self, clusters: std::ops::Range<usize>, site: &'static str) {
        self.change(move |draft| {
            for number in clusters.clone() {
                draft.amend_cluster(&id(number), |it| {
                    it.annotations.insert("site".to_owned(), site.to_owned());
                })?;
            }
            Ok(())
        })
        .await;
        self.pass().await;
    }

    pub(super) fn desired(&self, number: usize) -> DesiredState {
        let desired = self.parts.fleet.read_now(|it| it.desired(&id(number)));
        desired.unwrap()
    }

    /// The shop in the desired state of a cluster.
    pub(super) fn entry(&self, number: usize) -> Option<DesiredBundle> {
        let bundles = self.desired(number).bundles.into_iter();
        bundles.into_iter().find(|it| it.bundle == shop())
    }

    /// Released generation of the shop; 0 for none.
    pub(super) fn released(&self, number: usize) -> u64 {
        let entry = self.entry(number).filter(|it| !it.remove);
        entry.map_or(0, |it| it.generation)
    }

    /// Clusters with this released generation.
    pub(super) fn with_released(&self, generation: u64) -> Vec<usize> {
        let all = 0..self.store.view().clusters().len();
        all.filter(|it| self.released(*it) == generation).collect()
    }

    /// Reports a state of the shop; returns the receipt.
    pub(super) async fn report(
        &mut self,
        number: usize,
        reports: DeploymentReports,
    ) -> Option<String> {
        let cluster = id(number);
        let reports = DeploymentReports {
            base: self.bases.get(&cluster).cloned(),
            ..reports
        };
        let taken = self.parts.fleet.report(&cluster, reports).await.unwrap();
        let etag = match taken {
            TakenReports::Taken(etag) => Some(etag),
            TakenReports::OtherBase => None,
            TakenReports::NoCluster => panic!("no {cluster}"),
        };
        match &etag {
            Some(etag) => self.bases.insert(cluster, etag.clone()),
            None => self.bases.remove(&cluster),
        };
        etag
    }

    pub(super) async fn report_state(
        &mut self,
        number: usize,
        state: DeploymentState,
        generation: u64,
    ) {
        let reports = DeploymentReports {
            reports: vec![state_of(state, generation)],
            ..DeploymentReports::default()
        };
        assert!(self.report(number, reports).await.is_some());
    }

    /// Lets each connected agent report a state of its released generation, until nothing changes any more.
    pub(super) async fn agents(&mut self, state: impl Fn(usize) -> DeploymentState) {
        let all = self.store.view().clusters().len();
        let mut reported = BTreeMap::new();
        loop {
            self.pass().await;
            let mut changed = false;
            for number in 0..all {
                let released = self.released(number);
                let is_new = released > 0 && reported.insert(number, released) != Some(released);
                if is_new && self.is_connected(&id(number)) {
                    self.report_state(number, state(number), released).await;
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
    }

    pub(super) async fn all_ready(&mut self) {
        self.agents(|_| DeploymentState::Ready).await;
    }

    /// The newest rollout of the shop.
    pub(super) fn rollout(&self) -> Rollout {
        let rollout = self.parts.fleet.read_now(|it| it.newest_rollout(&shop()));
        rollout.unwrap()
    }

    pub(super) async fn verb(&mut self, verb: RolloutVerb) -> Result<(), VerbError> {
        let id = self.rollout().id;
        self.parts.fleet.verb(&id, verb).await
    }

    /// Stored rollouts with their states.
    pub(super) async fn stored(&self) -> Vec<(RolloutId, &'static str)> {
        let rows = self
            .parts
            .rollouts
            .list(&RolloutFilter::default(), 100)
            .await;
        let rows = rows.unwrap().into_iter();
        rows.map(|it| (it.id, it.state.as_str())).collect()
    }

    pub(super) fn deployment(&self, number: usize) -> Option<Deployment> {
        self.parts
            .fleet
            .read_now(|it| it.deployment_of(&id(number), &shop()))
    }

    /// State and reason of a deployment.
    pub(super) fn shown(&self, number: usize) -> (DeploymentState, String) {
        let shown = self.deployment(number).unwrap();
        (shown.state, shown.reason.unwrap_or_default())
    }

    /// Code of the state of a deployment.
    pub(super) fn code(&self, number: usize) -> Option<Code> {
        let code = self.deployment(number).unwrap().code;
        code.map(|it| it.parse().unwrap())
    }

    pub(super) async fn advance(&mut self, seconds: i64) {
        self.clock.advance(Duration::seconds(seconds));
        self.pass().await;
    }
}

pub(super) fn state_of(state: DeploymentState, generation: u64) -> DeploymentReport {
    let is_ready = state == DeploymentState::Ready;
    DeploymentReport {
        bundle: shop(),
        state,
        reason: (!is_ready).then(|| "image pull failed".to_owned()),
        code: None,
        generation,
        applied: if is_ready { generation } else { 0 },
        attempt: 1,
        next_try: None,
        retries_exhausted: state == DeploymentState::Failed,
        objects: ObjectCounts { total: 4, ready: 4 },
        drift: Vec::new(),
        beside: Vec::new(),
        run: None,
    }
}

fn cluster(number: usize) -> Cluster {
    let bootstrap = Bootstrap::new(1, START, None);
    let binding = Binding::open(Registration::from_bytes([1; 8]), bootstrap);
    let mut cluster = Cluster::new(id(number), "t-a".parse().unwrap(), binding, START);
    cluster
        .annotations
        .insert("site".to_owned(), "edge".to_owned());
    cluster
}
