//! Check of the order of a crate's modules. Crates below this one include this file by its path.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Modules and folders that only tests use.
const TEST_MODULES: [&str; 3] = ["layers", "rig", "tests"];

/// Asserts that each module of a crate imports only modules of lower rows.
///
/// `src` is the folder of the sources. `layers` lists the top-level modules, the lowest row first. Modules of
/// one row are independent of each other.
///
/// # Panics
/// A module has no row, or imports a module of its own row or of a higher one.
pub fn check(src: &Path, layers: &[&[&str]]) {
    let row = |module: &str| {
        let found = layers.iter().position(|row| row.contains(&module));
        found.unwrap_or_else(|| panic!("{module} has no layer: add it to LAYERS"))
    };
    let mut files = Vec::new();
    sources(src, &mut files);
    for file in files {
        let within = file.strip_prefix(src).unwrap();
        let top = Path::new(within.components().next().unwrap().as_os_str());
        let top = top.file_stem().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        for import in imports(&text).into_iter().filter(|import| import != top) {
            let is_lower = row(&import) < row(top);
            assert!(is_lower, "{} imports {import}", within.display());
        }
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if TEST_MODULES.contains(&name) {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// First segments of `crate::a::b` and of each member of `crate::{a, b::{c, d}}`. Unit tests are excluded.
fn imports(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next();
    let mut found = Vec::new();
    for path in code.unwrap_or_default().split("crate::").skip(1) {
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
    let is_end = |c: char| !(c.is_alphanumeric() || c == '_');
    let first = |member: &String| member.trim().split(is_end).next().map(str::to_owned);
    let names = found.iter().filter_map(first);
    names.filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_found_in_lists_and_in_paths() {
        let text = "use crate::{a, b::{c, d}, e::f};\nuse crate::g;\nfn h() { crate::i::j() }";
        assert_eq!(imports(text), ["a", "b", "e", "g", "i"]);
    }
}
