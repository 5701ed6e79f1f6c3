//! A simulated fleet: agents that pull, apply, and report; each event checks the rules of rollouts.

use std::{collections::BTreeMap, time::Duration};

use fairlead_api::{ClusterId, GroupId, Selector, delivery::DeploymentState};

use super::super::*;
use crate::{
    clock::UnixMillis,
    limits::WaveLimits,
    waves::{FrozenRollout, FrozenWave, Membership, RolloutCluster, RolloutPlan},
};

/// Behaviour of a cluster with the new generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// Ready after so many seconds.
    Ready(u64),
    /// Failed after so many seconds.
    Fails(u64),
    /// Never ready.
    Hangs,
}

#[derive(Debug, Clone)]
pub(super) struct FakeCluster {
    pub(super) id: ClusterId,
    pub(super) wave: u32,
    pub(super) online: bool,
    pub(super) targeted: bool,
    pub(super) participated: bool,
    /// Connected at the start.
    pub(super) began_online: bool,
    /// Began to match after the start.
    pub(super) late: bool,
    pub(super) behaviour: Behaviour,
    pub(super) before: u64,
    pub(super) accepted: u64,
    pub(super) applied: u64,
    pub(super) released: bool,
    pub(super) state: DeploymentState,
    pub(super) since: UnixMillis,
    /// End of the running apply.
    pub(super) due: Option<UnixMillis>,
}

pub(super) struct Fleet {
    pub(super) machine: RolloutMachine,
    pub(super) frozen: FrozenRollout,
    pub(super) now: UnixMillis,
    pub(super) wake: Option<UnixMillis>,
    pub(super) clusters: BTreeMap<ClusterId, FakeCluster>,
    pub(super) waves_done: Vec<u32>,
    pub(super) promoted: bool,
    /// Releases in order.
    pub(super) history: Vec<ClusterId>,
}

/// Labels by number: `region` is one of three.
pub(super) struct ByNumber;

pub(super) fn number(id: &ClusterId) -> u32 {
    id.as_str().trim_start_matches("c-").parse().unwrap()
}

pub(super) fn id(number: u32) -> ClusterId {
    format!("c-{number}").parse().unwrap()
}

impl Membership for ByNumber {
    fn selects(&self, selector: &Selector, cluster: &ClusterId) -> bool {
        let region = format!("r{}", number(cluster) % 3);
        selector.matches(|name| (name == "region").then_some(region.as_str()))
    }

    fn in_group(&self, _: &GroupId, _: &ClusterId) -> bool {
        false
    }
}

/// Waves in JSON, as people write them.
pub(super) fn rules(waves: &serde_json::Value) -> fairlead_api::delivery::RolloutRules {
    serde_json::from_value(serde_json::json!({ "waves": waves })).unwrap()
}

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Fleet {
    /// Starts generation 2 in a fleet at generation 1.
    pub(super) fn start(
        waves: &serde_json::Value,
        size: u32,
        behave: impl Fn(u32) -> (bool, Behaviour),
    ) -> Fleet {
        let clusters = (0..size).map(|number| {
            let (online, behaviour) = behave(number);
            let cluster = FakeCluster {
                id: id(number),
                wave: 0,
                online,
                targeted: true,
                participated: online,
                began_online: online,
                late: false,
                behaviour,
                before: 1,
                accepted: 1,
                applied: 1,
                released: false,
                state: DeploymentState::Ready,
                since: UnixMillis(0),
                due: None,
            };
            (cluster.id.clone(), cluster)
        });
        Fleet::roll(waves, clusters.collect(), (1, 2), None, UnixMillis(1000))
    }

    /// Starts the next rollout of this fleet.
    pub(super) fn next(mut self, waves: &serde_json::Value, bad: Option<u64>) -> Fleet {
        self.machine.supersede(self.now);
        let released: BTreeMap<ClusterId, u64> = self
            .machine
            .all_released()
            .map(|(id, generation)| (id.clone(), generation))
            .collect();
        let generations = (self.machine.from(), self.machine.to() + 1);
        let mut clusters = self.clusters;
        for cluster in clusters.values_mut() {
            cluster.before = released.get(&cluster.id).copied().unwrap_or(cluster.before);
            cluster.released = false;
            cluster.late = false;
            cluster.participated = cluster.online;
            cluster.began_online = cluster.online;
        }
        clusters.retain(|_, it| it.targeted);
        Fleet::roll(waves, clusters, generations, bad, self.now)
    }

    fn roll(
        waves: &serde_json::Value,
        mut clusters: BTreeMap<ClusterId, FakeCluster>,
        (from, to): (u64, u64),
        bad: Option<u64>,
        now: UnixMillis,
    ) -> Fleet {
        let plan = RolloutPlan {
            bundle: &"b-shop".parse().unwrap(),
            from,
            to,
            bad,
            rules: &rules(waves),
            timeout: Some("5m".parse().unwrap()),
        };
        let inputs = clusters.values().map(|it| RolloutCluster {
            id: it.id.clone(),
            connected: it.online,
            before: it.before,
        });
        let frozen = plan.freeze(inputs, &ByNumber);
        for (wave, frozen) in (0..).zip(&frozen.waves) {
            for id in &frozen.clusters {
                clusters.get_mut(id).unwrap().wave = wave;
            }
        }
        let observe = |id: &ClusterId| clusters.get(id).and_then(FakeCluster::observed);
        let (machine, effects) = RolloutMachine::start(frozen.clone(), observe, now);
        let mut fleet = Fleet {
            machine,
            frozen,
            now,
            wake: None,
            clusters,
            waves_done: Vec::new(),
            promoted: false,
            history: Vec::new(),
        };
        fleet.apply(&effects);
        fleet
    }

    /// Checks the effects against the rules, and carries them to the clusters.
    pub(super) fn apply(&mut self, effects: &RolloutEffects) {
        self.wake = effects.wake;
        for &index in &effects.released {
            let id = self.machine.cluster(index).unwrap().clone();
            let cluster = self.clusters.get_mut(&id).unwrap();
            assert!(!cluster.released, "{id} is released once");
            assert!(cluster.online && cluster.targeted, "{id} cannot pull");
            cluster.released = true;
            self.history.push(id);
        }
        assert!(effects.save || (effects.released.is_empty() && effects.state.is_none()));
        for id in effects.retried.iter().map(|it| self.machine.cluster(*it)) {
            let cluster = self.clusters.get_mut(id.unwrap()).unwrap();
            cluster.begin(self.now);
        }
        if !effects.released.is_empty() {
            self.check_unavailable();
        }
        self.waves_done.extend(&effects.waves_done);
        if effects.save {
            self.check_released();
            self.pull();
        }
    }

    /// No more clusters are unavailable after a release than the limit allows.
    fn check_unavailable(&self) {
        let current = self.machine.wave;
        for wave in 0..=current.min(self.frozen.waves.len() as u32 - 1) {
            let last = self.history.last().unwrap().clone();
            if self.clusters[&last].wave != wave || self.promoted {
                continue;
            }
            let limits = self.limits(if wave < current { u32::MAX } else { wave });
            let unavailable = self.count(|it| {
                let counted = if wave < current {
                    it.wave < current
                } else {
                    it.wave == wave
                };
                counted && it.is_unavailable(self.machine.to())
            });
            let free = self.clusters[&last].is_ready(self.machine.to());
            assert!(
                free || unavailable <= limits.max_unavailable,
                "{unavailable} {limits:?}"
            );
        }
    }

    /// Limits of a wave, `u32::MAX` for the last one, counted anew.
    pub(super) fn limits(&self, wave: u32) -> WaveLimits {
        let wave = wave.min(self.frozen.waves.len() as u32 - 1);
        let done = wave < self.machine.wave;
        let participants = self
            .count(|it| it.wave == wave && it.participated && it.targeted && (done || !it.late));
        WaveLimits::of(&self.frozen.waves[wave as usize].rules, participants)
    }

    /// The machine's answer is the sum of its effects.
    fn check_released(&self) {
        for cluster in self.clusters.values().filter(|it| it.targeted) {
            let expected = if cluster.released {
                self.machine.to()
            } else {
                cluster.before
            };
            assert_eq!(
                self.machine.released(&cluster.id),
                Some(expected),
                "{}",
                cluster.id
            );
        }
    }

    /// Connected agents pull their released generation.
    fn pull(&mut self) {
        let (to, now) = (self.machine.to(), self.now);
        for cluster in self.clusters.values_mut() {
            if cluster.online && cluster.targeted && cluster.released && cluster.accepted < to {
                cluster.accepted = to;
                cluster.begin(now);
            }
        }
    }

    /// Runs until nothing happens any more, or until this time has passed.
    pub(super) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let due = self.clusters.values().filter(|it| it.online && it.targeted);
            let due = due.filter_map(|it| Some((it.due?, it.id.clone()))).min();
            let wake = self.wake.filter(|it| *it > self.now);
            match (due, wake) {
                (Some((at, id)), wake) if at <= end && wake.is_none_or(|it| at <= it) => {
                    self.now = self.now.max(at);
                    self.finish(&id);
                }
                (_, Some(wake)) if wake <= end => {
                    self.now = wake;
                    let effects = self.machine.tick(self.now);
                    self.apply(&effects);
                }
                _ => break,
            }
        }
        self.now = end;
    }

    /// Ends the apply of a cluster, and reports.
    fn finish(&mut self, id: &ClusterId) {
        let cluster = self.clusters.get_mut(id).unwrap();
        cluster.due = None;
        cluster.since = self.now;
        match cluster.behaviour {
            Behaviour::Ready(_) => {
                cluster.applied = cluster.accepted;
                cluster.state = DeploymentState::Ready;
            }
            Behaviour::Fails(_) => cluster.state = DeploymentState::Failed,
            Behaviour::Hangs => {
                cluster.applied = cluster.accepted;
                cluster.state = DeploymentState::NotReady;
            }
        }
        self.report(id);
    }

    pub(super) fn report(&mut self, id: &ClusterId) {
        let report = self.clusters[id].observed().unwrap().report.unwrap();
        let effects = self.machine.report(self.now, id, &report);
        self.apply(&effects);
    }

    pub(super) fn set_state(&mut self, number: u32, state: DeploymentState) {
        let cluster = self.clusters.get_mut(&id(number)).unwrap();
        cluster.state = state;
        cluster.since = self.now;
        self.report(&id(number));
    }

    pub(super) fn connect(&mut self, number: u32, online: bool) {
        let cluster = self.clusters.get_mut(&id(number)).unwrap();
        cluster.online = online;
        cluster.participated |= online;
        let effects = self.machine.connection(self.now, &id(number), online);
        self.apply(&effects);
        self.pull();
    }

    pub(super) fn untarget(&mut self, number: u32) {
        self.clusters.get_mut(&id(number)).unwrap().targeted = false;
        let effects = self.machine.untarget(self.now, &id(number));
        self.apply(&effects);
    }

    /// A new cluster, or one that was untargeted before, matches.
    pub(super) fn join(&mut self, number: u32) {
        let id = id(number);
        let wave = self.machine.wave_of_new(&id, &ByNumber);
        let before = self.machine.from();
        let now = self.now;
        let cluster = self.clusters.entry(id.clone()).or_insert(FakeCluster {
            id: id.clone(),
            wave,
            online: true,
            targeted: true,
            participated: true,
            began_online: false,
            late: true,
            behaviour: Behaviour::Ready(10),
            before,
            accepted: before,
            applied: before,
            released: false,
            state: DeploymentState::Ready,
            since: now,
            due: None,
        });
        cluster.targeted = true;
        let target = NewTarget {
            cluster: &id,
            wave,
            before,
            observed: cluster.observed().unwrap(),
        };
        let effects = self.machine.target(now, &target);
        self.apply(&effects);
    }

    pub(super) fn verb(&mut self, verb: RolloutVerb) {
        self.promoted |= verb == RolloutVerb::Promote;
        let effects = self.machine.verb(self.now, verb).unwrap();
        self.apply(&effects);
    }

    /// Restarts the hub: the machine is restored from its stored form and the reports.
    pub(super) fn restart(&mut self) {
        let step = serde_json::to_string(&self.machine.step()).unwrap();
        let frozen = serde_json::to_string(&self.frozen).unwrap();
        let observe = |id: &ClusterId| self.clusters.get(id).and_then(FakeCluster::observed);
        let (machine, effects) = RolloutMachine::restore(
            serde_json::from_str(&frozen).unwrap(),
            serde_json::from_str(&step).unwrap(),
            observe,
            self.now,
            None,
        );
        self.machine = machine;
        for cluster in self.clusters.values_mut() {
            let touched = cluster.accepted >= self.machine.to();
            cluster.participated = cluster.began_online || cluster.online || touched;
        }
        self.apply(&effects);
    }

    pub(super) fn count(&self, matches: impl Fn(&FakeCluster) -> bool) -> u32 {
        self.clusters.values().filter(|it| matches(it)).count() as u32
    }

    pub(super) fn ready(&self) -> u32 {
        self.count(|it| it.is_ready(self.machine.to()))
    }

    pub(super) fn released(&self) -> u32 {
        self.count(|it| it.released)
    }

    pub(super) fn failed(&self, wave: u32) -> u32 {
        let status = self.machine.waves();
        status[wave as usize].failed
    }

    pub(super) fn wave(&self, wave: u32) -> &FrozenWave {
        &self.frozen.waves[wave as usize]
    }
}

impl FakeCluster {
    fn begin(&mut self, now: UnixMillis) {
        self.state = DeploymentState::Applying;
        self.since = now;
        self.due = Some(match self.behaviour {
            Behaviour::Ready(after) | Behaviour::Fails(after) => now + seconds(after),
            Behaviour::Hangs => now + seconds(1),
        });
    }

    pub(super) fn is_ready(&self, to: u64) -> bool {
        self.state == DeploymentState::Ready && self.applied >= to
    }

    fn is_unavailable(&self, to: u64) -> bool {
        self.online && self.targeted && self.released && !self.is_ready(to)
    }

    fn observed(&self) -> Option<RolloutObservation<'static>> {
        let failed = self.state == DeploymentState::Failed;
        self.targeted.then_some(RolloutObservation {
            connected: self.online,
            report: Some(ClusterReport {
                state: self.state,
                generation: self.accepted,
                applied: self.applied,
                retries_exhausted: failed,
                since: self.since,
                cause: failed.then_some("image pull failed"),
            }),
        })
    }
}
