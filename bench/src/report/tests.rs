use super::*;
use crate::scenarios::{Metric, goal::Goal};

fn title(better: Better) -> Title {
    let rate = Metric {
        better,
        ..Metric::higher("rate", "req/s")
    };
    Title {
        name: "get".to_owned(),
        about: "GET".to_owned(),
        metrics: vec![rate, Metric::lower("p99", "us")],
        goals: vec![
            Goal::First,
            Goal::times(Kind::Wstunnel, 0.5),
            Goal::most(1, 4.0),
        ],
    }
}

fn report(better: Better, fairlead: [f64; 3]) -> RunReport {
    let title = title(better);
    let mut report = RunReport::new(ReportHead::new(3, 1.0, Legs::Tls, Some(1)));
    report.begin(&title);
    for rate in fairlead {
        report.take(&title, Kind::Fairlead, Ok(Sample::of([rate, 5.0])));
    }
    for rate in [1000.0, 500.0, 1000.0] {
        report.take(&title, Kind::Frp, Ok(Sample::of([rate, 20.0])));
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
    let half = |report: &RunReport| report.scenarios[0].rows[1].fairlead.unwrap();
    let more = half(&report(Better::Higher, [2000.0, 1000.0, 2000.0]));
    assert_eq!((more.median, more.low, more.high), (2.0, 2.0, 2.0));
    let less = half(&report(Better::Lower, [2000.0, 1000.0, 4000.0]));
    assert_eq!((less.median, less.low, less.high), (0.5, 0.25, 0.5));
}

#[test]
fn table_has_a_row_per_peer_and_a_reason_for_missing_figures() {
    let table = report(Better::Higher, [2000.0, 1000.0, 2000.0]).table();
    let lines: Vec<&str> = table
        .lines()
        .skip_while(|line| !line.is_empty())
        .skip(4)
        .collect();
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
            "",
            "- goal, rate: first of all tunnels: 2.00 (2.00-2.00) x frp, met",
            "",
            "- goal, rate: at least 0.5 x wstunnel's: -, not measured",
            "",
            "- goal, p99: at most 4 us: 5.00 (5.00-5.00), **missed**",
        ],
        "{table}"
    );
}

#[test]
fn run_is_written_as_figures_a_table_and_plots_in_two_formats() {
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

#[test]
fn readme_tables_have_a_row_per_scenario_and_goal() {
    let quote = report(Better::Higher, [2000.0, 1000.0, 2000.0]).quote();
    let lines: Vec<&str> = quote
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .collect();
    assert_eq!(
        lines,
        [
            "| scenario | figure | fairlead | frp |",
            "|---|---|---:|---:|",
            "| get | rate, req/s; more is better | **2000** | 1000 (2.00) |",
            "",
            "1 of 2 goals are met. Level: missed by less than the difference between rounds.",
            "",
            "| scenario | goal | measured | |",
            "|---|---|---|---|",
            "| get | rate: first of all tunnels | 2.00 (2.00-2.00) x frp | met |",
            "| get | rate: at least 0.5 x wstunnel's | - | not measured |",
            "| get | p99: at most 4 us | 5.00 (5.00-5.00) | **missed** |",
            "",
            "- chisel: not here: no build",
        ],
        "{quote}"
    );
}

#[test]
fn program_of_the_user_is_named_in_the_head() {
    let given = vec!["wstunnel (wstunnel-cli 10)".to_owned()];
    let head = ReportHead::new(3, 1.0, Legs::Tls, None).with_given(given);
    let named = "Programs from `BENCH_PEERS`: wstunnel (wstunnel-cli 10).";
    assert!(RunReport::new(head).table().contains(named));
    let none = ReportHead::new(3, 1.0, Legs::Tls, None);
    assert!(!RunReport::new(none).table().contains("BENCH_PEERS"));
}

#[test]
fn earlier_build_has_a_ratio_and_is_no_other_tunnel() {
    let title = title(Better::Higher);
    let mut report = RunReport::new(ReportHead::new(3, 1.0, Legs::Tls, None));
    report.begin(&title);
    for (now, before) in [(110.0, 100.0), (60.0, 50.0), (90.0, 100.0)] {
        report.take(&title, Kind::FairleadBefore, Ok(Sample::of([before, 1.0])));
        report.take(&title, Kind::Fairlead, Ok(Sample::of([now, 1.0])));
    }
    report.finish();
    let ratio = report.scenarios[0].of(Kind::FairleadBefore).unwrap();
    assert_eq!(ratio.fairlead.unwrap().median, 1.1);
    assert_eq!(report.scenarios[0].verdicts[0].is, Is::Open);
    assert!(
        report
            .table()
            .contains("| fairlead-before | 100 (50.0-100) |")
    );
}

#[test]
fn goal_missed_within_the_range_of_rounds_is_level() {
    let level = report(Better::Higher, [900.0, 600.0, 900.0]);
    let is = |report: &RunReport| report.scenarios[0].verdicts[0].is;
    assert_eq!(is(&level), model::Is::Level);
    assert_eq!(is(&report(Better::Higher, [500.0; 3])), model::Is::Level);
    assert_eq!(is(&report(Better::Higher, [400.0; 3])), model::Is::Missed);
}

#[test]
fn failed_round_does_not_shift_other_rounds() {
    let title = title(Better::Higher);
    let mut report = RunReport::new(ReportHead::new(2, 1.0, Legs::Tls, None));
    report.begin(&title);
    report.take(&title, Kind::Fairlead, Err(anyhow::anyhow!("no luck")));
    report.take(&title, Kind::Fairlead, Ok(Sample::of([100.0, 1.0])));
    for rate in [1.0, 50.0] {
        report.take(&title, Kind::Frp, Ok(Sample::of([rate, 1.0])));
    }
    report.finish();
    let frp = report.scenarios[0].of(Kind::Frp).unwrap();
    assert_eq!(frp.fairlead.unwrap().median, 2.0);
}

#[test]
fn partial_results_can_be_read_again() {
    let dir = tempfile::TempDir::new().unwrap();
    let mut before = report(Better::Lower, [1.0, 2.0, 3.0]);
    before.save(dir.path()).unwrap();
    let text = std::fs::read(dir.path().join("results.json")).unwrap();
    let after: RunReport = serde_json::from_slice(&text).unwrap();
    assert!(before.quote().contains("not come to its end"));
    assert_eq!(before.quote(), after.quote());
}
