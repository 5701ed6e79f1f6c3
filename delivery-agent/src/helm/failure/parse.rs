//! Parts of Helm's texts.

use super::shown;
use crate::helm::target::ReleaseTarget;

/// Longest part of a text of Helm in a sentence, in characters.
const MAX_TEXT_CHARS: usize = 300;

/// The last error in the lines of stderr, without its prefixes.
pub(super) fn error_text(errors: &str) -> &str {
    let error = errors.rfind("\nError: ").map(|at| at + 1);
    let error = error.or_else(|| errors.starts_with("Error: ").then_some(0));
    let mut text = error.and_then(|at| errors.get(at..)).unwrap_or(errors);
    for prefix in ["Error: ", "UPGRADE FAILED: ", "INSTALLATION FAILED: "] {
        text = text.strip_prefix(prefix).unwrap_or(text);
    }
    let hint = text.find("\nUse --debug flag");
    hint.and_then(|at| text.get(..at)).unwrap_or(text).trim()
}

/// The text on one line, bounded.
pub(super) fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_TEXT_CHARS) {
        None => line,
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
    }
}

/// The text behind a mark.
pub(super) fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.split_once(mark).map(|(_, rest)| rest)
}

/// The text between two marks.
pub(super) fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    after(text, start)?.split_once(end).map(|(found, _)| found)
}

/// Problems of values, like `value replicas of chart shop: got string, want integer`.
///
/// Helm prints the name of a chart, then a line for each problem: `- at '/db': missing property 'host'`.
pub(super) fn schema_problem(problems: &str) -> String {
    let mut chart = "";
    let mut found = Vec::new();
    for line in problems
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        match line.strip_prefix("- at '") {
            None => chart = line.trim_end_matches(':'),
            Some(problem) => {
                let (path, problem) = problem.split_once("': ").unwrap_or(("", problem));
                let path = path.trim_start_matches('/').replace('/', ".");
                found.push(match path.as_str() {
                    "" => format!("values of chart {chart}: {problem}"),
                    path => format!("value {path} of chart {chart}: {problem}"),
                });
            }
        }
    }
    match found.is_empty() {
        true => one_line(problems),
        false => one_line(&found.join("; ")),
    }
}

/// File and line of a fault in a template, and the fault.
pub(super) fn template_place(text: &str) -> Option<(String, String)> {
    for mark in ["execution error at (", "parse error at ("] {
        if let Some((place, problem)) = after(text, mark).and_then(|it| it.split_once("): ")) {
            return Some((place.to_owned(), one_line(problem)));
        }
    }
    let (file, problem) = after(text, "YAML parse error on ")?.split_once(": ")?;
    let problem = problem.rsplit("error converting YAML to JSON: ").next();
    Some((file.to_owned(), one_line(problem.unwrap_or_default())))
}

/// A fault of a template in several lines: file and line, then `executing …`, then the problem.
pub(super) fn template_trace(text: &str) -> Option<(String, String)> {
    let (place, rest) = text.split_once('\n')?;
    let is_place = place.contains("/templates/") && !place.contains(' ');
    if !is_place || !rest.trim_start().starts_with("executing ") {
        return None;
    }
    Some((place.to_owned(), one_line(rest)))
}

/// Object in `for object NAMESPACE/NAME GROUP/VERSION, Kind=KIND:`.
pub(super) fn kube_object(text: &str) -> Option<String> {
    let rest = after(text, "object ")?;
    let (path, rest) = rest.split_once(' ')?;
    let (namespace, name) = path.split_once('/')?;
    let kind = after(rest, "Kind=")?;
    let kind = kind
        .split(|c: char| !c.is_alphanumeric())
        .next()
        .unwrap_or_default();
    Some(shown(kind, namespace, name))
}

/// Sentence about an object that belongs to somebody else.
pub(super) fn import_conflict(text: &str, target: &ReleaseTarget) -> String {
    let quoted = |mark| between(text, mark, "\"").unwrap_or_default().to_owned();
    let head = text.split(" exists and cannot be imported").next();
    let kind = head
        .unwrap_or_default()
        .split(" \"")
        .next()
        .unwrap_or_default();
    let kind = kind.rsplit(' ').next().unwrap_or_default();
    let name = head.and_then(|it| between(it, " \"", "\""));
    let namespace = quoted("in namespace \"");
    let object = shown(kind, &namespace, name.unwrap_or_default());
    let current = |key: &str| {
        let rest = after(text, key)?;
        between(rest, "current value is \"", "\"").filter(|it| !it.is_empty())
    };
    let release = current("meta.helm.sh/release-name");
    let release_namespace = current("meta.helm.sh/release-namespace");
    match (release, release_namespace) {
        (None, None) => format!("{object} exists already, and belongs to no release"),
        (release, namespace) => {
            let release = release.unwrap_or(target.name.as_str());
            let namespace = namespace.unwrap_or(target.namespace.as_str());
            format!("{object} belongs to Helm release {namespace}/{release}")
        }
    }
}

/// Sentence about a field that cannot change.
pub(super) fn immutable_object(text: &str) -> String {
    let object = kube_object(text).or_else(|| {
        let name = between(text, "cannot patch \"", "\"")?;
        let kind = between(text, "with kind ", ":")?;
        Some(format!("{kind} {name}"))
    });
    let object = object.unwrap_or_else(|| "an object".to_owned());
    let field = after(text, "is invalid: ").and_then(|it| it.split(": ").next());
    match field.filter(|it| !it.contains(' ')) {
        Some(field) => format!("{object}: field {field} cannot change"),
        None => format!("{object}: {}", one_line(text)),
    }
}

/// User and missing rule of RBAC, in `User "U" cannot VERB resource "R" in API group "G"`.
pub(super) fn missing_right(text: &str) -> Option<(String, String)> {
    let rest = after(text, "is forbidden: User \"")?;
    let (user, rest) = rest.split_once("\" cannot ")?;
    let (verb, rest) = rest.split_once(" resource \"")?;
    let (resource, rest) = rest.split_once('"')?;
    let group = between(rest, "in API group \"", "\"").unwrap_or_default();
    let rule = serde_json::json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]});
    let scope = between(rest, "in the namespace \"", "\"");
    let scope = scope.map_or("in the cluster".to_owned(), |it| {
        format!("in namespace {it}")
    });
    Some((user.to_owned(), format!("{rule} {scope}")))
}
