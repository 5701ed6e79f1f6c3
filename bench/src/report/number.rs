//! Numbers and remarks as text.

/// First line of `text` without characters that would break a Markdown list, and the end of a program's
/// message.
pub(super) fn one_line(text: &str) -> String {
    const MAX_REMARK_CHARS: usize = 200;
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let said = lines.find(|line| line.starts_with("error: "));
    let line = [Some(first), said].into_iter().flatten();
    let line = line.collect::<Vec<_>>().join("; ");
    line.chars().take(MAX_REMARK_CHARS).collect()
}

/// Three significant digits, or all digits before the point.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
