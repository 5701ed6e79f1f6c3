//! Number of agents that are connected to a hub.

use std::time::Duration;

use anyhow::Context as _;
use tokio::time;

use crate::{ports::FIRST_AGENT_PORT, proc, way::Way};

const ATTEMPT_DEADLINE: Duration = Duration::from_secs(5);

/// How to count the connected agents.
pub(super) enum Census {
    /// Each agent has a port of its own at the hub, from [`FIRST_AGENT_PORT`] on, which is open while the
    /// agent is connected.
    Ports { count: u16 },
    /// A number in the text of this page, after this word.
    Page {
        way: Way,
        path: &'static str,
        word: &'static str,
    },
}

impl Census {
    /// Agents that are connected now. A hub that does not answer has none.
    pub(super) async fn count(&self) -> u64 {
        match self {
            Census::Ports { count } => {
                proc::listening(FIRST_AGENT_PORT..FIRST_AGENT_PORT.saturating_add(*count))
            }
            Census::Page { way, path, word } => {
                let asked = time::timeout(ATTEMPT_DEADLINE, async {
                    let page = way.target(path)?.once().await?;
                    number_behind(&String::from_utf8_lossy(&page), word).context("no number")
                });
                asked.await.map_or(0, |number| number.unwrap_or(0))
            }
        }
    }
}

/// Number after `word` in `page`: 42 for `x 1\nsessions 42\n` and `sessions`. Without a word it is the first
/// number; for a metric with labels it is the sum.
pub(crate) fn number_behind(page: &str, word: &str) -> Option<u64> {
    let lines = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(word)?;
        // Another word may begin with this one.
        if !(word.is_empty() || rest.starts_with([' ', '{'])) {
            return None;
        }
        let value: f64 = rest.rsplit(' ').next()?.trim().parse().ok()?;
        Some(value)
    });
    lines.reduce(|sum, value| sum + value).map(|sum| sum as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_found_behind_its_word_and_summed_over_labels() {
        let page =
            "# HELP sessions x\nsessions_ended 7\nsessions 42\nopen{a=\"b\"} 2\nopen{a=\"c\"} 3\n";
        assert_eq!(number_behind(page, "sessions"), Some(42));
        assert_eq!(number_behind(page, "open"), Some(5));
        assert_eq!(number_behind(page, "none"), None);
        assert_eq!(number_behind("17\n", ""), Some(17));
    }
}
