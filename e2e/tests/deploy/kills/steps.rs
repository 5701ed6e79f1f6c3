//! Kills of the agent at each write of a journal, before and after it is stored: install, upgrade, return, removal.
//!
//! A phase starts with one bundle of each kind without a kill, which tells the writes. Then each write of each kind has a
//! bundle for a kill before it and one for a kill after it. All bundles are held at their writes by one kill.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Process, eventually};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::Value;

use super::{
    change::{HOOK_SUCCEEDS, hook},
    check, runner,
    tap::{HoldPoint, Moment, Tap},
};
use crate::world::{ROLLOUT_DEADLINE, World};

/// Number of commands at the same time. The agent gives a held write up after 40 s.
const CONCURRENT_COMMANDS: usize = 4;
/// Runs at the same time, the most that a site may have: held ones count.
const SITE: &str = "\
{apiVersion: v1, kind: List, items: [
  {apiVersion: v1, kind: Namespace, metadata: {name: fairlead-delivery}},
  {apiVersion: v1, kind: ConfigMap, metadata: {name: fairlead-delivery, namespace: fairlead-delivery}, data: {concurrency: \"16\"}}]}";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Manifests,
    Chart,
}

/// Change of all bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Install,
    Upgrade,
    /// An upgrade whose hook fails, so that the release returns.
    Return,
    Removal,
}

/// A bundle: its kind, and its number.
type Bundle = (Kind, usize);

struct Steps {
    world: World,
    tap: Tap,
    runner: Process,
    /// Last phase of each bundle.
    bundles: BTreeMap<Bundle, Phase>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: `make kills`"]
async fn kill_at_each_step_of_the_journal_leaves_nothing_behind() -> anyhow::Result<()> {
    let mut steps = Steps::start().await?;
    for phase in [
        Phase::Install,
        Phase::Upgrade,
        Phase::Return,
        Phase::Removal,
    ] {
        let done = steps.run(phase).await;
        done.with_context(|| format!("{phase:?}; agent: {}", steps.world.log(0)))?;
    }
    // The hub ends a run without a result after three minutes: those that were killed after the last write.
    for bundle in steps.bundles.keys() {
        check::runs(&steps.world, &id(*bundle)).await?;
    }
    let log = std::fs::read_to_string(steps.runner.log_path())?;
    check::programs(&log)
}

impl Kind {
    const ALL: [Kind; 2] = [Kind::Manifests, Kind::Chart];
}

impl Phase {
    fn has(self, kind: Kind) -> bool {
        self != Phase::Return || kind == Kind::Chart
    }

    /// Content after the phase: a return leaves that of the upgrade.
    fn content(self) -> u32 {
        match self {
            Phase::Install => 1,
            _ => 2,
        }
    }
}

fn name((kind, number): Bundle) -> String {
    match kind {
        Kind::Manifests => format!("plain-{number}"),
        Kind::Chart => format!("chart-{number}"),
    }
}

fn id(bundle: Bundle) -> String {
    format!("b-{}", name(bundle))
}

/// Names of the objects of a content. Each content has one object that the other one lacks.
fn objects(bundle: Bundle, content: u32) -> BTreeSet<String> {
    let name = name(bundle);
    ["0", "1", "2", &format!("m{content}")]
        .map(|object| format!("{name}-{object}"))
        .into()
}

impl Steps {
    async fn start() -> anyhow::Result<Self> {
        let mut world = World::alone(&[]).await?;
        let (launch, socket) = runner(&world)?;
        let runner = launch.spawn(world.hub.dir().join("runner.log"))?;
        let cluster = Cluster::start_lite().await?;
        let apply = cluster.kubectl().args(["apply", "-f", "-"]).stdin(SITE);
        apply.run().await?.success()?;
        let tap = Tap::start(&cluster);
        let kubeconfig = tap.kubeconfig(world.hub.dir())?;
        let flags = ["--delivery", "on", "--runner-socket", &socket];
        world.join_by(cluster, &kubeconfig, &flags).await?;
        Ok(Steps {
            world,
            tap,
            runner,
            bundles: BTreeMap::new(),
        })
    }

    /// Brings all bundles to a phase, with a kill at each write.
    async fn run(&mut self, phase: Phase) -> anyhow::Result<()> {
        let kinds = || Kind::ALL.into_iter().filter(|kind| phase.has(*kind));
        self.tap.begin(BTreeMap::new());
        self.change(kinds().map(|kind| (kind, 0)), phase).await?;
        let mut points = BTreeMap::new();
        for kind in kinds() {
            let writes = self.tap.steps(&id((kind, 0)));
            eprintln!("{phase:?} of {kind:?}: {writes:#?}");
            for write in 1..=writes.len() {
                for moment in [Moment::Before, Moment::After] {
                    let number = 2 * write - usize::from(moment == Moment::Before);
                    points.insert((kind, number), HoldPoint { write, moment });
                }
            }
        }
        let targets: BTreeSet<Bundle> = points.keys().copied().collect();
        // Bundles for more writes than an earlier phase had.
        for earlier in [Phase::Install, Phase::Upgrade] {
            let lacks = |it: &&Bundle| self.bundles.get(it) < Some(&earlier) && earlier < phase;
            let late: Vec<_> = targets.iter().filter(lacks).copied().collect();
            self.change(late.into_iter(), earlier).await?;
        }
        self.tap
            .begin(points.into_iter().map(|(of, at)| (id(of), at)).collect());
        self.order(&targets, phase).await?;
        self.tap.all_held(ROLLOUT_DEADLINE).await?;
        self.kill().await?;
        self.settled(&targets, phase).await?;
        let rest = self.bundles.keys().filter(|it| phase.has(it.0) && it.1 > 0);
        let rest: Vec<_> = rest.filter(|it| !targets.contains(it)).copied().collect();
        self.bundles.extend(targets.iter().map(|it| (*it, phase)));
        self.change(rest.into_iter(), phase).await?;
        self.check(phase).await
    }

    /// Kills the agent. The next one need not wait 30 s for the end of its Lease.
    async fn kill(&mut self) -> anyhow::Result<()> {
        let member = &mut self.world.members[0];
        member.site.process.kill_9()?;
        self.tap.begin(BTreeMap::new());
        let lease = [
            "delete",
            "lease",
            "fairlead-delivery",
            "-n",
            "fairlead-delivery",
        ];
        member
            .cluster
            .kubectl()
            .args(lease)
            .run()
            .await?
            .success()?;
        member.site.restart()
    }

    /// Changes bundles without a kill.
    async fn change(
        &mut self,
        bundles: impl Iterator<Item = Bundle>,
        phase: Phase,
    ) -> anyhow::Result<()> {
        let bundles: BTreeSet<_> = bundles.collect();
        self.order(&bundles, phase).await?;
        self.settled(&bundles, phase).await?;
        self.bundles
            .extend(bundles.into_iter().map(|it| (it, phase)));
        Ok(())
    }

    /// Gives the orders for a phase.
    async fn order(&self, bundles: &BTreeSet<Bundle>, phase: Phase) -> anyhow::Result<()> {
        let orders = bundles.iter().map(|bundle| self.order_one(*bundle, phase));
        let orders = stream::iter(orders).buffer_unordered(CONCURRENT_COMMANDS);
        orders.try_collect().await
    }

    async fn order_one(&self, bundle: Bundle, phase: Phase) -> anyhow::Result<()> {
        let (name, id) = (name(bundle), id(bundle));
        if phase == Phase::Removal {
            let delete = ["bundle", "delete", &id, "--remove", "--yes"];
            return self.world.run(&delete).await?.success().map(drop);
        }
        let content = phase.content() + u32::from(phase == Phase::Return);
        let objects = objects(bundle, content).into_iter().map(|name| {
            format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{content: \"{content}\"}}\n")
        });
        let objects: String = objects.collect();
        let options = "namespace: shop\ntargets: [{name: all, selector: env=prod}]\n";
        let chart = format!("{{apiVersion: v2, name: {name}, version: 1.0.0}}");
        let (policy, end) = match phase {
            Phase::Return => ("helm: {onFailure: rollback}\n", "activeDeadlineSeconds: 1"),
            _ => ("", HOOK_SUCCEEDS),
        };
        let hook = hook(&name, end);
        let options = format!("{options}{policy}");
        let files: &[(&str, &str)] = match bundle.0 {
            Kind::Manifests => &[("fairlead.yaml", &options), ("objects.yaml", &objects)],
            Kind::Chart => &[
                ("fairlead.yaml", &options),
                ("Chart.yaml", &chart),
                ("templates/objects.yaml", &objects),
                ("templates/hook.yaml", &hook),
            ],
        };
        let folder = self.world.folder(&name, files)?;
        let deploy = ["deploy", &folder, "--tenant", "t-default", "--yes"];
        self.world.run(&deploy).await?.success().map(drop)
    }

    /// Waits until the deployments have the state of a phase.
    async fn settled(&self, bundles: &BTreeSet<Bundle>, phase: Phase) -> anyhow::Result<()> {
        let mut last = Value::Null;
        let list = ["deployment", "list", "--cluster", &self.world.members[0].id];
        let generation = phase as u64 + 1;
        let settled = eventually(ROLLOUT_DEADLINE, "settled deployments", async || {
            last = self.world.json(&list).await.ok()?;
            let items = last["items"].as_array()?;
            let is_settled = |bundle: &Bundle| {
                let id = id(*bundle);
                let found = items.iter().find(|it| it["bundle"] == *id);
                let Some(it) = found else {
                    return phase == Phase::Removal;
                };
                let applied = &it["generation"]["applied"];
                match phase {
                    Phase::Removal => false,
                    Phase::Return => it["state"] == "Failed" && it["code"] == "FL-6233",
                    _ => it["state"] == "Ready" && *applied == generation,
                }
            };
            bundles.iter().all(is_settled).then_some(())
        });
        settled.await.with_context(|| last.to_string())
    }

    /// Checks cluster, journals, releases and runs of all bundles.
    async fn check(&self, phase: Phase) -> anyhow::Result<()> {
        let member = &self.world.members[0];
        let journals = check::inventories(member).await?;
        for (bundle, last) in &self.bundles {
            let (name, id, is_chart) = (name(*bundle), id(*bundle), bundle.0 == Kind::Chart);
            let expected = match last {
                Phase::Removal => BTreeSet::new(),
                last => objects(*bundle, last.content()),
            };
            let found = check::labelled(member, &name, is_chart, last.content()).await?;
            ensure!(found == expected, "{id}: {found:?} in the cluster");
            let journal = journals.get(&id).cloned().unwrap_or_default();
            ensure!(journal == expected, "{id}: {journal:?} in the journal");
            ensure!(
                journals.contains_key(&id) != (*last == Phase::Removal),
                "{id}"
            );
            if is_chart {
                self.revisions(&name, *last, phase).await?;
            }
        }
        Ok(())
    }

    /// One revision for each generation. A return adds one. After a kill the failed revision may be there again.
    async fn revisions(&self, release: &str, last: Phase, phase: Phase) -> anyhow::Result<()> {
        let member = &self.world.members[0];
        let selector = format!("owner=helm,name={release}");
        let path = "jsonpath={.items[*].metadata.labels.status}";
        let get = ["get", "secrets", "-l", &selector, "-o", path];
        let found = member.kubectl(&get).await?;
        let found: Vec<_> = found.split_whitespace().collect();
        let is_good = match last {
            Phase::Install => found == ["deployed"],
            Phase::Upgrade => found == ["superseded", "deployed"],
            Phase::Return => {
                let (good, rest) = found.split_at_checked(2).context("two revisions")?;
                let (newest, failed) = rest.split_last().context("a rollback")?;
                good == ["superseded"; 2]
                    && *newest == "deployed"
                    && !failed.is_empty()
                    && failed.iter().all(|it| *it == "failed")
            }
            Phase::Removal => found.is_empty(),
        };
        ensure!(is_good, "{release} after {phase:?}: {found:?}");
        Ok(())
    }
}
