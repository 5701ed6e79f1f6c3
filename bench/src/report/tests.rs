use super::*;
use crate::scenarios::Metric;

fn title(better: Better) -> Title {
    let rate = Metric {
        name: "rate",
        unit: "req/s",
        better,
    };
    Title {
        name: "get".to_owned(),
        about: "GET".to_owned(),
        metrics: vec![rate, Metric::lower("p99", "us")],
    }
}

fn report(better: Better, fairlead: [f64; 3]) -> Report {
    let title = title(better);
    let mut report = Report::new(Head::new(3, 1.0, Legs::Tls, Some(1)));
    report.begin(&title);
    for rate in fairlead {
        report.add(&title, Kind::Fairlead, Sample::of([rate, 5.0]));
    }
    for rate in [1000.0, 500.0, 1000.0] {
        report.add(&title, Kind::Frp, Sample::of([rate, 20.0]));
    }
    report.absent(
        &title,
        Kind::Chisel,
        &anyhow::anyhow!("not here: no build\nand more"),
    );
    report.finish();
    report
}

#[test]
fn ratios_are_taken_within_a_round_and_are_above_one_where_fairlead_is_better() {
    let half = |report: &Report| report.scenarios[0].rows[1].fairlead.unwrap();
    let more = half(&report(Better::Higher, [2000.0, 1000.0, 2000.0]));
    assert_eq!((more.median, more.low, more.high), (2.0, 2.0, 2.0));
    let less = half(&report(Better::Lower, [2000.0, 1000.0, 4000.0]));
    assert_eq!((less.median, less.low, less.high), (0.5, 0.25, 0.5));
}

#[test]
fn the_table_has_a_row_for_each_peer_and_says_why_one_has_no_figures() {
    let table = report(Better::Higher, [2000.0, 1000.0, 2000.0]).table();
    let lines: Vec<&str> = table.lines().skip(5).collect();
    assert_eq!(
        lines,
        [
            "",
            "| | rate, req/s | p99, us | Fairlead x |",
            "|---|---:|---:|---:|",
            "| fairlead | 2000 (1000-2000) | 5.00 |  |",
            "| frp | 1000 (500-1000) | 20.0 | 2.00 |",
            "| chisel | - | - | |",
            "",
            "- chisel: not here: no build",
        ],
        "{table}"
    );
}

#[test]
fn a_run_is_written_as_figures_a_table_and_plots_in_two_formats() {
    let dir = tempfile::TempDir::new().unwrap();
    report(Better::Higher, [1.0, 2.0, 3.0])
        .write(dir.path())
        .unwrap();
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    let figures: serde_json::Value = serde_json::from_slice(&read("results.json")).unwrap();
    assert_eq!(figures["scenarios"][0]["rows"][0]["peer"], "fairlead");
    assert_eq!(
        figures["scenarios"][0]["rows"][0]["figures"][0]["median"],
        2.0
    );
    assert!(read("plots/get.svg").starts_with(b"<svg"));
    assert!(read("plots/get.png").starts_with(b"\x89PNG"));
    assert!(!read("table.md").is_empty());
}
