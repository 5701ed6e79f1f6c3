//! Checks the order of this crate's modules: each imports only modules before it.

use std::{fs, path::Path};

/// From the ground up. Nothing here may import a module behind it.
const ORDER: [&str; 22] = [
    "close",
    "path",
    "sync",
    "memory",
    "websocket",
    "frames",
    "read_ahead",
    "splice",
    "upgrade",
    "error",
    "limits",
    "watched",
    "tls",
    "tcp_options",
    "link",
    "wire",
    "mux",
    "secure",
    "session",
    "exchange",
    "dial",
    "accept",
];

/// Top-level modules that follow `crate::` in `source`.
fn imports(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, name) in source.match_indices("crate::") {
        let rest = &source[at + name.len()..];
        if !rest.starts_with('{') {
            found.push(rest);
            continue;
        }
        let mut depth = 0;
        for (at, character) in rest.char_indices() {
            match character {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            if depth == 1 && matches!(character, '{' | ',') {
                found.push(rest[at + 1..].trim_start());
            }
        }
    }
    let is_end = |character: char| !character.is_alphanumeric() && character != '_';
    found
        .into_iter()
        .map(|text| text.split(is_end).next().unwrap_or_default())
        .filter(|name| !name.is_empty())
        .collect()
}

fn check(path: &Path, module: &str) {
    let rank = |name: &str| ORDER.iter().position(|known| *known == name);
    let source = fs::read_to_string(path).unwrap();
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    for name in imports(source).into_iter().filter(|name| *name != module) {
        let (own, other) = (rank(module), rank(name));
        assert!(
            own.is_some() && other.is_some() && other < own,
            "{}: `{module}` must not import `{name}`, see ORDER",
            path.display()
        );
    }
}

fn check_folder(folder: &Path, module: Option<&str>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name == "tests" || (module.is_none() && matches!(&*name, "lib" | "rig" | "layers")) {
            continue;
        }
        let module = module.unwrap_or(&name);
        if path.is_dir() {
            check_folder(&path, Some(module));
        } else {
            check(&path, module);
        }
    }
}

#[test]
fn modules_import_only_modules_before_them() {
    check_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), None);
}
