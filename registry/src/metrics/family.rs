//! One metric family, rebuilt on each scrape. The number of rows is limited: texts of users and
//! programs must not create more series than Prometheus can handle.

use std::collections::HashMap;

use prometheus::{
    core::Desc,
    proto::{Gauge, LabelPair, Metric, MetricFamily, MetricType},
};

/// Maximum number of rows per metric.
const MAX_ROWS: usize = 100_000;
/// Maximum length of a label value, in characters.
const MAX_LABEL_CHARS: usize = 256;

pub(super) struct Family {
    pub(super) name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    rows: Vec<Metric>,
    most: usize,
    left_out: usize,
}

impl Family {
    pub(super) fn new(name: &'static str, help: &'static str) -> Self {
        Family {
            name,
            help,
            labels: &[],
            rows: Vec::new(),
            most: MAX_ROWS,
            left_out: 0,
        }
    }

    /// Describes the labels of rows, for the reference; a family without a row would have none there.
    pub(super) fn labelled(mut self, labels: &'static [&'static str]) -> Self {
        self.labels = labels;
        self
    }

    #[cfg(test)]
    fn at_most(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Creates the description.
    ///
    /// # Errors
    /// An invalid Prometheus name.
    pub(super) fn describe(&self) -> prometheus::Result<Desc> {
        let (name, help) = (self.name.to_owned(), self.help.to_owned());
        let labels = self.labels.iter().map(ToString::to_string).collect();
        Desc::new(name, help, labels, HashMap::new())
    }

    /// Adds a row. Empty labels are omitted: Prometheus treats them alike.
    pub(super) fn add<'a>(
        &mut self,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        value: f64,
    ) {
        if self.rows.len() >= self.most {
            self.left_out += 1;
            return;
        }
        let labels = labels.into_iter().filter(|(_, text)| !text.is_empty());
        let labels = labels.map(|(name, text)| {
            let mut pair = LabelPair::default();
            pair.set_name(name.to_owned());
            pair.set_value(text.chars().take(MAX_LABEL_CHARS).collect());
            pair
        });
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        let mut row = Metric::from_gauge(gauge);
        row.set_label(labels.collect());
        self.rows.push(row);
    }

    /// Counts rows dropped by the caller.
    pub(super) fn leave_out(&mut self, rows: usize) {
        self.left_out += rows;
    }

    pub(super) fn left_out(&self) -> usize {
        self.left_out
    }

    pub(super) fn into_proto(self) -> MetricFamily {
        let mut family = MetricFamily::default();
        family.set_name(self.name.to_owned());
        family.set_help(self.help.to_owned());
        family.set_field_type(MetricType::GAUGE);
        family.set_metric(self.rows);
        family
    }
}

/// In-memory counts are far below the exact range of a double.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
pub(super) fn number(count: usize) -> f64 {
    count as f64
}

/// Seconds since 1970.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
pub(super) fn seconds(millis: i64) -> f64 {
    millis as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_beyond_the_limit_are_dropped_and_counted() {
        let mut family = Family::new("some", "Some.").at_most(2);
        for cluster in ["a", "b", "c"] {
            family.add([("cluster", cluster), ("none", "")], 1.0);
        }
        assert_eq!(family.left_out(), 1);
        let family = family.into_proto();
        assert_eq!(family.get_metric().len(), 2);
        assert_eq!(family.get_metric()[0].get_label().len(), 1);
    }

    #[test]
    fn texts_are_truncated_between_characters() {
        let mut family = Family::new("some", "Some.");
        family.add([("text", "ü".repeat(1000).as_str())], 1.0);
        let family = family.into_proto();
        let text = family.get_metric()[0].get_label()[0].value().to_owned();
        assert_eq!(text, "ü".repeat(MAX_LABEL_CHARS));
    }
}
