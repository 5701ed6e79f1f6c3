//! The terminal of `fairlead top`: raw mode on an alternate screen, restored on every way out.

use std::{
    io::{self, Read, Write},
    time::Duration,
};

use console::Term;
use fairlead_api::{
    Code, Failure,
    resources::{Activity, ClusterState},
};
use fairlead_client::HubClient;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::sleep,
};

use super::{
    cells, columns,
    keys::{Key, View, parse},
    rates::rates,
};
use crate::output::{self, OutputFormat};

const ALTERNATE_SCREEN: &str = "\x1b[?1049h\x1b[?25l";
const OWN_SCREEN: &str = "\x1b[?25h\x1b[?1049l";
/// Keys that wait for the next redraw.
const MAX_KEYS: usize = 64;
/// Time until the first rates.
const FIRST_INTERVAL: Duration = Duration::from_secs(1);

/// Shows the clusters until a key or a signal ends it.
pub(super) async fn run(hub: &HubClient, path: &str, interval: Duration) -> Result<(), Failure> {
    let cannot = |error: io::Error| {
        let cause = format_args!("the terminal cannot be used: {error}");
        let next = "Use `--once` for one table.";
        Failure::because(Code::Usage, cause).next(next)
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(cannot)?;
    let mut resized = signal(SignalKind::window_change()).map_err(cannot)?;
    let _raw = RawTerminal::begin().map_err(cannot)?;
    let mut keys = keyboard();
    let mut shown = Shown::new(hub.url().to_string());
    let read = |after: Duration| {
        Box::pin(async move {
            sleep(after).await;
            let activity = hub.get::<Activity>(path).await;
            activity.map_err(Failure::from)
        })
    };
    let mut reading = read(Duration::ZERO);
    loop {
        shown.draw().map_err(cannot)?;
        tokio::select! {
            answer = &mut reading => {
                let is_first = shown.now.is_none();
                shown.take(answer);
                reading = read(if is_first { interval.min(FIRST_INTERVAL) } else { interval });
            }
            key = keys.recv() => match key {
                Some(key) if !shown.view.press(key) => {}
                _ => return Ok(()),
            },
            _ = resized.recv() => {}
            _ = terminate.recv() => return Ok(()),
            _ = hangup.recv() => return Ok(()),
        }
    }
}

/// Keys of standard input. A thread of its own: a blocking read would keep the runtime from shutting down.
fn keyboard() -> mpsc::Receiver<Key> {
    let (send, keys) = mpsc::channel(MAX_KEYS);
    std::thread::spawn(move || {
        let mut chunk = [0; 64];
        while let Ok(count @ 1..) = io::stdin().read(&mut chunk) {
            for key in parse(chunk.get(..count).unwrap_or_default()) {
                if send.blocking_send(key).is_err() {
                    return;
                }
            }
        }
    });
    keys
}

/// Last answers of the hub, and their view.
struct Shown {
    hub: String,
    before: Option<Activity>,
    now: Option<Activity>,
    failure: Option<Failure>,
    view: View,
}

impl Shown {
    fn new(hub: String) -> Self {
        Shown {
            hub,
            before: None,
            now: None,
            failure: None,
            view: View::default(),
        }
    }

    fn take(&mut self, answer: Result<Activity, Failure>) {
        match answer {
            Ok(activity) => {
                self.before = self.now.replace(activity);
                self.failure = None;
            }
            Err(failure) => self.failure = Some(failure),
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let (height, width) = Term::stdout().size();
        let text = self.render(usize::from(height), usize::from(width));
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// The screen, without a line break at its end.
    fn render(&mut self, height: usize, width: usize) -> String {
        let mut rows = match &self.now {
            Some(now) => rates(self.before.as_ref(), now),
            None => Vec::new(),
        };
        let total = rows.len();
        self.view.arrange(&mut rows);
        // Two lines above, one of the table's header.
        let space = height.saturating_sub(3).max(1);
        self.view.skipped = self.view.skipped.min(rows.len().saturating_sub(space));
        let matching = rows.len();
        let page = rows.iter().skip(self.view.skipped).take(space);
        let columns = columns(Some((self.view.sort, self.view.reversed)));
        let table = output::table(&OutputFormat::Table, &columns, page.map(cells));
        let mut lines = vec![self.title(total, matching), self.prompt()];
        lines.extend(table.lines().map(str::to_owned));
        let cut = |line: String| console::truncate_str(&line, width, "").into_owned();
        let lines = lines.into_iter().map(cut).take(height.max(1));
        let lines = lines
            .map(|line| format!("{line}\x1b[K"))
            .collect::<Vec<_>>();
        format!("\x1b[H{}\x1b[J", lines.join("\r\n"))
    }

    fn title(&self, total: usize, matching: usize) -> String {
        let Some(now) = &self.now else {
            return format!("{}: waiting for the first answer", self.hub);
        };
        let connected = now.clusters.iter();
        let connected = connected
            .filter(|it| it.state == ClusterState::Connected)
            .count();
        let shown = match matching == total {
            true => String::new(),
            false => format!(", {matching} shown"),
        };
        let missing: Vec<String> = now
            .incomplete_hubs
            .iter()
            .map(ToString::to_string)
            .collect();
        let missing = match missing.is_empty() {
            true => String::new(),
            false => format!(", no answer of {}", missing.join(", ")),
        };
        format!(
            "{}: {total} clusters, {connected} connected{shown}{missing}",
            self.hub
        )
    }

    fn prompt(&self) -> String {
        if let Some(failure) = &self.failure {
            return output::plain(&format!("{}: {}", failure.code, failure.cause));
        }
        match (self.view.is_typing, self.view.filter.as_str()) {
            (true, filter) => format!("filter: {filter}_"),
            (false, "") => "sort: n s v p r i o   filter: /   quit: q".to_owned(),
            (false, filter) => format!("filter: {filter}   (Escape removes it)"),
        }
    }
}

/// The terminal on standard input without echo and line mode, on the alternate screen, until this is dropped.
struct RawTerminal {
    before: Termios,
}

impl RawTerminal {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
        let terminal = RawTerminal { before };
        let mut out = io::stdout().lock();
        out.write_all(ALTERNATE_SCREEN.as_bytes())?;
        out.flush()?;
        Ok(terminal)
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // Errors mean that the terminal is gone.
        let mut out = io::stdout().lock();
        let _ = out
            .write_all(OWN_SCREEN.as_bytes())
            .and_then(|()| out.flush());
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::rates::tests::activity;

    #[test]
    fn screen_has_as_many_lines_as_the_terminal() {
        let mut shown = Shown::new("https://hub.test".to_owned());
        assert!(shown.render(24, 80).contains("waiting"));
        let names: Vec<String> = (0..50).map(|n| format!("c-{n:02}")).collect();
        let clusters: Vec<_> = names
            .iter()
            .map(|it| (it.as_str(), "Connected", Some(1)))
            .collect();
        shown.take(Ok(activity(0, &clusters)));
        let screen = shown.render(10, 80);
        assert_eq!(screen.lines().count(), 10, "{screen}");
        assert!(screen.contains("50 clusters, 50 connected"), "{screen}");
        assert!(
            screen.contains("c-06") && !screen.contains("c-07"),
            "{screen}"
        );
        for _ in 0..1000 {
            shown.view.press(Key::Down);
        }
        let last = shown.render(10, 80);
        assert!(last.contains("c-49") && last.contains("c-43"), "{last}");
        shown.view.press(Key::Up);
        assert!(!shown.render(10, 80).contains("c-49"));
    }

    #[test]
    fn failure_keeps_the_last_rows() {
        let mut shown = Shown::new("https://hub.test".to_owned());
        shown.take(Ok(activity(0, &[("c-a", "Connected", Some(1))])));
        shown.take(Err(Failure::because(Code::Draining, "for \x1b[31m now")));
        let screen = shown.render(24, 80);
        assert!(
            screen.contains("FL-1406") && screen.contains("c-a"),
            "{screen}"
        );
        assert!(!screen.contains("\x1b[31m"), "{screen}");
    }
}
