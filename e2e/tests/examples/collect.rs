//! Collects commands from Markdown and help texts.

use std::fs;
use std::path::{Path, PathBuf};

use fairlead_e2e::fleet::fairlead;

/// A document or a help text, with its commands in order.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) name: String,
    pub(crate) commands: Vec<String>,
}

/// README and all pages of the book, as path and text.
pub(crate) fn texts() -> anyhow::Result<Vec<(String, String)>> {
    let root = Path::new(std::env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = pages(&root.join("docs"))?;
    files.push(root.join("README.md"));
    files.sort();
    let name = |file: &Path| file.file_name().unwrap_or_default().display().to_string();
    files
        .into_iter()
        .map(|file| Ok((name(&file), fs::read_to_string(&file)?)))
        .collect()
}

/// Markdown files below a folder.
fn pages(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            pages.extend(self::pages(&path)?);
        } else if path.extension().is_some_and(|it| it == "md") {
            pages.push(path);
        }
    }
    Ok(pages)
}

pub(crate) fn documents() -> anyhow::Result<Vec<Page>> {
    let pages = texts()?.into_iter().map(|(name, text)| Page {
        name,
        commands: in_fences(&text),
    });
    Ok(pages.filter(|page| !page.commands.is_empty()).collect())
}

/// The help pages of every command, recursively.
pub(crate) async fn helps() -> anyhow::Result<Vec<Page>> {
    let mut pages = Vec::new();
    for (words, help) in all_help().await? {
        let commands = in_examples(&help);
        if !commands.is_empty() {
            pages.push(Page {
                name: format!("fairlead {} --help", words.join(" ")),
                commands,
            });
        }
    }
    Ok(pages)
}

/// The words of each command and its help.
pub(crate) async fn all_help() -> anyhow::Result<Vec<(Vec<String>, String)>> {
    let home = tempfile::tempdir()?;
    let mut open = vec![Vec::new()];
    let mut all = Vec::new();
    while let Some(words) = open.pop() {
        let asked = [words.clone(), vec!["--help".to_owned()]].concat();
        let help = fairlead(home.path(), &asked, &[]).await?.success()?;
        for name in subcommands(&help) {
            open.push([words.clone(), vec![name]].concat());
        }
        all.push((words, help));
    }
    all.sort();
    Ok(all)
}

/// Names at the second column below a heading that is none of these.
fn subcommands(help: &str) -> Vec<String> {
    const OTHERS: [&str; 9] = [
        "Options:",
        "Arguments:",
        "Example:",
        "Examples:",
        "Exit codes:",
        "Keys:",
        "Network of the site:",
        "Roles",
        "Environment",
    ];
    let mut among = false;
    let mut names = Vec::new();
    for line in help.lines() {
        if !line.starts_with(' ') && line.contains(':') {
            among = !line.starts_with("Usage:") && !OTHERS.iter().any(|it| line.starts_with(it));
            continue;
        }
        let Some(entry) = line.strip_prefix("  ").filter(|_| among) else {
            continue;
        };
        let name = entry.split([' ', ',']).next().unwrap_or_default();
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        if is_name && name != "help" {
            names.push(name.to_owned());
        }
    }
    names
}

/// Lines that start with `$ ` in fences of any kind, and all lines of `sh` fences.
fn in_fences(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut fence: Option<bool> = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            fence = match fence {
                Some(_) => None,
                None => Some(kind == "sh"),
            };
            continue;
        }
        let command = match fence {
            Some(true) => Some(line),
            Some(false) => line.strip_prefix("$ "),
            None => None,
        };
        if let Some(command) = command.filter(|it| !it.trim().is_empty()) {
            commands.push(joined(command, &mut lines));
        }
    }
    commands
}

/// Lines below `Examples:` at the second column.
fn in_examples(help: &str) -> Vec<String> {
    let heading = |line: &&str| line.starts_with("Example:") || line.starts_with("Examples:");
    let mut lines = help.lines().skip_while(|line| !heading(line)).skip(1);
    let mut commands = Vec::new();
    while let Some(line) = lines.next() {
        match line.strip_prefix("  ") {
            Some(command) => commands.push(joined(command, &mut lines)),
            None => break,
        }
    }
    commands
}

/// Joins a line with the next ones where it ends in a backslash.
fn joined<'a>(first: &'a str, lines: &mut impl Iterator<Item = &'a str>) -> String {
    let mut command = first.trim().to_owned();
    while let Some(head) = command.strip_suffix('\\') {
        let next = lines.next().unwrap_or_default();
        command = format!("{}{}", head, next.trim());
    }
    command
}
