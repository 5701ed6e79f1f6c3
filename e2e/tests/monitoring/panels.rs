//! Draws dashboards from the results of their queries, as SVG: what Grafana would show, as far as a reader needs it.

use std::fmt::Write as _;

use serde_json::Value;

use crate::files::{Dashboard, DashboardPanel};

/// Size of a unit of Grafana's grid, in pixels.
const UNIT_WIDTH: f64 = 50.0;
const UNIT_HEIGHT: f64 = 30.0;
const GAP_PIXELS: f64 = 6.0;
const TITLE_HEIGHT: f64 = 40.0;
/// Lines of a legend, and rows of a table.
const MAX_LINES: usize = 10;
/// Longest time between the last point of a current series and the end, in seconds.
const CURRENT_SECONDS: f64 = 10.0;
const COLORS: [&str; 8] = [
    "#4269d0", "#c98500", "#ff725c", "#3ca951", "#a463f2", "#6cc5b0", "#9c6b4e", "#97a0ac",
];

/// One line of a panel.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// Unix time and value.
    pub(crate) points: Vec<(f64, f64)>,
}

impl Series {
    /// Series in the result of a range query; `legend` like `{{instance}}`.
    pub(crate) fn of(result: &[Value], legend: &str) -> Vec<Series> {
        let series = result.iter().map(|row| {
            let mut name = legend.to_owned();
            let labels = row["metric"].as_object().cloned().unwrap_or_default();
            for (label, value) in &labels {
                let text = value.as_str().unwrap_or_default();
                name = name.replace(&format!("{{{{{label}}}}}"), text);
            }
            if name.is_empty() {
                let texts = labels.iter().filter(|(label, _)| *label != "__name__");
                let texts = texts.map(|(_, value)| value.as_str().unwrap_or_default());
                name = texts.collect::<Vec<_>>().join("  ");
            }
            let points = row["values"].as_array().into_iter().flatten();
            let points = points.filter_map(|point| {
                let value: f64 = point[1].as_str()?.parse().ok()?;
                value.is_finite().then_some((point[0].as_f64()?, value))
            });
            Series {
                name,
                points: points.collect(),
            }
        });
        series.filter(|it| !it.points.is_empty()).collect()
    }

    fn last(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.1)
    }
}

/// Draws a dashboard; `series` has those of each panel.
pub(crate) fn draw(dashboard: &Dashboard, series: &[Vec<Series>], range: (i64, i64)) -> String {
    let bottom = |panel: &DashboardPanel| panel.place[1] + panel.place[3];
    let rows = dashboard.panels.iter().map(bottom).max().unwrap_or(1);
    let (width, height) = (
        24.0 * UNIT_WIDTH,
        f64::from(rows) * UNIT_HEIGHT + TITLE_HEIGHT,
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#f4f5f5\"/>\n\
         <text x=\"12\" y=\"26\" font-size=\"17\" fill=\"#222\">{}</text>\n",
        escaped(&dashboard.title)
    );
    for (panel, series) in dashboard.panels.iter().zip(series) {
        let [left, top, wide, high] = panel.place.map(f64::from);
        let frame = Frame {
            left: left * UNIT_WIDTH + GAP_PIXELS / 2.0,
            top: top * UNIT_HEIGHT + TITLE_HEIGHT + GAP_PIXELS / 2.0,
            width: wide * UNIT_WIDTH - GAP_PIXELS,
            height: high * UNIT_HEIGHT - GAP_PIXELS,
        };
        frame.panel(&mut svg, panel, series, range);
    }
    svg + "</svg>\n"
}

struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Frame {
    fn panel(
        &self,
        svg: &mut String,
        panel: &DashboardPanel,
        series: &[Series],
        range: (i64, i64),
    ) {
        let Frame {
            left,
            top,
            width,
            height,
        } = self;
        // Writing to a String cannot fail.
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.0}\" y=\"{top:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" fill=\"#fff\" stroke=\"#d5d7da\"/>"
        );
        self.text(svg, (10.0, 17.0), "#222", 12, &panel.title);
        match panel.kind.as_str() {
            "stat" => {
                let (text, size) = match current(series, range).first() {
                    Some(only) if panel.title == "Status" => (only.name.clone(), 22),
                    Some(only) => (value(only.last(), &panel.unit), 26),
                    None => ("no data".to_owned(), 16),
                };
                self.text(
                    svg,
                    (width / 2.0 - 30.0, height / 2.0 + 18.0),
                    "#1a7f37",
                    size,
                    &text,
                );
            }
            "table" => {
                for (at, row) in current(series, range).iter().take(MAX_LINES).enumerate() {
                    let text = format!("{}  {}", row.name, value(row.last(), &panel.unit));
                    self.text(svg, (10.0, 40.0 + 17.0 * at as f64), "#222", 11, &text);
                }
            }
            _ => self.lines(svg, panel, series, range),
        }
    }

    fn lines(
        &self,
        svg: &mut String,
        panel: &DashboardPanel,
        series: &[Series],
        range: (i64, i64),
    ) {
        let legend_height = 14.0 * series.len().min(MAX_LINES).div_ceil(2) as f64;
        let (left, right) = (self.left + 52.0, self.left + self.width - 10.0);
        let (top, bottom) = (
            self.top + 28.0,
            self.top + self.height - 12.0 - legend_height,
        );
        let points = series.iter().flat_map(|it| &it.points);
        let highest = points.map(|it| it.1).fold(0.0, f64::max);
        let highest = if highest > 0.0 { highest * 1.1 } else { 1.0 };
        for share in [0.0, 0.5, 1.0] {
            let y = bottom - (bottom - top) * share;
            let _ = writeln!(
                svg,
                "<line x1=\"{left:.0}\" x2=\"{right:.0}\" y1=\"{y:.0}\" y2=\"{y:.0}\" stroke=\"#e4e5e6\"/>"
            );
            let text = value(highest * share, &panel.unit);
            let place = (6.0, y - self.top + 4.0);
            self.text(svg, place, "#666", 10, &text);
        }
        let (start, end) = (range.0 as f64, range.1 as f64);
        for (line, color) in series.iter().zip(COLORS.iter().cycle()) {
            let mut path = String::new();
            let mut before = f64::NEG_INFINITY;
            for (at, value) in &line.points {
                let x = left + (right - left) * (at - start) / (end - start).max(1.0);
                let y = bottom - (bottom - top) * value / highest;
                // A gap is no line.
                let verb = if at - before > 10.0 { 'M' } else { 'L' };
                let _ = write!(path, "{verb}{x:.1} {y:.1}");
                before = *at;
            }
            let _ = writeln!(
                svg,
                "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.3\"/>"
            );
        }
        for (at, (line, color)) in series
            .iter()
            .zip(COLORS.iter().cycle())
            .take(MAX_LINES)
            .enumerate()
        {
            let column = (at % 2) as f64 * self.width / 2.0;
            let y = self.height - legend_height + 14.0 * (at / 2) as f64;
            self.text(
                svg,
                (10.0 + column, y + 4.0),
                color,
                10,
                &format!("● {}", line.name),
            );
        }
    }

    fn text(&self, svg: &mut String, (x, y): (f64, f64), color: &str, size: u32, text: &str) {
        let (x, y, text) = (self.left + x, self.top + y, escaped(text));
        let _ = writeln!(
            svg,
            "<text x=\"{x:.0}\" y=\"{y:.0}\" fill=\"{color}\" font-size=\"{size}\">{text}</text>"
        );
    }
}

/// Series with a point at the end: these panels show no history.
fn current(series: &[Series], (_, end): (i64, i64)) -> Vec<&Series> {
    let at_end = |it: &&Series| {
        let last = it.points.last().map(|point| point.0);
        last.is_some_and(|last| last >= end as f64 - CURRENT_SECONDS)
    };
    series.iter().filter(at_end).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// A value with its unit.
fn value(value: f64, unit: &str) -> String {
    let scaled = |steps: &[(f64, &str)]| {
        let step = steps.iter().find(|(from, _)| value.abs() >= *from);
        let (by, name) = step.or(steps.last()).copied().unwrap_or((1.0, ""));
        let shown = if by == 0.0 { value } else { value / by };
        let text = format!("{shown:.1}");
        format!("{} {name}", text.trim_end_matches(".0"))
            .trim()
            .to_owned()
    };
    match unit {
        "s" => scaled(&[
            (86_400.0, "d"),
            (3600.0, "h"),
            (1.0, "s"),
            (0.001, "ms"),
            (0.0, "s"),
        ]),
        "bytes" | "Bps" => scaled(&[
            (1_073_741_824.0, "GiB"),
            (1_048_576.0, "MiB"),
            (1024.0, "KiB"),
            (0.0, "B"),
        ]),
        "reqps" | "ops" => scaled(&[(0.0, "/s")]),
        "percentunit" => scaled(&[(0.01, "%"), (0.0, "")]),
        _ => scaled(&[(0.0, "")]),
    }
}

#[test]
fn panels_show_values_with_units_and_names_of_labels() {
    assert_eq!(value(0.0123, "s"), "12.3 ms");
    assert_eq!(value(7200.0, "s"), "2 h");
    assert_eq!(value(1536.0, "Bps"), "1.5 KiB");
    assert_eq!(value(3.0, "short"), "3");
    assert_eq!(value(0.094, "percentunit"), "9.4 %");
    let row =
        serde_json::json!({ "metric": { "instance": "a" }, "values": [[1, "2"], [2, "NaN"]] });
    let series = Series::of(&[row], "hub {{instance}}");
    assert_eq!(series[0].name, "hub a");
    assert_eq!(series[0].points, [(1.0, 2.0)]);
}
