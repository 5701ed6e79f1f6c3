use super::*;
use crate::smoke::plan::SCENARIOS;

fn outcome(requests: u64, hub: u64) -> Outcome {
    Outcome {
        seconds: 1.0,
        requests,
        bytes: requests * 1024,
        errors: 0,
        first_error: None,
        p50_us: 10.0,
        p99_us: 20.0,
        p999_us: 30.0,
        max_us: 40.0,
        cpu_us: BTreeMap::from([("load".to_owned(), requests * 5), ("hub".to_owned(), hub)]),
    }
}

fn measured(route: Route, rates: [u64; 3]) -> MeasuredRound {
    let rounds = rates.map(|rate| outcome(rate, rate * 12)).to_vec();
    MeasuredRound {
        scenario: SCENARIOS[0],
        route,
        rounds,
    }
}

fn report(fairlead: [u64; 3]) -> Report {
    let all = [
        measured(Route::Direct, [40_000, 20_000, 40_000]),
        measured(Route::Proxy, [20_000, 10_000, 20_000]),
        measured(Route::Fairlead, fairlead),
    ];
    Report::new(
        Pace {
            rounds: 3,
            seconds: 1.0,
            warmup: 0.0,
        },
        Some(1),
        &all,
    )
}

#[test]
fn ratios_are_taken_within_a_round_so_that_a_slow_round_changes_nothing() {
    let report = report([12_000, 6_000, 12_000]);
    let fairlead = &report.rows[2];
    assert_eq!(
        fairlead.to_proxy,
        Some(Ratio {
            median: 0.6,
            low: 0.6,
            high: 0.6
        })
    );
    assert_eq!(fairlead.to_direct.unwrap().median, 0.3);
    assert_eq!(
        fairlead.goal,
        Some(SmokeGoal {
            least: 0.5,
            met: true
        })
    );
    assert_eq!(report.rows[1].goal, None);
    assert!(report.passed());
}

#[test]
fn table_names_a_scenario_once_and_shows_the_result_of_each_goal() {
    let table = report([12_000, 5_500, 12_000]).table();
    let lines: Vec<&str> = table.lines().collect();
    let words = |line: usize| lines[line].split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        lines[0].ends_with("every role on core 1; medians of 3 rounds of 1 s"),
        "{table}"
    );
    assert_eq!(
        words(4),
        "get-1k-c1 direct 40000 req/s 1.00 2.00 10 20 load 5.0, hub 12.0"
    );
    assert_eq!(
        words(5),
        "proxy 20000 req/s 0.50 1.00 10 20 load 5.0, hub 12.0"
    );
    assert_eq!(
        words(6),
        "fairlead 12000 req/s 0.30 0.60 (0.55-0.60) >= 0.50 met 1.00 10 20 load 5.0, hub 12.0"
    );
    assert_eq!(lines.len(), 7);
}

#[test]
fn processor_time_gives_a_ratio_of_its_own() {
    let mut dearer = measured(Route::Fairlead, [10_000; 3]);
    for round in &mut dearer.rounds {
        // 5 µs of the client and 12 µs of the hub become 5 and 29.
        round.cpu_us.insert("hub".to_owned(), 290_000);
    }
    let pace = Pace {
        rounds: 3,
        seconds: 1.0,
        warmup: 0.0,
    };
    let report = Report::new(pace, None, &[measured(Route::Proxy, [10_000; 3]), dearer]);
    assert_eq!(report.rows[1].cpu_to_proxy, Some(0.5));
    assert_eq!(report.rows[1].cores_used, 0.34);
}

#[test]
fn pinned_run_without_a_whole_core_warns() {
    let said = |route_us: u64| {
        let mut busy = measured(Route::Direct, [10_000; 3]);
        busy.scenario = SCENARIOS[1];
        for round in &mut busy.rounds {
            round.cpu_us.insert("hub".to_owned(), route_us);
        }
        let pace = Pace {
            rounds: 3,
            seconds: 1.0,
            warmup: 0.0,
        };
        Report::new(pace, Some(1), &[busy])
            .table()
            .contains("not quiet: up to 45 % of the core")
    };
    // The client uses 50 ms of each second.
    assert!(said(500_000));
    assert!(!said(900_000));
}

#[test]
fn missed_goal_and_a_failed_request_are_shown_and_do_not_pass() {
    let missed = report([9_000, 4_000, 9_000]);
    assert!(!missed.passed());
    assert!(
        missed.table().contains("0.45 (0.40-0.45)  >= 0.50 MISSED"),
        "{}",
        missed.table()
    );

    let mut failed = report([12_000, 6_000, 12_000]);
    failed.rows[2].errors = 2;
    failed.rows[2].rounds[1].first_error = Some("502".to_owned());
    assert!(!failed.passed());
    assert!(
        failed
            .table()
            .ends_with("\nget-1k-c1 fairlead: 2 errors, the first: 502\n")
    );
}
