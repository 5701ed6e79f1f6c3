//! Settings without secrets: a setting is shown unless its type is a secret. Tokens are also found by their form.

use std::{fmt::Write as _, fs};

use fairlead_api::{Code, Failure, JoinString};
use fairlead_client::Environment;
use fairlead_masking::Masker;
use fairlead_runtime::config::EffectiveSetting;
use secrecy::ExposeSecret;

const MASK: &str = "***";
/// Ends of the names of settings whose values are secrets. Names that end with `-file` are paths.
const SECRET_NAMES: [&str; 6] = ["password", "token", "key", "secret", "join", "headers"];
/// Beginnings of texts that are secrets: join strings and tokens.
const SECRET_TEXTS: [&str; 3] = ["fl1.", "fl2.", "flt_"];
/// Settings with the path of a file that has a secret.
const SECRET_FILES: [&str; 5] = [
    "otlp-headers-file",
    "proxy-file",
    "store-password-file",
    "store-key-file",
    "join",
];

/// Shorter values of headers are names of tenants rather than secrets, and masking them would spoil the texts.
const MIN_HEADER_BYTES: usize = 8;

/// Lines `key = value (source)`, with the variables of the proxy.
pub(super) fn settings_text(settings: &[EffectiveSetting], environment: &Environment) -> String {
    let mut text = String::new();
    for it in settings {
        let values = it.values.iter().map(|value| shown(it.key, value));
        let values: Vec<String> = values.collect();
        // Writing into a text cannot fail.
        let _ = writeln!(text, "{} = {} ({})", it.key, values.join(", "), it.source);
    }
    let (proxy, exceptions) = environment.proxy_variables();
    for (key, value) in [("HTTPS_PROXY", proxy), ("NO_PROXY", exceptions)] {
        if let Some(value) = value {
            let _ = writeln!(text, "{key} = {} (environment)", without_credentials(value));
        }
    }
    text
}

fn shown(key: &str, value: &str) -> String {
    let is_path = key == "join" && value.starts_with('@');
    let is_secret = SECRET_NAMES.iter().any(|name| key.ends_with(name));
    match is_secret && !is_path {
        true => MASK.to_owned(),
        false => without_credentials(value),
    }
}

/// A URL without user and password, also without a scheme.
fn without_credentials(text: &str) -> String {
    let Some((before, place)) = text.rsplit_once('@') else {
        return text.to_owned();
    };
    let scheme = before.split_once("://").map(|(scheme, _)| scheme);
    match scheme {
        Some(scheme) => format!("{scheme}://{MASK}@{place}"),
        None if before.is_empty() => text.to_owned(),
        None => format!("{MASK}@{place}"),
    }
}

/// Masker of all secrets that the settings have or name.
///
/// # Errors
/// They are too large.
pub(super) fn masker(
    settings: &[EffectiveSetting],
    environment: &Environment,
) -> Result<Masker, Failure> {
    let mut secrets = Vec::new();
    for it in settings {
        for value in &it.values {
            let value = value.trim_matches('"');
            if SECRET_NAMES.iter().any(|name| it.key.ends_with(name)) {
                secrets.push(value.to_owned());
            }
            if SECRET_FILES.contains(&it.key) {
                // A file that cannot be read is a finding of the doctor.
                let path = value.trim_start_matches('@');
                secrets.extend(fs::read_to_string(path).ok());
            }
        }
    }
    let variables = environment.all();
    let is_secret = |key: &str| {
        let key = key.to_ascii_lowercase();
        let ends = SECRET_NAMES.iter().any(|name| key.ends_with(name));
        (key.starts_with("fairlead_") || key.starts_with("otel_")) && ends
    };
    let variables = variables.filter(|(key, _)| is_secret(key));
    secrets.extend(variables.map(|(_, value)| value));
    secrets.extend(environment.proxy_variables().0.map(str::to_owned));
    let parts: Vec<String> = secrets.iter().flat_map(|it| parts(it.trim())).collect();
    Masker::new(parts.iter().filter(|it| !it.is_empty()))
        .map_err(|error| Failure::because(Code::Internal, error))
}

/// A secret, and its parts: the token of a join string; user and password of a URL.
fn parts(secret: &str) -> Vec<String> {
    let mut parts = vec![secret.to_owned()];
    if let Ok(join) = secret.parse::<JoinString>() {
        parts.push(join.token.expose_secret().to_owned());
    }
    // Headers for a collector: name=value, separated by commas or lines.
    let headers = secret.split([',', '\n']).map(str::trim);
    let values = headers.filter_map(|it| it.split_once('='));
    let values = values.map(|(_, value)| value.trim());
    let values = values.filter(|it| it.len() >= MIN_HEADER_BYTES);
    parts.extend(values.map(str::to_owned));
    if let Some((before, _)) = secret.rsplit_once('@') {
        let pair = before.split_once("://").map_or(before, |(_, pair)| pair);
        parts.push(pair.to_owned());
        if let Some((_, password)) = pair.split_once(':') {
            let decoded = fairlead_api::percent::decode(password);
            let decoded = decoded.and_then(|it| String::from_utf8(it).ok());
            parts.push(password.to_owned());
            parts.extend(decoded);
        }
    }
    parts
}

/// The text without join strings, tokens, and credentials in URLs, which their forms tell.
pub(super) fn without_tokens(text: &str) -> String {
    let is_part =
        |c: char| !c.is_whitespace() && !matches!(c, '"' | '\'' | '`' | ',' | ';' | '<' | '>');
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        kept.push_str(&masked_word(word));
        let gap = after.find(is_part).unwrap_or(after.len());
        let (gap, next) = after.split_at(gap);
        kept.push_str(gap);
        rest = next;
    }
    kept
}

fn masked_word(word: &str) -> String {
    let token = SECRET_TEXTS
        .iter()
        .filter_map(|start| word.find(start))
        .min();
    let word = match token.and_then(|at| word.get(..at)) {
        Some(before) => format!("{before}{MASK}"),
        None => word.to_owned(),
    };
    match word.contains("://") && word.contains('@') {
        true => without_credentials(&word),
        false => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_masked_by_its_type() {
        for (key, value, expected) in [
            ("join", "fl1.abc", MASK),
            ("join", "@join.txt", "@join.txt"),
            ("store-password", "p", MASK),
            ("store-password-file", "/run/p", "/run/p"),
            ("otlp-headers", "a=b", MASK),
            ("otlp-headers-file", "/run/h", "/run/h"),
            ("store", "postgres://u:pw@db/x", "postgres://***@db/x"),
            ("hub", "https://hub.example", "https://hub.example"),
            ("log", "info", "info"),
        ] {
            assert_eq!(shown(key, value), expected, "{key}");
        }
        assert_eq!(without_credentials("user:pw@proxy:3128"), "***@proxy:3128");
    }

    #[test]
    fn token_in_a_text_is_found_by_its_form() {
        let text = "join=fl2.AAAA_b-c next=\"flt_xyz\" via http://u:pw@proxy:1, done\n";
        let masked = without_tokens(text);
        assert_eq!(
            masked,
            "join=*** next=\"***\" via http://***@proxy:1, done\n"
        );
    }

    #[test]
    fn parts_of_a_secret_are_secrets() {
        let found = parts("http://user:p%40ss@proxy:3128");
        for part in ["user:p%40ss", "p%40ss", "p@ss"] {
            assert!(found.iter().any(|it| it == part), "{part}: {found:?}");
        }
        let headers = parts("authorization=Bearer abc,tenant=1");
        assert!(headers.iter().any(|it| it == "Bearer abc"), "{headers:?}");
        assert!(headers.iter().all(|it| it != "1"), "{headers:?}");
    }
}
