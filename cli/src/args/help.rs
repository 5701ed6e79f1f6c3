//! Overview of `fairlead --help`: commands under headings, with the texts of the commands.

use std::fmt::Write as _;

use clap::Command;

/// Headings with their commands, in the order of the page.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Access",
        &[
            "login",
            "logout",
            "hub",
            "whoami",
            "kubeconfig",
            "credential",
            "token",
            "access",
            "lock",
            "unlock",
            "locks",
            "sessions",
        ],
    ),
    (
        "Clusters",
        &[
            "cluster",
            "adoption",
            "upgrade",
            "top",
            "forward",
            "nc",
            "proxy",
            "service",
            "tenant",
            "facts",
            "find",
            "inventory",
            "maintenance",
            "changes",
            "audit",
            "recording",
        ],
    ),
    (
        "Delivery",
        &[
            "deploy",
            "diff",
            "bundle",
            "rollback",
            "rollout",
            "deployment",
            "run",
            "source",
            "group",
        ],
    ),
    (
        "Operate",
        &[
            "dev",
            "server",
            "agent",
            "doctor",
            "support-bundle",
            "runner",
            "ca",
            "git-server",
            "vault",
            "backup",
            "restore",
            "confirm-restore",
            "store",
            "import",
        ],
    ),
    ("Help", &["help", "explain", "version", "completion"]),
];

/// Adds the overview to the definition of the command line.
pub(super) fn with_overview(command: Command) -> Command {
    let template = template(&command);
    command.help_template(template)
}

fn template(command: &Command) -> String {
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let names = command.get_subcommands().map(|it| it.get_name().len());
    let width = names.max().unwrap_or(0);
    let mut page = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in GROUPS {
        // Writing into a text cannot fail.
        let _ = writeln!(page, "\n{header}{heading}:{header:#}");
        for name in names {
            let Some(command) = command.find_subcommand(name) else {
                continue;
            };
            let about = command.get_about().map(ToString::to_string);
            let about = about.unwrap_or_default();
            let _ = writeln!(page, "  {literal}{name:width$}{literal:#}  {about}");
        }
    }
    let _ = write!(page, "\n{header}Options:{header:#}\n");
    page + "{options}{after-help}"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::command;

    #[test]
    fn every_command_is_under_one_heading() {
        let page = command().render_help().to_string();
        let shown = command();
        let shown = shown.get_subcommands().filter(|it| !it.is_hide_set());
        for name in shown.map(Command::get_name) {
            let lines = page.lines();
            let found = lines.filter(|line| line.trim_start().split("  ").next() == Some(name));
            assert_eq!(
                found.count(),
                1,
                "{name} is not in one of the groups:\n{page}"
            );
        }
        for (heading, _) in GROUPS {
            assert!(page.contains(&format!("\n{heading}:\n")), "{page}");
        }
    }

    #[test]
    fn every_list_has_the_alias_ls() {
        fn lists(command: &Command, path: &str) -> usize {
            let inner = command.get_subcommands().map(|it| {
                let path = format!("{path} {}", it.get_name());
                let is_list = it.get_name() == "list";
                if is_list {
                    let has = it.get_visible_aliases().any(|alias| alias == "ls");
                    assert!(has, "{path} has no alias ls");
                }
                usize::from(is_list) + lists(it, &path)
            });
            inner.sum()
        }
        assert!(lists(&command(), "fairlead") >= 4);
    }
}
