//! Metrics in the text format of OpenMetrics 1.0, which has exemplars.

use std::fmt::Write as _;

use prometheus::proto::{Histogram, LabelPair, Metric, MetricFamily, MetricType};

use crate::exemplars::Exemplars;

/// Media type of the format.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// True if a scrape with this `Accept` header prefers the format.
pub(crate) fn is_accepted(accept: &str) -> bool {
    // Prometheus sends it with the highest weight, or not at all.
    let media = accept.split(',').map(str::trim);
    let mut media = media.map(|it| it.split(';').next().unwrap_or_default().trim());
    media.any(|it| it.eq_ignore_ascii_case("application/openmetrics-text"))
}

/// Encodes families; `exemplars_of` has those of a histogram.
pub(crate) fn encode(
    families: &[MetricFamily],
    exemplars_of: impl Fn(&str) -> Option<Exemplars>,
) -> String {
    let mut text = String::new();
    for family in families {
        let full = family.name();
        let (name, kind) = kind(full, family.get_field_type());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# TYPE {name} {kind}");
        let _ = writeln!(text, "# HELP {name} {}", escaped(family.help()));
        let exemplars = exemplars_of(full);
        for metric in family.get_metric() {
            let sample = Sample { metric, name: full };
            match family.get_field_type() {
                MetricType::COUNTER => sample.line(&mut text, "", metric.get_counter().get_value()),
                MetricType::GAUGE => sample.line(&mut text, "", metric.get_gauge().get_value()),
                MetricType::UNTYPED => sample.line(&mut text, "", 0.0),
                MetricType::HISTOGRAM => {
                    sample.histogram(&mut text, metric.get_histogram(), exemplars.as_ref());
                }
                MetricType::SUMMARY => {
                    let summary = metric.get_summary();
                    sample.line(&mut text, "_sum", summary.sample_sum());
                    sample.line(&mut text, "_count", summary.sample_count() as f64);
                }
            }
        }
    }
    text + "# EOF\n"
}

/// Name and type of a family. The name of a counter has no suffix, its sample has one.
fn kind(name: &str, kind: MetricType) -> (&str, &'static str) {
    match (kind, name.strip_suffix("_total")) {
        (MetricType::COUNTER, Some(name)) => (name, "counter"),
        (MetricType::COUNTER | MetricType::UNTYPED, _) => (name, "unknown"),
        (MetricType::GAUGE, _) => (name, "gauge"),
        (MetricType::HISTOGRAM, _) => (name, "histogram"),
        (MetricType::SUMMARY, _) => (name, "summary"),
    }
}

struct Sample<'a> {
    name: &'a str,
    metric: &'a Metric,
}

impl Sample<'_> {
    fn line(&self, text: &mut String, suffix: &str, value: f64) {
        self.begin(text, suffix, None);
        let _ = writeln!(text, " {}", number(value));
    }

    fn histogram(&self, text: &mut String, histogram: &Histogram, exemplars: Option<&Exemplars>) {
        let count = histogram.get_sample_count();
        let buckets = histogram.get_bucket().iter();
        let buckets = buckets.map(|it| (it.upper_bound(), it.cumulative_count()));
        let finite = buckets.filter(|(bound, _)| bound.is_finite());
        for (bound, below) in finite.chain([(f64::INFINITY, count)]) {
            self.begin(text, "_bucket", Some(&number(bound)));
            let _ = write!(text, " {below}");
            let exemplar = exemplars.and_then(|it| it.get(self.metric.get_label(), bound));
            if let Some(it) = exemplar {
                let (value, trace) = (number(it.value), escaped(&it.trace));
                let _ = write!(text, " # {{trace_id=\"{trace}\"}} {value} {:.3}", it.at);
            }
            text.push('\n');
        }
        self.line(text, "_sum", histogram.get_sample_sum());
        self.line(text, "_count", count as f64);
    }

    /// Name and labels of a sample.
    fn begin(&self, text: &mut String, suffix: &str, bound: Option<&str>) {
        let _ = write!(text, "{}{suffix}", self.name);
        let labels = self.metric.get_label().iter();
        let labels = labels.map(|it: &LabelPair| (it.name(), it.value()));
        let mut before = '{';
        for (name, value) in labels.chain(bound.map(|it| ("le", it))) {
            let _ = write!(text, "{before}{name}=\"{}\"", escaped(value));
            before = ',';
        }
        if before == ',' {
            text.push('}');
        }
    }
}

fn number(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    value.to_string()
}

fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\");
    text.replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntGaugeVec, Opts};

    use super::*;
    use crate::metrics::Registry;

    #[test]
    fn families_are_encoded_with_exemplars() {
        let registry = Registry::new();
        let counter = IntCounter::new("test_requests_total", "Requests.").unwrap();
        registry.register(Box::new(counter.clone())).unwrap();
        counter.inc();
        let gauge = IntGaugeVec::new(Opts::new("test_open", "Open \"ones\"."), &["kind"]).unwrap();
        registry.register(Box::new(gauge.clone())).unwrap();
        gauge.with_label_values(&["a\\b"]).set(-2);
        let bounds = vec![0.1, 1.0];
        let options = HistogramOpts::new("test_seconds", "Seconds.").buckets(bounds.clone());
        let histogram = HistogramVec::new(options, &["outcome"]).unwrap();
        registry.register(Box::new(histogram.clone())).unwrap();
        let exemplars = Exemplars::default();
        registry.add_exemplars("test_seconds", &exemplars);
        for (value, trace) in [(0.5, Some("aa")), (0.6, None), (7.0, Some("bb"))] {
            histogram.with_label_values(&["ok"]).observe(value);
            if let Some(trace) = trace {
                exemplars.observe(&["ok"], &bounds, value, trace);
            }
        }
        exemplars.observe(&["other"], &bounds, 0.01, "cc");
        let text = registry.openmetrics();
        let lines: Vec<&str> = text.lines().collect();
        let found = |line: &str| lines.iter().any(|it| it == &line);
        for line in [
            "# TYPE test_requests counter",
            "test_requests_total 1",
            "# HELP test_open Open \\\"ones\\\".",
            "test_open{kind=\"a\\\\b\"} -2",
            "test_seconds_bucket{outcome=\"ok\",le=\"0.1\"} 0",
            "test_seconds_sum{outcome=\"ok\"} 8.1",
            "test_seconds_count{outcome=\"ok\"} 3",
        ] {
            assert!(found(line), "{line}: {text}");
        }
        let exemplar = |start: &str| lines.iter().any(|it| it.starts_with(start));
        assert!(exemplar(
            "test_seconds_bucket{outcome=\"ok\",le=\"1\"} 2 # {trace_id=\"aa\"} 0.5 "
        ));
        assert!(exemplar(
            "test_seconds_bucket{outcome=\"ok\",le=\"+Inf\"} 3 # {trace_id=\"bb\"} 7 "
        ));
        assert!(!text.contains("cc"), "{text}");
        assert_eq!(lines.last(), Some(&"# EOF"));
    }

    #[test]
    fn prometheus_gets_the_format_and_a_browser_does_not() {
        assert!(is_accepted(
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,*/*;q=0.1"
        ));
        assert!(!is_accepted("text/html,*/*;q=0.8"));
        assert!(!is_accepted("text/plain;version=0.0.4"));
    }
}
