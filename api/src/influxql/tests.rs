use super::*;

fn understood(text: &str) -> Query {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn of(function: Function, field: &str) -> Column {
    Column {
        selected: Selected::Of(function, field.to_owned()),
        name: None,
    }
}

const NANOS_PER_HOUR: i64 = 3_600_000_000_000;

#[test]
fn a_query_with_everything_is_understood() {
    let text = r#"select LAST("count") AS n, first(cpu), COUNT(value) FROM nodes, "a.b"
        WHERE cluster = 'c-demo' AND tenant != 't-o\'x' and time >= now() - 1h30m AND time < '2026-11-22T00:00:00Z'
        GROUP BY tenant, cluster, tenant ORDER BY time DESC LIMIT 10 OFFSET 5;"#;
    let query = understood(text);
    let mut last = of(Function::Last, "count");
    last.name = Some("n".to_owned());
    assert_eq!(
        query.select,
        [
            last,
            of(Function::First, "cpu"),
            of(Function::Count, "value")
        ]
    );
    assert_eq!(query.from, ["nodes", "a.b"]);
    let condition = |tag, equals, text: &str| Condition {
        tag,
        equals,
        text: text.to_owned(),
    };
    assert_eq!(
        query.conditions,
        [
            condition(Tag::Cluster, true, "c-demo"),
            condition(Tag::Tenant, false, "t-o'x")
        ]
    );
    let end = 1_795_305_600_000_000_000 - 1;
    assert_eq!(
        query.range,
        Range {
            from: Some(Moment::Now(-NANOS_PER_HOUR * 3 / 2)),
            to: Some(Moment::At(end)),
        }
    );
    assert_eq!(query.group_by, [Tag::Cluster, Tag::Tenant]);
    assert_eq!(
        (query.order, query.limit, query.offset),
        (Order::Descending, Some(10), 5)
    );
    assert_eq!(query.select[0].title(), "n");
    assert_eq!(query.select[1].title(), "first");
}

#[test]
fn the_least_is_a_field_of_a_measurement() {
    let query = understood("SELECT * FROM nodes");
    assert_eq!(query.select[0].selected, Selected::All);
    assert_eq!(query.range, Range::default());
    let query = understood("SELECT value, \"select\" FROM kubernetesVersion GROUP BY *");
    assert_eq!(query.select[1].title(), "select");
    assert_eq!(query.group_by, Tag::ALL);
}

#[test]
fn times_are_written_in_several_ways() {
    for (text, from) in [
        ("'1970-01-02'", Moment::At(24 * NANOS_PER_HOUR)),
        ("'1970-01-01 01:00:00'", Moment::At(NANOS_PER_HOUR)),
        ("'1970-01-01 00:00:00.5'", Moment::At(500_000_000)),
        ("'1970-01-01T02:00:00+01:00'", Moment::At(NANOS_PER_HOUR)),
        ("3600000000000", Moment::At(NANOS_PER_HOUR)),
        ("3600s", Moment::At(NANOS_PER_HOUR)),
        ("now()", Moment::Now(0)),
        ("NOW() + 1h", Moment::Now(NANOS_PER_HOUR)),
    ] {
        let query = understood(&format!("SELECT value FROM a WHERE time >= {text}"));
        assert_eq!(query.range.from, Some(from), "{text}");
    }
    let query = understood("SELECT value FROM a WHERE time = 5");
    assert_eq!(query.range.from, query.range.to);
    assert_eq!(query.range.from, Some(Moment::At(5)));
}

#[test]
fn what_is_not_offered_is_refused_and_the_word_is_named() {
    for (text, word) in [
        ("", ""),
        ("DROP MEASUREMENT nodes", "DROP"),
        ("SHOW MEASUREMENTS", "SHOW"),
        ("SELECT", ""),
        ("SELECT value", ""),
        ("SELECT value FROM", ""),
        ("SELECT MEAN(value) FROM a", "MEAN"),
        ("SELECT LAST(*) FROM a", "*"),
        ("SELECT LAST(a, b) FROM a", ","),
        ("SELECT LAST(a), b FROM a", "FROM"),
        ("SELECT *, b FROM a", "FROM"),
        ("SELECT value + 1 FROM a", "+"),
        ("SELECT value FROM (SELECT value FROM a)", "("),
        ("SELECT value FROM /re/", "/"),
        ("SELECT value FROM a..b", "."),
        ("SELECT value INTO b FROM a", "INTO"),
        ("SELECT value FROM a WHERE value = 1", "value"),
        ("SELECT value FROM a WHERE cluster > 'b'", ">"),
        ("SELECT value FROM a WHERE cluster = b", "b"),
        ("SELECT value FROM a WHERE cluster = \"b\"", "\"b\""),
        ("SELECT value FROM a WHERE cluster =~ /x/", "~"),
        (
            "SELECT value FROM a WHERE cluster = 'b' OR tenant = 'c'",
            "OR",
        ),
        ("SELECT value FROM a WHERE (cluster = 'b')", "("),
        ("SELECT value FROM a WHERE time != 5", "!="),
        ("SELECT value FROM a WHERE time > 'tomorrow'", "'tomorrow'"),
        ("SELECT value FROM a WHERE time > now() - 5", "5"),
        ("SELECT value FROM a WHERE time > 1 AND time > 2", "2"),
        ("SELECT value FROM a GROUP BY time(1h)", "time"),
        ("SELECT value FROM a GROUP BY region", "region"),
        ("SELECT value FROM a GROUP BY cluster FILL(none)", "FILL"),
        ("SELECT value FROM a ORDER BY value", "value"),
        ("SELECT value FROM a LIMIT -1", "-"),
        ("SELECT value FROM a LIMIT x", "x"),
        ("SELECT value FROM a SLIMIT 1", "SLIMIT"),
        ("SELECT value FROM a; SELECT value FROM b", "SELECT"),
        ("SELECT value FROM a WHERE cluster = 'b", "'b"),
        ("SELECT value FROM a LIMIT 1x", "1x"),
        (
            "SELECT value FROM a LIMIT 99999999999999999999",
            "99999999999999999999",
        ),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!(error.word, word, "{text}: {error}");
        assert!(text.contains(&error.word) && !error.expected.is_empty());
    }
    let error = parse("SELECT ä, MEAN(x) FROM a").unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"at character 11, "MEAN": FIRST, LAST or COUNT of a field"#
    );
}

#[test]
fn lists_and_queries_have_an_end() {
    let many = vec!["a"; 65].join(",");
    assert!(parse(&format!("SELECT {many} FROM a")).is_err());
    assert!(parse(&" ".repeat(MAX_QUERY_BYTES + 1)).is_err());
    let few = vec!["a"; 64].join(",");
    assert_eq!(understood(&format!("SELECT {few} FROM a")).select.len(), 64);
}
