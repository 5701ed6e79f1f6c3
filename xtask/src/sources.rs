//! The files that are checked, and the prose in them.

use std::{fs, io, path::Path};

/// Folders with files of others, build outputs and generated data.
const SKIPPED_DIRS: [&str; 4] = ["target", "corpus", "seeds", "node_modules"];

/// A text file of the repository.
pub(crate) struct Source {
    /// Path from the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) kind: Kind,
    /// Nearest folder with a `Cargo.toml`, else the first folder of the path, else `.`.
    pub(crate) group: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Rust,
    /// Markdown.
    Document,
    /// Shell scripts, Makefiles and TOML, with comments after `#`.
    Script,
}

impl Source {
    /// Lines of prose with their numbers, from 1: comments of code, all lines of a document.
    pub(crate) fn prose(&self) -> Vec<(usize, &str)> {
        let lines = (1..).zip(self.text.lines());
        match self.kind {
            Kind::Document => lines.collect(),
            Kind::Script => lines
                .filter_map(|(at, line)| Some((at, line.trim_start().strip_prefix('#')?)))
                .collect(),
            Kind::Rust => lines
                .filter_map(|(at, line)| Some((at, line_comment(line)?)))
                .collect(),
        }
    }
}

/// Text after `//`, `///` or `//!`, outside of string literals that begin on the same line.
fn line_comment(line: &str) -> Option<&str> {
    let mut in_string = false;
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' if !line[..at].ends_with('\'') => in_string = !in_string,
            '/' if !in_string => {
                if let Some(comment) = line[at..].strip_prefix("//") {
                    return Some(comment.trim_start_matches(['/', '!']));
                }
            }
            _ => {}
        }
    }
    None
}

fn group_of(root: &Path, path: &str) -> String {
    let folders = Path::new(path).ancestors().skip(1);
    let package = folders
        .filter(|it| !it.as_os_str().is_empty())
        .find(|it| root.join(it).join("Cargo.toml").exists());
    let first = path.split_once('/').map_or(".", |(first, _)| first);
    package.map_or(first.to_owned(), |it| it.to_string_lossy().into_owned())
}

/// Reads all sources below `root`, in the order of their paths.
pub(crate) fn read(root: &Path) -> io::Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            if kind.is_dir() && !name.starts_with('.') && !SKIPPED_DIRS.contains(&name.as_str()) {
                dirs.push(entry.path());
            } else if kind.is_file()
                && let Ok(text) = fs::read_to_string(entry.path())
                && let Some(kind) = kind_of(&name, &text)
            {
                let path = entry.path();
                let path = path.strip_prefix(root).unwrap_or(&path);
                let path = path.to_string_lossy().replace('\\', "/");
                let group = group_of(root, &path);
                sources.push(Source {
                    path,
                    text,
                    kind,
                    group,
                });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

fn kind_of(name: &str, text: &str) -> Option<Kind> {
    match name.rsplit_once('.') {
        Some((_, "rs")) => Some(Kind::Rust),
        Some((_, "md")) => Some(Kind::Document),
        Some((_, "toml" | "sh")) => Some(Kind::Script),
        None if name == "Makefile" || text.starts_with("#!") => Some(Kind::Script),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_told_from_strings() {
        assert_eq!(line_comment("let a = 1; // reason"), Some(" reason"));
        assert_eq!(line_comment("    /// Doc."), Some(" Doc."));
        assert_eq!(line_comment(r#"let url = "https://host";"#), None);
        assert_eq!(line_comment(r#"f("a\"//b"); // c"#), Some(" c"));
        assert_eq!(line_comment("a / b"), None);
    }
}
