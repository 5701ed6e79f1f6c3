//! The rules with shorter times, for a test of minutes.

/// Factor of the rules' times.
const SPEED_FACTOR: u64 = 60;
/// Longest time of a rule before it fires, in seconds: some wait for a day.
const MAX_FOR_SECONDS: u64 = 10;
/// Shortest range of a rate, in seconds: four scrapes.
const MIN_RANGE_SECONDS: u64 = 4;

/// Rules with shorter times.
pub(super) fn faster(rules: &str) -> String {
    let mut text = String::new();
    for line in rules.lines() {
        let faster = match line.trim().strip_prefix("for: ").and_then(seconds) {
            Some(time) => format!(
                "        for: {}s",
                (time / SPEED_FACTOR).min(MAX_FOR_SECONDS)
            ),
            None => faster_ranges(line),
        };
        text += &faster;
        text.push('\n');
    }
    text
}

/// A line with shorter ranges like `[5m]`.
fn faster_ranges(line: &str) -> String {
    let mut parts = line.split('[');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let range = part.split_once(']');
        match range.and_then(|(range, rest)| Some((seconds(range)?, rest))) {
            Some((time, rest)) => {
                let time = (time / SPEED_FACTOR).max(MIN_RANGE_SECONDS);
                text += &format!("[{time}s]{rest}");
            }
            None => text += &format!("[{part}"),
        }
    }
    text
}

fn seconds(text: &str) -> Option<u64> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    let number: u64 = text.get(..text.len() - 1)?.parse().ok()?;
    Some(number * unit)
}

#[test]
fn times_of_rules_are_shortened() {
    let rules = "expr: rate(a[5m]) > increase(b[1h])\n        for: 2m\n        for: 1d\nc: [x]\n";
    let expected =
        "expr: rate(a[5s]) > increase(b[60s])\n        for: 2s\n        for: 10s\nc: [x]\n";
    assert_eq!(faster(rules), expected);
}
