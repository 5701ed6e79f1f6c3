//! Wrong bootstrap tokens: their cost for the hub, and their effect on other callers.
//!
//! Normal requests alone, wrong tokens alone and both together are measured in turns, so that a slow phase of
//! the machine affects all three.

use std::time::Duration;

use tokio::{task::JoinSet, time::Instant};

use crate::{
    hub::{
        client::{BenchCaller, HubRequest},
        figures::Figures,
        measure::{MeasuredCalls, ask_until, measure},
        process::Hub,
    },
    stats::Latencies,
};

/// Connections that send wrong tokens without pause.
const GUESSER_COUNT: usize = 16;
const TURN_COUNT: u32 = 3;

/// Requests during some time, and the hub's processor time meanwhile.
#[derive(Default)]
struct Sum {
    gets: Latencies,
    guesses: Latencies,
    micros: u64,
}

impl Sum {
    fn asked(&mut self, it: &MeasuredCalls) {
        self.gets.merge(&it.latencies);
        let all = it.cpu_ms * 1000.0 * it.latencies.count() as f64;
        self.micros += all as u64;
    }

    fn micros_per(&self, count: u64) -> f64 {
        self.micros as f64 / count.max(1) as f64
    }
}

/// Measures the cost of wrong tokens and their effect on others.
pub(super) async fn wrong<Next>(
    hub: &Hub,
    one: Next,
    time: Duration,
    to: &mut Figures,
) -> anyhow::Result<()>
where
    Next: Fn(usize) -> (HubRequest, String) + Clone + Send + 'static,
{
    let [mut alone, mut guesses, mut beside] = [Sum::default(), Sum::default(), Sum::default()];
    let mut guessers = Guessers::connect(hub).await?;
    let mut getter = hub.caller()?;
    let turn = time / TURN_COUNT;
    for _ in 0..TURN_COUNT {
        alone.asked(&measure(hub, 1, turn, one.clone()).await?);
        let before = hub.micros()?;
        guesses
            .guesses
            .merge(&guessers.until(Instant::now() + turn).await?);
        guesses.micros += hub.micros()? - before;
        let (request, token) = one(0);
        getter.good(&request, &token).await?;
        let (before, end) = (hub.micros()?, Instant::now() + turn);
        let (got, guessed) = tokio::join!(
            ask_until(&mut getter, end, 0, 1, one.clone()),
            guessers.until(end)
        );
        beside.gets.merge(&got?.0);
        beside.guesses.merge(&guessed?);
        beside.micros += hub.micros()? - before;
    }
    tell(&alone, &guesses, &beside, time, to);
    Ok(())
}

fn tell(alone: &Sum, guesses: &Sum, beside: &Sum, time: Duration, to: &mut Figures) {
    let get = alone.micros_per(alone.gets.count());
    let guess = guesses.micros_per(guesses.guesses.count());
    to.add("wrong bootstrap token: CPU", guess / 1000.0, "ms", None);
    to.add(
        "wrong bootstrap token: CPU, times that of get one",
        guess / get,
        "",
        None,
    );
    let rate = guesses.guesses.count() as f64 / time.as_secs_f64();
    to.add("wrong bootstrap token: a second", rate, "", None);
    // The wrong tokens' share of the processor time is their cost alone times their number.
    let theirs = guess * beside.guesses.count() as f64;
    let gets = (beside.micros as f64 - theirs) / beside.gets.count().max(1) as f64;
    to.add(
        "get one beside wrong tokens: CPU, times that alone",
        gets / get,
        "",
        None,
    );
    let ms = |of: &Latencies, share| of.micros(share) / 1000.0;
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let (with, without) = (ms(&beside.gets, share), ms(&alone.gets, share));
        to.add(
            format!("get one beside wrong tokens: {name}"),
            with,
            "ms",
            None,
        );
        to.add(format!("get one alone: {name}"), without, "ms", None);
    }
    let theirs = ms(&beside.guesses, 0.99);
    to.add("wrong tokens beside it: p99", theirs, "ms", None);
}

/// Callers with wrong tokens, each on its own connection.
struct Guessers {
    callers: Vec<BenchCaller>,
    /// Number of tokens sent so far; none is sent twice.
    tried: usize,
}

impl Guessers {
    async fn connect(hub: &Hub) -> anyhow::Result<Self> {
        let callers = (0..GUESSER_COUNT).map(|_| hub.caller());
        let mut guessers = Guessers {
            callers: callers.collect::<Result<_, _>>()?,
            tried: 0,
        };
        for caller in &mut guessers.callers {
            guess(caller, guessers.tried).await?;
            guessers.tried += 1;
        }
        Ok(guessers)
    }

    async fn until(&mut self, end: Instant) -> anyhow::Result<Latencies> {
        let mut running = JoinSet::new();
        for (at, mut caller) in self.callers.drain(..).enumerate() {
            let mut number = self.tried + at;
            running.spawn(async move {
                let mut latencies = Latencies::default();
                while Instant::now() < end {
                    latencies.record(guess(&mut caller, number).await?);
                    number += GUESSER_COUNT;
                }
                anyhow::Ok((caller, latencies, number))
            });
        }
        let mut all = Latencies::default();
        while let Some(done) = running.join_next().await {
            let (caller, latencies, number) = done??;
            all.merge(&latencies);
            self.tried = self.tried.max(number);
            self.callers.push(caller);
        }
        Ok(all)
    }
}

async fn guess(caller: &mut BenchCaller, number: usize) -> anyhow::Result<Duration> {
    let wrong = format!("{number:0>43}");
    let request = HubRequest::get(format!("/install/steward.json?token={wrong}"));
    let answer = caller.send(&request, None).await?;
    anyhow::ensure!(
        matches!(answer.status.as_u16(), 401 | 429),
        "a wrong token was answered by {}",
        answer.status
    );
    Ok(answer.took)
}
