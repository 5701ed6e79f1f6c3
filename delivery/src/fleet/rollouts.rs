//! Rollouts of all bundles: decisions, steps to be stored, and their effects.

use std::collections::HashMap;

use fairlead_api::{BundleId, ClusterId, RolloutId, delivery::Rollout};
use fairlead_delivery_store::RolloutRow;
use fairlead_rollout::{FrozenRollout, RolloutVerb, UnixMillis, VerbRefused};

use super::{
    Fleet,
    bundle_rollout::{BundleRollout, RolloutSave},
    rollout_row::RolloutBody,
};

impl Fleet {
    /// Id and version of the rollout of each bundle in memory.
    pub(crate) fn known_rollouts(&self) -> HashMap<RolloutId, u64> {
        let rollouts = self.bundles.values().filter_map(|it| it.rollout.as_ref());
        rollouts.map(|it| (it.id.clone(), it.version)).collect()
    }

    /// Takes the stored step of a rollout. It decides nothing before `quiet_until`. Older rollouts than that in memory, and those
    /// of deleted bundles, are ignored.
    pub(crate) fn restore_rollout(
        &mut self,
        row: &RolloutRow,
        frozen: FrozenRollout,
        body: RolloutBody,
        quiet_until: Option<UnixMillis>,
        now: UnixMillis,
    ) {
        let (around, bundles) = self.parts(now);
        let Some(bundle) = bundles
            .get_mut(&row.bundle)
            .filter(|it| it.record.is_some())
        else {
            return;
        };
        let newer = bundle.rollout.as_ref().map_or(0, |it| it.machine.to());
        if newer <= row.generation {
            bundle.restore(around, row, frozen, body, quiet_until);
        }
    }

    /// Notes that the stored rollouts of all bundles are in memory, so that new ones may start.
    pub(crate) fn set_rollouts_known(&mut self) {
        for bundle in self.bundles.values_mut() {
            bundle.is_rollout_known = true;
        }
    }

    /// Lets all rollouts go on, on the hub that decides.
    pub(crate) fn drive(&mut self, quiet_until: UnixMillis, now: UnixMillis) {
        if now < quiet_until {
            return;
        }
        let (around, bundles) = self.parts(now);
        for bundle in bundles.values_mut() {
            bundle.drive(around);
        }
    }

    /// Time of the next decision.
    pub(crate) fn wake(&self) -> Option<UnixMillis> {
        let rollouts = self.bundles.values().filter_map(|it| it.rollout.as_ref());
        rollouts.filter_map(|it| it.wake).min()
    }

    /// Steps that must be stored now.
    pub(crate) fn saves(&self) -> Vec<RolloutSave> {
        let bundles = self.bundles.values();
        bundles
            .filter_map(super::bundle_state::BundleState::save)
            .collect()
    }

    /// Notes that the step of a bundle is stored.
    pub(crate) fn saved(&mut self, bundle: &BundleId) {
        if let Some(bundle) = self.bundles.get_mut(bundle) {
            bundle.saved();
        }
    }

    /// Forgets the rollout of a bundle: its step was not stored, and must be read again.
    pub(crate) fn forget_rollout(&mut self, bundle: &BundleId) {
        if let Some(bundle) = self.bundles.get_mut(bundle) {
            bundle.rollout = None;
            bundle.is_rollout_known = false;
        }
    }

    /// Forgets all rollouts: another hub led.
    pub(crate) fn forget_rollouts(&mut self) {
        for bundle in self.bundles.values_mut() {
            bundle.rollout = None;
            bundle.is_rollout_known = false;
        }
    }

    /// True if rollouts of some bundles must be read.
    pub(crate) fn has_unknown_rollouts(&self) -> bool {
        self.bundles.values().any(|it| !it.is_rollout_known)
    }

    /// Applies the effects of stored steps; returns deployments that must try again.
    pub(crate) fn apply(&mut self, now: UnixMillis) -> Vec<(ClusterId, BundleId)> {
        let (around, bundles) = self.parts(now);
        let (mut changed, mut retried) = (Vec::new(), Vec::new());
        for bundle in bundles.values_mut() {
            let applied = bundle.apply(around);
            let of = |clusters: Vec<ClusterId>| {
                let id = bundle.id.clone();
                clusters.into_iter().map(move |it| (it, id.clone()))
            };
            changed.extend(of(applied.released));
            retried.extend(of(applied.retried));
        }
        for (cluster, bundle) in changed {
            self.note_change(&cluster, &bundle);
            self.dirty.insert(cluster);
        }
        retried
    }

    /// Applies the verb of a person; `None` for a rollout that is not the newest one of its bundle.
    pub(crate) fn verb(
        &mut self,
        id: &RolloutId,
        verb: RolloutVerb,
        now: UnixMillis,
    ) -> Option<Result<BundleId, VerbRefused>> {
        let bundle = self.bundles.values_mut().find(|it| {
            let rollout = it.rollout.as_ref();
            rollout.is_some_and(|it| it.id == *id)
        })?;
        let done = bundle.rollout.as_mut()?.verb(now, verb);
        Some(done.map(|()| bundle.id.clone()))
    }

    /// A rollout in memory as people read it, with its bundle.
    pub(crate) fn rollout(&self, id: &RolloutId) -> Option<Rollout> {
        let bundles = self.bundles.values();
        let mut found = bundles.filter_map(|it| Some((it, it.rollout.as_ref()?)));
        let (bundle, rollout) = found.find(|(_, it)| it.id == *id)?;
        Some(shown(&bundle.id, rollout))
    }

    /// The newest rollout of a bundle.
    #[cfg(test)]
    pub(crate) fn newest_rollout(&self, bundle: &BundleId) -> Option<Rollout> {
        let rollout = self.bundles.get(bundle)?.rollout.as_ref()?;
        Some(shown(bundle, rollout))
    }
}

fn shown(bundle: &BundleId, rollout: &BundleRollout) -> Rollout {
    rollout.machine.view(rollout.id.clone(), bundle.clone())
}
