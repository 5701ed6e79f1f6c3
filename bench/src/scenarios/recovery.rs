//! Recovery: time until the next answer after a part dies or the path breaks, and the end of a stream that
//! was running. All peers are measured in parallel, because they mostly wait.

use std::time::Duration;

use anyhow::{Context as _, bail};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::{
    task::JoinSet,
    time::{self, Instant},
};

use super::{Metric, Sample, Title, goal::Goal};
use crate::{
    load::Target,
    peers::{Bed, CUT, Peer, SILENCE},
    way::Legs,
};

/// Deadline of an answer after the break.
const RECOVERY_DEADLINE: Duration = Duration::from_secs(75);
/// Interval of the requests, each on a new connection.
const REQUEST_INTERVAL: Duration = Duration::from_millis(50);
/// Deadline of each request.
const REQUEST_DEADLINE: Duration = Duration::from_secs(25);
/// Most requests in flight.
const MAX_IN_FLIGHT: usize = 128;
/// Delay between the break and the first request. A request that is faster than the break proves nothing.
const BREAK_DELAY: Duration = Duration::from_millis(20);
/// Deadline for a stream to continue after the next answer.
const STREAM_DEADLINE: Duration = Duration::from_secs(5);
const SETTLE_DEADLINE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Break {
    /// The hub is killed and restarted after this time.
    Hub(Duration),
    /// The agent is killed and restarted at once.
    Agent,
    /// Every connection between agent and hub is reset.
    Cut,
    /// Every connection falls silent without being closed. New ones work.
    Silence,
}

impl Break {
    fn goals(self) -> Vec<Goal> {
        let stream = Goal::Least {
            figure: 1,
            value: 1.0,
        };
        let mut goals = vec![Goal::First];
        match self {
            Self::Hub(_) => goals.push(Goal::most(0, 1.0)),
            Self::Agent => {}
            Self::Cut => goals.push(stream),
            Self::Silence => goals.extend([Goal::most(0, 11.0), stream]),
        }
        goals
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Recovery {
    pub(crate) title: Title,
    what: Break,
}

pub(crate) fn all() -> Vec<Recovery> {
    let hub = |seconds| Break::Hub(Duration::from_secs(seconds));
    [
        (
            "recover-agent",
            Break::Agent,
            "the agent is killed and started again",
        ),
        (
            "recover-cut",
            Break::Cut,
            "every connection between agent and hub is reset",
        ),
        (
            "recover-hub-2s",
            hub(2),
            "the hub is killed for 2 s; counted from when it is started again",
        ),
        (
            "recover-hub-30s",
            hub(30),
            "the hub is killed for 30 s; counted from when it is started again",
        ),
        (
            "recover-silent",
            Break::Silence,
            "the connections between agent and hub fall silent, new ones would work",
        ),
    ]
    .map(|(name, what, about)| Recovery {
        title: Title {
            name: name.to_owned(),
            about: format!(
                "{about}: time to the next answer, and whether a running stream goes on"
            ),
            metrics: vec![
                Metric::lower("next answer after", "s"),
                Metric::higher("streams that go on", "of 1"),
            ],
            goals: what.goals(),
        },
        what,
    })
    .into()
}

impl Recovery {
    /// `true` if it mostly waits. Such a break runs with peers of its own, in parallel to the others.
    pub(crate) fn is_slow(&self) -> bool {
        self.what == Break::Silence
    }

    /// Approximate duration in seconds.
    pub(crate) fn takes(&self) -> f64 {
        match self.what {
            Break::Hub(outage) => outage.as_secs_f64() + 20.0,
            Break::Agent | Break::Cut => 10.0,
            Break::Silence => RECOVERY_DEADLINE.as_secs_f64() + 5.0,
        }
    }

    pub(crate) async fn measure(&self, bed: &Bed<'_>, peer: &mut Peer) -> anyhow::Result<Sample> {
        let way = peer.way(Legs::Tls).context("there is no way")?;
        let (asked, ticks) = (way.target("/readyz")?, way.target("/ticks")?);
        settled(&asked).await?;
        let stream = LineStream::open(&ticks).await?;

        let begin = self.happen(bed, peer).await?;
        time::sleep(BREAK_DELAY).await;
        let back = next_answer(asked, begin).await;
        let fate = stream.fate().await;
        let mut sample = Sample::of([f64::from(u8::from(fate == StreamFate::WentOn))]);
        sample
            .figures
            .insert(0, back.map(|after| after.as_secs_f64()));
        sample.remark = match (back, &fate) {
            (None, _) => Some(format!("no answer within {RECOVERY_DEADLINE:?}")),
            (Some(_), StreamFate::WentOn) => None,
            (Some(_), broken) => Some(format!("the running stream {}", broken.said())),
        };
        Ok(sample)
    }

    async fn happen(&self, bed: &Bed<'_>, peer: &mut Peer) -> anyhow::Result<Instant> {
        match self.what {
            Break::Hub(outage) => {
                let hub = peer.hub.as_mut().context("there is no hub")?;
                hub.kill();
                time::sleep(outage).await;
                let begin = Instant::now();
                hub.start(bed.launcher)?;
                Ok(begin)
            }
            Break::Agent => {
                let agent = peer.agent.as_mut().context("there is no agent")?;
                agent.kill();
                let begin = Instant::now();
                agent.start(bed.launcher)?;
                Ok(begin)
            }
            Break::Cut | Break::Silence => {
                let relay = peer.relay.as_mut().context("there is no relay")?;
                relay.signal(if self.what == Break::Cut {
                    CUT
                } else {
                    SILENCE
                })?;
                Ok(Instant::now())
            }
        }
    }
}

/// Waits for ten successful requests in a row.
async fn settled(target: &Target) -> anyhow::Result<()> {
    let mut good = 0;
    let answers = time::timeout(SETTLE_DEADLINE, async {
        while good < 10 {
            let answer = time::timeout(REQUEST_DEADLINE, target.once()).await;
            good = if matches!(answer, Ok(Ok(_))) {
                good + 1
            } else {
                0
            };
            time::sleep(REQUEST_INTERVAL).await;
        }
    });
    match answers.await {
        Ok(()) => Ok(()),
        Err(_) => bail!("it did not answer before anything was broken"),
    }
}

/// Time from `begin` to the first answer; `None` if there is none within the deadline.
async fn next_answer(target: Target, begin: Instant) -> Option<Duration> {
    let target = std::sync::Arc::new(target);
    let mut asking = JoinSet::new();
    let mut clock = time::interval(REQUEST_INTERVAL);
    let end = begin + RECOVERY_DEADLINE;
    loop {
        tokio::select! {
            _ = clock.tick(), if asking.len() < MAX_IN_FLIGHT => {
                let target = target.clone();
                asking.spawn(async move {
                    let answer = time::timeout(REQUEST_DEADLINE, target.once()).await;
                    matches!(answer, Ok(Ok(_))).then(Instant::now)
                });
            }
            Some(answer) = asking.join_next() => {
                if let Ok(Some(answered)) = answer {
                    return Some(answered - begin);
                }
            }
            () = time::sleep_until(end) => return None,
        }
    }
}

/// Reads numbered lines, from before the break on.
struct LineStream {
    reading: JoinSet<StreamFate>,
    lines: tokio::sync::watch::Receiver<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum StreamFate {
    WentOn,
    Broken,
    /// The stream ended as if it were complete, so that its client does not notice the loss.
    EndedCleanly,
    LostLines,
    Hangs,
}

impl StreamFate {
    fn said(&self) -> &'static str {
        match self {
            Self::WentOn => "goes on",
            Self::Broken => "is broken off with an error",
            Self::EndedCleanly => "ends as if it were complete",
            Self::LostLines => "loses lines",
            Self::Hangs => "hangs: no line, no error",
        }
    }
}

impl LineStream {
    async fn open(target: &Target) -> anyhow::Result<Self> {
        let body = time::timeout(REQUEST_DEADLINE, target.open()).await;
        let body = body.context("the stream does not begin")??;
        let (said, mut lines) = tokio::sync::watch::channel(0);
        let mut reading = JoinSet::new();
        reading.spawn(read(body, said));
        let first = time::timeout(REQUEST_DEADLINE, lines.wait_for(|count| *count > 0)).await;
        first.context("the stream has no lines")??;
        Ok(Self { reading, lines })
    }

    /// State of the stream after the next answer.
    async fn fate(mut self) -> StreamFate {
        let seen = *self.lines.borrow_and_update();
        tokio::select! {
            Some(ended) = self.reading.join_next() => ended.unwrap_or(StreamFate::Broken),
            // More than one line, since some may have been in flight when the path broke.
            Ok(_) = self.lines.wait_for(|count| *count > seen + 10) => StreamFate::WentOn,
            () = time::sleep(STREAM_DEADLINE) => StreamFate::Hangs,
        }
    }
}

async fn read(mut body: Incoming, said: tokio::sync::watch::Sender<u64>) -> StreamFate {
    let mut rest = Vec::new();
    let mut next = 0_u64;
    loop {
        let piece = match body.frame().await {
            None => return StreamFate::EndedCleanly,
            Some(Err(_)) => return StreamFate::Broken,
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
        };
        rest.extend_from_slice(&piece);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            if String::from_utf8_lossy(&line).trim_end() != next.to_string() {
                return StreamFate::LostLines;
            }
            next += 1;
        }
        said.send_replace(next);
    }
}
