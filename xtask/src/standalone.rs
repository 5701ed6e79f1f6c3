//! The dialer as a library: it needs no other crate of the workspace than `api`, its examples stay short, and the document
//! about it shows them as they are.

use crate::sources::Source;

/// Manifests, each with the crates of the workspace that it may name.
const MANIFESTS: [(&str, &[&str]); 2] = [
    ("dialer/Cargo.toml", &["fairlead-api"]),
    ("api/Cargo.toml", &[]),
];
const EXAMPLES: [&str; 2] = ["dialer/examples/agent.rs", "dialer/examples/hub.rs"];
const DOCUMENT: &str = "docs/dialer.md";
/// Limit of an example, in lines.
const MAX_EXAMPLE_LINES: usize = 59;

pub(crate) fn check(files: &[Source]) -> Vec<String> {
    let text = |path: &str| {
        let file = files.iter().find(|file| file.path == path);
        file.map(|file| file.text.as_str())
    };
    let missing = |path: &str| format!("{path}: missing");
    let mut findings = Vec::new();
    for (path, allowed) in MANIFESTS {
        match text(path) {
            Some(manifest) => findings.extend(dependencies(path, manifest, allowed)),
            None => findings.push(missing(path)),
        }
    }
    let document = text(DOCUMENT);
    if document.is_none() {
        findings.push(missing(DOCUMENT));
    }
    for path in EXAMPLES {
        match text(path) {
            Some(example) => findings.extend(shown(path, example, document.unwrap_or_default())),
            None => findings.push(missing(path)),
        }
    }
    findings
}

/// Crates of the workspace that the manifest names and may not name.
fn dependencies(path: &str, manifest: &str, allowed: &[&str]) -> Vec<String> {
    let lines = (1..).zip(manifest.lines());
    // The package's own name.
    let lines = lines.filter(|(_, text)| !text.starts_with("name = "));
    let names = lines.flat_map(|(line, text)| {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        let foreign = words.filter(|it| it.starts_with("fairlead") && !allowed.contains(it));
        foreign.map(move |name| format!("{path}:{line}: {name} is no part of the library"))
    });
    names.collect()
}

/// Findings about an example and its copy in the document.
fn shown(path: &str, example: &str, document: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let lines = example.lines().count();
    if lines > MAX_EXAMPLE_LINES {
        findings.push(format!(
            "{path}: {lines} lines, {MAX_EXAMPLE_LINES} at most"
        ));
    }
    if !document.contains(&format!("```rust\n{example}```\n")) {
        findings.push(format!("{DOCUMENT}: it does not show {path} as it is"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_crate_of_the_workspace_is_a_finding() {
        let manifest = "[package]\nname = \"fairlead-dialer\"\n[dependencies]\nfairlead-api.workspace = true\n[dependencies.fairlead-certs]\n";
        assert_eq!(
            dependencies("Cargo.toml", manifest, &["fairlead-api"]),
            ["Cargo.toml:5: fairlead-certs is no part of the library"]
        );
    }

    #[test]
    fn long_or_changed_example_is_a_finding() {
        let document = "Text.\n\n```rust\nfn main() {}\n```\n";
        assert!(shown("a.rs", "fn main() {}\n", document).is_empty());
        assert_eq!(shown("a.rs", "fn main() { }\n", document).len(), 1);
        let long = "//\n".repeat(MAX_EXAMPLE_LINES + 1);
        assert_eq!(shown("a.rs", &long, document).len(), 2);
    }
}
