//! `fairlead help`: the help of one command, of all commands on one page, or as manual pages.

mod man;
mod page;

use std::{
    fmt::Write as _,
    io::{self, IsTerminal},
};

use fairlead_api::{Code, Failure};
use fairlead_client::Environment;

use self::page::{HelpEntry, HelpPage, pages};
use crate::args::{self, Help, HelpFormat};
use fairlead_commands::output;

/// Line width of the text page where neither `COLUMNS` nor the terminal sets one.
const DEFAULT_WIDTH: usize = 100;
/// Indent of the description below a flag.
const HELP_INDENT: usize = 6;

pub(crate) fn run(args: &Help, environment: &Environment) -> Result<(), Failure> {
    if let Some(folder) = &args.man {
        return man::write(&pages(args::command()), folder, environment);
    }
    if args.all {
        let pages = pages(args::command());
        return Ok(output::print(&match args.output {
            HelpFormat::Text => text(&pages, output::line_width().unwrap_or(DEFAULT_WIDTH)),
            HelpFormat::Markdown => markdown(&pages),
        })?);
    }
    let mut root = args::command();
    root.build();
    let mut command = &mut root;
    for word in &args.command {
        let unknown = || {
            Failure::because(Code::Usage, format_args!("unknown command {word:?}"))
                .next("List all commands with `fairlead --help`.")
        };
        command = command.find_subcommand_mut(word).ok_or_else(unknown)?;
    }
    let help = command.render_help();
    Ok(output::print(&match io::stdout().is_terminal() {
        true => help.ansi().to_string(),
        false => help.to_string(),
    })?)
}

/// All pages as plain text, wrapped at `width` columns.
fn text(pages: &[HelpPage], width: usize) -> String {
    let mut out = String::new();
    for (index, page) in pages.iter().enumerate() {
        // Writing into a text cannot fail.
        let blank = if index == 0 { "" } else { "\n\n" };
        let _ = writeln!(
            out,
            "{blank}{}\n{}\n",
            page.path,
            "=".repeat(page.path.len())
        );
        let _ = writeln!(
            out,
            "{}\n\nUsage: {}",
            wrap(&page.about, 0, width),
            page.usage
        );
        if !page.aliases.is_empty() {
            let _ = writeln!(out, "Alias: {}", page.aliases.join(", "));
        }
        for (heading, entries) in page.sections() {
            let _ = writeln!(out, "\n{heading}:");
            for HelpEntry { spec, help } in entries {
                let _ = writeln!(out, "  {spec}");
                if !help.is_empty() {
                    let _ = writeln!(out, "{}", wrap(help, HELP_INDENT, width));
                }
            }
        }
        if !page.epilogue.is_empty() {
            let _ = writeln!(out, "\n{}", page.epilogue);
        }
    }
    out
}

/// All pages as one Markdown document, with a heading for each command.
fn markdown(pages: &[HelpPage]) -> String {
    let mut out = "# Command-line reference\n".to_owned();
    for page in pages {
        // Writing into a text cannot fail.
        let _ = writeln!(out, "\n## {}\n\n{}\n", page.path, escaped(&page.about));
        let _ = writeln!(out, "```text\n{}\n```", page.usage);
        for alias in &page.aliases {
            let _ = writeln!(out, "\nAlias: `{alias}`");
        }
        for (heading, entries) in page.sections() {
            let _ = writeln!(out, "\n{heading}:\n");
            for HelpEntry { spec, help } in entries {
                let colon = if help.is_empty() { "" } else { ": " };
                let _ = writeln!(out, "- `{spec}`{colon}{}", escaped(help));
            }
        }
        if !page.epilogue.is_empty() {
            let _ = writeln!(out, "\n```text\n{}\n```", page.epilogue);
        }
    }
    out
}

/// Text outside of code spans, with the characters escaped that Markdown or HTML would interpret.
fn escaped(text: &str) -> String {
    let mut in_code = false;
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        in_code ^= character == '`';
        if !in_code && matches!(character, '<' | '>' | '*' | '_' | '[' | ']') {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

/// Breaks text between words; each line starts with `indent` spaces.
fn wrap(text: &str, indent: usize, width: usize) -> String {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            let length =
                indent + console::measure_text_width(&line) + 1 + console::measure_text_width(word);
            if !line.is_empty() && length > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    let indented = lines.iter().map(|line| format!("{:indent$}{line}", ""));
    indented.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_of_all_commands_names_each_command_once() {
        let pages = pages(args::command());
        let text = text(&pages, 80);
        for title in [
            "fairlead cluster token renew",
            "fairlead agent uninstall",
            "fairlead help",
        ] {
            let heading = format!("\n{title}\n{}\n", "=".repeat(title.len()));
            assert_eq!(text.matches(&heading).count(), 1, "{title}");
        }
        assert!(!text.contains("help help"));
    }

    #[test]
    fn text_page_keeps_to_the_width() {
        let pages = pages(args::command());
        let text = text(&pages, 60);
        let long = text.lines().filter(|line| line.starts_with("      "));
        for line in long {
            assert!(line.len() <= 60 || !line.trim().contains(' '), "{line}");
        }
    }

    #[test]
    fn markdown_has_a_heading_a_usage_and_the_flags() {
        let text = markdown(&pages(args::command()));
        assert!(text.contains("\n## fairlead cluster list\n"));
        assert!(text.contains("```text\nfairlead cluster list [OPTIONS]\n```"));
        assert!(text.contains("\n- `-l, --selector <SELECTOR>`: "), "{text}");
        assert_eq!(text.matches("```").count() % 2, 0);
    }

    #[test]
    fn markdown_escapes_placeholders_outside_of_code() {
        assert_eq!(
            escaped("<id>.<domain> and `<id>`"),
            r"\<id\>.\<domain\> and `<id>`"
        );
    }
}
