//! A recorded terminal session as an SVG: lines appear at their times and stay. A viewer without animations shows all of them.

use std::{
    fmt::Write as _,
    time::{Duration, SystemTime},
};

/// Longer pauses are shown as this one.
const MAX_PAUSE: Duration = Duration::from_millis(1500);
const LINE_HEIGHT_PX: usize = 20;
const CHAR_WIDTH_PX: f64 = 8.43;
const MARGIN_PX: usize = 16;
const MIN_COLUMNS: usize = 80;

/// Lines with the time at which each appears.
pub(crate) struct Recording {
    last: SystemTime,
    at: Duration,
    lines: Vec<(Duration, String)>,
}

impl Recording {
    pub(crate) fn start() -> Self {
        Self {
            last: SystemTime::now(),
            at: Duration::ZERO,
            lines: Vec::new(),
        }
    }

    /// Adds a line that appears now.
    pub(crate) fn push(&mut self, line: String) {
        let now = SystemTime::now();
        // A clock that was set back makes no pause.
        let pause = now.duration_since(self.last).unwrap_or_default();
        self.last = now;
        self.at += pause.min(MAX_PAUSE);
        self.lines.push((self.at, line));
    }

    pub(crate) fn svg(&self) -> String {
        let columns = self.lines.iter().map(|(_, line)| line.chars().count());
        let columns = columns.max().unwrap_or_default().max(MIN_COLUMNS);
        let width = (columns as f64).mul_add(CHAR_WIDTH_PX, 2.0 * MARGIN_PX as f64);
        let height = self.lines.len() * LINE_HEIGHT_PX + 2 * MARGIN_PX;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height}\" \
             font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace\" font-size=\"14\">\n\
             <style>text {{ white-space: pre; fill: #1f2328 }} .step {{ fill: #0969da }} .time {{ fill: #59636e }} .prompt {{ fill: #1a7f37 }}\n\
             .line {{ animation: appear 1ms backwards }} @keyframes appear {{ from {{ opacity: 0 }} }}</style>\n\
             <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#f6f8fa\" stroke=\"#d1d9e0\"/>\n"
        );
        for (row, (at, line)) in self.lines.iter().enumerate() {
            let y = MARGIN_PX + (row + 1) * LINE_HEIGHT_PX - 6;
            let kind = kind(line);
            let text = escaped(line);
            let delay = at.as_secs_f64();
            // Writing to a String cannot fail.
            let _ = writeln!(
                svg,
                "<text class=\"line {kind}\" x=\"{MARGIN_PX}\" y=\"{y}\" xml:space=\"preserve\" style=\"animation-delay: {delay:.2}s\">{text}</text>"
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn kind(line: &str) -> &'static str {
    match line.get(..4) {
        Some("==> ") => "step",
        Some("    ") => "time",
        _ if line.starts_with("$ ") => "prompt",
        _ => "out",
    }
}

fn escaped(line: &str) -> String {
    let line = line.replace('&', "&amp;").replace('<', "&lt;");
    line.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(lines: &[(u64, &str)]) -> Recording {
        let line = |&(ms, line): &(u64, &str)| (Duration::from_millis(ms), line.to_owned());
        Recording {
            lines: lines.iter().map(line).collect(),
            ..Recording::start()
        }
    }

    #[test]
    fn line_appears_at_its_time_with_its_text_escaped() {
        let svg = recording(&[(0, "$ a"), (1250, "<b> & c")]).svg();
        assert!(svg.contains("style=\"animation-delay: 1.25s\">&lt;b> &amp; c</text>"));
        assert!(svg.contains("class=\"line prompt\""));
    }

    #[test]
    fn picture_is_as_wide_as_its_longest_line() {
        let long = "x".repeat(100);
        let svg = recording(&[(0, &long)]).svg();
        assert!(svg.contains("viewBox=\"0 0 875 52\""), "{svg}");
    }
}
