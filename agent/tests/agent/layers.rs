//! Modules of the agent import only from the layers below their own.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Top-level modules, lowest layer first. A module never imports from its own layer or from one above.
const LAYERS: [&[&str]; 8] = [
    &["backoff", "body", "config", "metrics"],
    &["target"],
    &["upstream"],
    &["hub_request", "identity", "objects", "role_bindings"],
    &["context"],
    &["configuration", "facts", "proxy"],
    &["link"],
    &["lib", "uninstall"],
];

fn layer(module: &str) -> usize {
    let holds = |modules: &&[&str]| modules.contains(&module);
    let found = LAYERS.iter().position(holds);
    found.unwrap_or_else(|| panic!("{module} has no layer: add it to LAYERS"))
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// First segments of `crate::a::b` and of each member of `crate::{a, b::{c, d}}`. Unit tests are excluded.
fn imports(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    for path in code.split("crate::").skip(1) {
        let mut depth = 0_usize;
        let mut member = String::new();
        for c in path.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                ',' if depth == 1 => found.push(std::mem::take(&mut member)),
                _ => member.push(c),
            }
            if depth == 0 && !(c.is_alphanumeric() || c == '_') {
                break;
            }
        }
        found.push(member);
    }
    let first = |member: &String| {
        let name = member
            .trim()
            .split(|c: char| !(c.is_alphanumeric() || c == '_'));
        name.map(str::to_owned).next().unwrap_or_default()
    };
    let names = found.iter().map(first);
    names.filter(|name| !name.is_empty()).collect()
}

#[test]
fn modules_import_only_from_lower_layers() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    for file in files {
        let within = file.strip_prefix(&src).unwrap();
        let top = within.components().next().unwrap().as_os_str();
        let top = Path::new(top).file_stem().unwrap().to_str().unwrap();
        for import in imports(&fs::read_to_string(&file).unwrap()) {
            let is_lower = layer(&import) < layer(top);
            assert!(
                import == top || is_lower,
                "{} imports {import}",
                within.display()
            );
        }
    }
}

#[test]
fn imports_are_found_in_lists_and_in_paths() {
    let text = "use crate::{a, b::{c, d}, e::f};\nuse crate::g;\nfn h() { crate::i::j() }";
    assert_eq!(imports(text), ["a", "b", "e", "g", "i"]);
}
