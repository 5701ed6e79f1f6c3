//! Running calls at two hubs whose access ends by an act at one of them: each ends within seconds, with the reason.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use fairlead_e2e::{
    CALL_KINDS, Cluster, Hub, Joining, Kubectl, RunningCalls, Site,
    dex::{Dex, Person},
    eventually,
};
use tokio::{task::JoinSet, time::Instant};

use crate::{HubPair, STEP_DEADLINE, get, site_at};

const JANE: &str = "corp.jane@corp.example";

/// Two hubs, each with a session of a cluster of its own.
struct RevokedWorld {
    // Its fields are dropped in this order.
    _sites: [Site; 2],
    pair: HubPair,
    joinings: [Joining; 2],
    cluster: Cluster,
    pods: Vec<String>,
    dex: Dex,
}

/// Kubectl of one person at both hubs.
struct SignedIn {
    kubectl: [Kubectl; 2],
    // Home folders with the tokens.
    _homes: Vec<Person>,
}

impl RevokedWorld {
    async fn start() -> anyhow::Result<Self> {
        let dex = Dex::start(&[]).await?;
        let issuers = dex.issuers_file()?;
        let flags = ["--issuers", &issuers];
        let (cluster, pair) = tokio::try_join!(Cluster::start(), HubPair::start(&flags))?;
        pair.two.log_in_with(&pair.token).await?;
        let (at_one, at_two) = (
            pair.one.create_cluster("at-one").await?,
            pair.two.create_cluster("at-two").await?,
        );
        let sites = [
            site_at(&pair.one, &cluster, &at_one).await?,
            site_at(&pair.two, &cluster, &at_two).await?,
        ];
        let pods = cluster.kubectl();
        let pods = pods.args(["get", "pods", "-l", "app=demo", "-o", "name"]);
        let pods = pods.run().await?.success()?;
        Ok(Self {
            _sites: sites,
            pair,
            joinings: [at_one, at_two],
            cluster,
            pods: pods
                .lines()
                .map(|it| it.trim_start_matches("pod/").to_owned())
                .collect(),
            dex,
        })
    }

    fn hubs(&self) -> [(&Hub, &'static str); 2] {
        [(&self.pair.one, "at-one"), (&self.pair.two, "at-two")]
    }

    /// Starts calls of this caller at both hubs.
    async fn calls(
        &self,
        caller: &str,
        kubectl: &[Kubectl; 2],
    ) -> anyhow::Result<Vec<RunningCalls>> {
        let mut calls = Vec::new();
        for ((_, name), kubectl) in self.hubs().into_iter().zip(kubectl) {
            let label = format!("{caller} {name}");
            let pods = [self.pods[0].as_str(), self.pods[1].as_str()];
            calls.push(RunningCalls::start(label, || kubectl.clone(), pods).await?);
        }
        // Each hub lists the requests of both.
        let path = format!("/v1/requests?caller={caller}");
        for (asked, _) in self.hubs() {
            eventually(STEP_DEADLINE, "eight requests in the list", async || {
                let (_, listed) = get(asked, &self.pair.token, &path).await.ok()?;
                let items = listed["items"].as_array()?;
                let is_there = |hub: &Hub, kind: &str| {
                    let url = hub.ready().url.as_str();
                    let mut items = items.iter();
                    items.any(|it| it["hub"] == url && it["kind"] == kind)
                };
                let complete = |kind: &&str| self.hubs().iter().all(|(hub, _)| is_there(hub, kind));
                (listed["incompleteHubs"].is_null() && CALL_KINDS.iter().all(complete))
                    .then_some(())
            })
            .await?;
        }
        Ok(calls)
    }

    /// Jane signs in at both hubs, as one person on two machines.
    async fn sign_in(&self) -> anyhow::Result<SignedIn> {
        let (mut kubectl, mut homes) = (Vec::new(), Vec::new());
        for (hub, name) in self.hubs() {
            let jane = Person::new(hub)?;
            let said = jane.sign_in(&self.dex, hub, "jane").await?;
            ensure!(said.contains(JANE), "{said}");
            kubectl.push(jane.kubectl(&self.cluster, name).await?);
            homes.push(jane);
        }
        Ok(SignedIn {
            kubectl: kubectl.try_into().ok().context("two hubs")?,
            _homes: homes,
        })
    }
}

async fn all_end(
    calls: Vec<RunningCalls>,
    act: &str,
    since: Instant,
    reason: &str,
) -> anyhow::Result<()> {
    let mut longest = Duration::ZERO;
    let mut failed = Vec::new();
    let ended: JoinSet<_> = calls
        .into_iter()
        .map(|calls| {
            let reason = reason.to_owned();
            async move { calls.all_end(since, &reason).await }
        })
        .collect();
    for ended in ended.join_all().await {
        match ended {
            Ok(time) => longest = longest.max(time),
            Err(error) => failed.push(error.to_string()),
        }
    }
    ensure!(failed.is_empty(), "{act}:\n{}", failed.join("\n"));
    eprintln!("{act}: the last call ended after {longest:?}");
    Ok(())
}

/// Waits for the end of the current second of the wall clock: times of issue have whole seconds.
async fn next_second() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let into = Duration::from_nanos(now.map_or(0, |it| it.subsec_nanos()).into());
    tokio::time::sleep(Duration::from_secs(1).saturating_sub(into)).await;
}

#[tokio::test]
async fn running_calls_end_at_both_hubs_with_the_reason() -> anyhow::Result<()> {
    let mut world = RevokedWorld::start().await?;
    let (one, two) = (&world.pair.one, &world.pair.two);

    // A token that is deleted at one hub.
    let create = ["token", "create", "robot", "--role", "admin", "-o"];
    let create = create.into_iter().chain(["jsonpath={.token}"]);
    let token = one.cli(create).await?.success()?;
    let token = format!("--token={}", token.trim());
    let robot = [
        one.kubectl(&world.cluster, "at-one").await?.args([&token]),
        two.kubectl(&world.cluster, "at-two").await?.args([&token]),
    ];
    let calls = world.calls("robot", &robot).await?;
    let since = Instant::now();
    let delete = ["token", "delete", "robot", "--yes"];
    one.cli(delete).await?.success()?;
    all_end(calls, "token deleted", since, "FL-1205").await?;

    // A group that is removed: a hub notices with the next token of the person.
    let jane = world.sign_in().await?;
    let calls = world.calls(JANE, &jane.kubectl).await?;
    world.dex.set_people(&[])?;
    let since = Instant::now();
    let refused = Person::new(two)?;
    let refused = refused.sign_in(&world.dex, two, "jane").await?;
    ensure!(refused.contains("FL-1106"), "{refused}");
    all_end(calls, "group removed", since, "FL-1205").await?;
    // The older token is void, too.
    let older = jane.kubectl[0]
        .clone()
        .args(["get", "namespaces"])
        .run()
        .await?;
    ensure!(!older.status.success(), "{older:?}");

    // A locked user. Of two tokens of one second the weaker one counts, so the next one is of another second.
    world.dex.set_people(&["platform"])?;
    next_second().await;
    let jane = world.sign_in().await?;
    let calls = world.calls(JANE, &jane.kubectl).await?;
    let since = Instant::now();
    let lock = ["lock", "user", JANE, "--reason", "laptop stolen"];
    two.cli(lock).await?.success()?;
    all_end(calls, "user locked", since, "FL-1203").await?;
    one.cli(["unlock", "user", JANE]).await?.success()?;

    // Requests that an admin ends at one hub.
    let calls = world.calls(JANE, &jane.kubectl).await?;
    let since = Instant::now();
    let kill = ["sessions", "kill", "--caller", JANE, "--reason"];
    let killed = one
        .cli(kill.into_iter().chain(["maintenance", "--yes"]))
        .await?
        .success()?;
    ensure!(
        killed.contains(" at this hub, ") && killed.contains(" at others"),
        "{killed}"
    );
    all_end(calls, "requests killed", since, "maintenance").await?;
    let unknown = ["sessions", "kill", "0123456789abcdef", "--yes"];
    ensure!(two.cli(unknown).await?.status.code() == Some(4));

    // Revoked identities of both clusters, each at the hub without its session.
    let mut calls = world.calls(JANE, &jane.kubectl).await?;
    // The same at the hub without the session: the other hub gives it the reason.
    let pods = [world.pods[0].as_str(), world.pods[1].as_str()];
    let at_one = two.kubectl(&world.cluster, "at-one").await?;
    calls.push(RunningCalls::start("forwarded", || at_one.clone(), pods).await?);
    let since = Instant::now();
    for (hub, joining) in [(two, &world.joinings[0]), (one, &world.joinings[1])] {
        let revoke = ["cluster", "identity", "revoke", &joining.id, "--yes"];
        hub.cli(revoke).await?.success()?;
    }
    all_end(calls, "clusters revoked", since, "FL-").await?;

    // A hub that does not answer is named.
    let gone = two.ready().url.clone();
    world.pair.two.process.kill_9()?;
    let list = world.pair.one.cli(["sessions", "list"]).await?;
    let said = format!("Requests at {gone} are missing");
    ensure!(list.stderr.contains(&said), "{list:?}");
    Ok(())
}

#[tokio::test]
async fn role_for_a_time_is_approved_at_the_other_hub_and_ends_from_there() -> anyhow::Result<()> {
    let world = RevokedWorld::start().await?;
    let (one, two) = (&world.pair.one, &world.pair.two);
    world.dex.set_groups(&["readers"], &["platform"])?;
    let (jane, guest) = (Person::new(one)?, Person::new(two)?);
    let said = jane.sign_in(&world.dex, one, "jane").await?;
    ensure!(said.contains(JANE), "{said}");
    let said = guest.sign_in(&world.dex, two, "guest").await?;
    ensure!(said.contains("corp.guest@"), "{said}");
    let kubectl = jane.kubectl(&world.cluster, "at-one").await?;
    let pods = [world.pods[0].as_str(), world.pods[1].as_str()];
    let exec = ["exec", pods[0], "--", "echo", "hello"];
    let refused = kubectl.clone().args(exec).run().await?;
    ensure!(refused.stderr.contains("forbidden"), "{refused:?}");

    let request = ["access", "request", "--cluster", "at-one", "--role"];
    let request = [&request[..], &["admin", "--for", "1h", "--reason", "x"]].concat();
    let request = [&request[..], &["-o", "jsonpath={.id}"]].concat();
    let id = jane.run(&request).await?.success()?;
    let id = id.trim();
    let own = jane.run(&["access", "approve", id]).await?;
    ensure!(!own.status.success(), "{own:?}");
    eventually(STEP_DEADLINE, "the request at the other hub", async || {
        let approved = guest.run(&["access", "approve", id]).await.ok()?;
        approved.success().ok()
    })
    .await?;
    let approved = Instant::now();
    eventually(STEP_DEADLINE, "the role at the first hub", async || {
        let allowed = kubectl.clone().args(exec).run().await.ok()?;
        allowed.success().ok()
    })
    .await?;
    eprintln!(
        "the role counts at the other hub after {:?}",
        approved.elapsed()
    );
    let calls = RunningCalls::start("for a time", || kubectl.clone(), pods).await?;
    let since = Instant::now();
    let revoke = ["access", "revoke", id, "--comment", "done"];
    guest.run(&revoke).await?.success()?;
    all_end(vec![calls], "role revoked", since, "FL-1205").await?;
    let refused = kubectl.clone().args(exec).run().await?;
    ensure!(refused.stderr.contains("forbidden"), "{refused:?}");
    Ok(())
}
