use super::*;

const MINUTE_MS: i64 = 60_000;

#[test]
fn facts_are_stale_after_three_missed_reports() {
    let by_default = Reporting::default();
    let three_hours = 180 * MINUTE_MS;
    assert!(!by_default.is_stale(FactSource::Agent, 0, three_hours));
    assert!(by_default.is_stale(FactSource::Agent, 0, three_hours + 1));
    assert!(by_default.is_stale(FactSource::Steward, 0, 3 * MINUTE_MS + 1));
    assert!(!by_default.is_stale(FactSource::People, 0, i64::MAX));
    assert!(by_default.is_stale(FactSource::Import, 0, 0));
    let rarely = Reporting {
        agent: Duration::from_secs(2 * 3600),
        steward: Duration::from_secs(3600),
    };
    assert!(!rarely.is_stale(FactSource::Agent, 0, 2 * three_hours));
    assert!(rarely.is_stale(FactSource::Agent, 0, 2 * three_hours + 1));
    assert!(!rarely.is_stale(FactSource::Steward, 0, three_hours));
}

#[test]
fn stale_names_agree_with_each_fact() {
    let reporting = Reporting::default();
    let sources = [
        FactSource::People,
        FactSource::Agent,
        FactSource::Steward,
        FactSource::Inventory,
        FactSource::Import,
    ];
    let mut facts = Facts::new();
    for (source, received) in sources.into_iter().flat_map(|it| [(it, 0), (it, 200)]) {
        let fact = Fact {
            value: true.into(),
            source,
            received: received * MINUTE_MS,
            observed: 0,
        };
        facts.insert(format!("{source:?}-{received}"), fact);
    }
    for (agent, steward) in [(None, None), (Some(210), None), (Some(1), Some(239))] {
        let mut observed = Observed::nothing(time::OffsetDateTime::UNIX_EPOCH);
        for (source, at) in [(FactSource::Agent, agent), (FactSource::Steward, steward)] {
            observed
                .reported
                .extend(at.map(|at: i64| (source, at * MINUTE_MS)));
        }
        for now in [200, 240, 390, 400].map(|minute| minute * MINUTE_MS) {
            let each = facts
                .iter()
                .filter(|(_, fact)| is_stale(fact, &observed, &reporting, now));
            let each: Vec<_> = each.map(|(name, _)| name.as_str()).collect();
            assert_eq!(stale_names(&facts, &observed, &reporting, now), each);
        }
    }
}

#[test]
fn intervals_are_one_second_to_30_days() {
    let of = |agent, steward| {
        let (agent, steward) = (Duration::from_secs(agent), Duration::from_secs(steward));
        Reporting { agent, steward }.check().map_err(|it| it.code)
    };
    let month = 30 * 24 * 3600;
    assert_eq!(of(1, month), Ok(()));
    for (agent, steward) in [(0, 60), (3600, 0), (month + 1, 60), (3600, month + 1)] {
        assert_eq!(of(agent, steward), Err(Code::BadConfig));
    }
}
