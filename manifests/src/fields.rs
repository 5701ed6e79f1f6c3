//! Names of fields for people, like `.spec.containers[0].image`.

/// One step of a field's name: `.key`, or `["key"]` for keys with other characters than letters, digits, `_` and `-`.
pub(crate) fn segment(key: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    if !key.is_empty() && key.chars().all(is_plain) {
        return format!(".{key}");
    }
    format!("[{key:?}]")
}
