//! Progress of a rollout on standard error: one line that is drawn again on a terminal, plain lines elsewhere.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use console::{Term, measure_text_width, truncate_str};
use fairlead_api::delivery::{Rollout, RolloutState, WaveState, WaveStatus};
use tokio::time::Instant;

use crate::output::{self, streams};

/// Characters of the bar.
const BAR_CHARS: u32 = 12;
/// Shortest pause between two plain lines of the same wave.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Width of a terminal that does not report one.
const USUAL_WIDTH: usize = 80;

/// Progress that was shown so far.
pub(super) struct Progress {
    started: Instant,
    is_terminal: bool,
    /// State that the last plain line was about, and its time.
    last: Option<(String, Instant)>,
    last_text: String,
}

impl Progress {
    pub(super) fn new() -> Self {
        Progress {
            started: Instant::now(),
            is_terminal: !streams::are_captured() && io::stderr().is_terminal(),
            last: None,
            last_text: String::new(),
        }
    }

    /// Shows a rollout, if it differs from the last one.
    pub(super) fn show(&mut self, rollout: &Rollout) {
        let text = line(rollout);
        if self.is_terminal {
            let seconds = self.started.elapsed().as_secs();
            let (minutes, seconds) = (seconds / 60, seconds % 60);
            let bar = bar(rollout);
            draw(&format!("{text}   [{bar}] {minutes}m{seconds:02}s"));
            return;
        }
        let phase = phase(rollout);
        let now = Instant::now();
        let is_due = match &self.last {
            Some((known, at)) => *known != phase || now - *at >= LINE_INTERVAL,
            None => true,
        };
        if is_due && text != self.last_text {
            output::note(&text);
            self.last_text = text;
            self.last = Some((phase, now));
        }
    }

    /// Ends the line of a terminal.
    pub(super) fn end(&self) {
        if self.is_terminal {
            // Progress that cannot be shown is no failure of the rollout.
            let _ = writeln!(io::stderr());
        }
    }
}

/// Replaces the last line of the terminal.
fn draw(text: &str) {
    let terminal = Term::stderr();
    let width = terminal
        .size_checked()
        .map_or(USUAL_WIDTH, |(_, width)| width.into());
    let text = truncate_str(text, width.saturating_sub(1), "…");
    let blank = width.saturating_sub(1 + measure_text_width(&text));
    let mut stderr = io::stderr();
    // Progress that cannot be shown is no failure of the rollout.
    let _ = write!(stderr, "\r{text}{:blank$}", "").and_then(|()| stderr.flush());
}

/// States whose change is worth a line at once.
fn phase(rollout: &Rollout) -> String {
    let waves = rollout.waves.iter().map(|it| format!("{:?}", it.state));
    format!(
        "{:?} {}",
        rollout.state,
        waves.collect::<Vec<_>>().join(" ")
    )
}

/// Waves that have started, each with its numbers.
pub(super) fn line(rollout: &Rollout) -> String {
    let started = rollout
        .waves
        .iter()
        .filter(|it| it.state != WaveState::Pending);
    let waves: Vec<_> = started.map(wave).collect();
    let waiting = rollout.waves.len() - waves.len();
    let mut text = match waves.is_empty() {
        true => "no wave has started".to_owned(),
        false => waves.join("   "),
    };
    if waiting > 0 && !waves.is_empty() {
        text += &format!("   {waiting} more to start");
    }
    match (rollout.state, &rollout.reason) {
        (RolloutState::Running, Some(reason)) => format!("{text}   {}", output::plain(reason)),
        (RolloutState::Running | RolloutState::Done, _) => text,
        (state, _) => format!("{state:?}: {text}"),
    }
}

fn wave(wave: &WaveStatus) -> String {
    let WaveStatus {
        name,
        clusters,
        ready,
        failed,
        offline,
        ..
    } = wave;
    let mut text = format!("{name} {ready}/{clusters} Ready");
    let left = clusters.saturating_sub(ready + failed + offline);
    for (count, what) in [(*failed, "failed"), (left, "to go"), (*offline, "offline")] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    if wave.state == WaveState::Soaking {
        text += ", soaking";
    }
    text
}

/// Share of the clusters that are ready, failed or offline.
fn bar(rollout: &Rollout) -> String {
    let sum = |of: fn(&WaveStatus) -> u32| rollout.waves.iter().map(of).sum::<u32>();
    let all = sum(|it| it.clusters);
    let ended = sum(|it| it.ready + it.failed + it.offline).min(all);
    let filled = (ended * BAR_CHARS).checked_div(all).unwrap_or(BAR_CHARS);
    let (filled, empty) = (filled as usize, (BAR_CHARS - filled) as usize);
    format!("{}{}", "#".repeat(filled), "-".repeat(empty))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::delivery::follow::tests::{rollout, waves};

    #[test]
    fn line_has_the_numbers_of_each_started_wave() {
        let running = rollout("Running", &waves(3));
        assert_eq!(
            line(&running),
            "canary 1/1 Ready   rest 3/9 Ready, 1 failed, 3 to go, 2 offline"
        );
        assert_eq!(bar(&running), "########----");
        let reason = Some("wave rest waits: 1x \"no quota\"\u{1b}".to_owned());
        let waiting = Rollout { reason, ..running };
        assert!(line(&waiting).ends_with("2 offline   wave rest waits: 1x \"no quota\" "));
        let halted = rollout("Halted", &waves(6));
        assert_eq!(
            line(&halted),
            "Halted: canary 1/1 Ready   rest 6/9 Ready, 1 failed, 2 offline"
        );
        assert_eq!(bar(&halted), "############");
        let empty = rollout("Running", &json!([]));
        assert_eq!(line(&empty), "no wave has started");
        assert_eq!(bar(&empty), "############");
    }

    #[tokio::test(start_paused = true)]
    async fn plain_lines_appear_at_each_phase_and_every_ten_seconds() {
        streams::capture();
        let mut progress = Progress::new();
        for (seconds, ready, state) in [
            (0, 0, "Running"),
            (1, 1, "Running"),
            (10, 2, "Running"),
            (0, 3, "Paused"),
            (30, 3, "Paused"),
        ] {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            progress.show(&rollout(state, &waves(ready)));
        }
        progress.end();
        let shown = streams::take().stderr;
        let ready: Vec<_> = shown
            .lines()
            .map(|it| it.split("rest ").nth(1).unwrap().get(..3).unwrap())
            .collect();
        assert_eq!(ready, ["0/9", "2/9", "3/9"], "{shown}");
    }
}
