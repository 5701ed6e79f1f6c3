//! Names of integration tests: one crate has each, because `cargo test --workspace --test NAME` starts all of that name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

/// One line for each name that more than one crate has.
pub(crate) fn check(root: &Path) -> io::Result<Vec<String>> {
    let mut tests = Vec::new();
    for folder in fs::read_dir(root)? {
        let folder = folder?;
        let Ok(files) = fs::read_dir(folder.path().join("tests")) else {
            continue;
        };
        for file in files {
            let path = file?.path();
            let is_file = path.extension().is_some_and(|it| it == "rs");
            let is_test = is_file || path.join("main.rs").is_file();
            if let Some(name) = path.file_stem().filter(|_| is_test) {
                let name = name.to_string_lossy().into_owned();
                tests.push((folder.file_name().to_string_lossy().into_owned(), name));
            }
        }
    }
    Ok(shared(tests))
}

/// Findings about tests of several crates, each with its crate.
fn shared(tests: Vec<(String, String)>) -> Vec<String> {
    let mut crates = BTreeMap::<String, BTreeSet<String>>::new();
    for (of, name) in tests {
        crates.entry(name).or_default().insert(of);
    }
    let shared = crates.into_iter().filter(|(_, of)| of.len() > 1);
    let finding = |(name, of): (String, BTreeSet<String>)| {
        let of: Vec<_> = of.into_iter().collect();
        format!(
            "{}: tests with the name {name} of another crate",
            of.join(", ")
        )
    };
    shared.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_two_crates_is_a_finding() {
        let tests = [("a", "same"), ("a", "own"), ("b", "same"), ("b", "other")];
        let tests = tests.map(|(of, name)| (of.to_owned(), name.to_owned()));
        assert_eq!(
            shared(tests.into()),
            ["a, b: tests with the name same of another crate"]
        );
    }
}
