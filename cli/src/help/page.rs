//! Pages of help, read from the definition of the command line.

use clap::{Arg, Command};

/// Help of one command.
pub(super) struct HelpPage {
    /// Full command, like `fairlead cluster get`.
    pub(super) path: String,
    /// Other names of the command, like `ls` for `list`.
    pub(super) aliases: Vec<String>,
    pub(super) about: String,
    pub(super) usage: String,
    commands: Vec<HelpEntry>,
    arguments: Vec<HelpEntry>,
    options: Vec<HelpEntry>,
    /// Examples and notes.
    pub(super) epilogue: String,
}

/// One subcommand, argument or flag.
pub(super) struct HelpEntry {
    pub(super) spec: String,
    pub(super) help: String,
}

/// Pages of a command and of all commands below it, each before its own subcommands.
pub(super) fn pages(mut root: Command) -> Vec<HelpPage> {
    root.build();
    let mut pages = Vec::new();
    collect(&root, root.get_name(), &mut pages);
    pages
}

fn collect(command: &Command, path: &str, pages: &mut Vec<HelpPage>) {
    pages.push(HelpPage::of(command, path));
    for inner in commands(command, path) {
        collect(inner, &format!("{path} {}", inner.get_name()), pages);
    }
}

/// Subcommands without the `help` that clap adds to each group.
fn commands<'a>(command: &'a Command, path: &str) -> impl Iterator<Item = &'a Command> {
    let is_root = !path.contains(' ');
    let inner = command.get_subcommands().filter(|it| !it.is_hide_set());
    inner.filter(move |it| is_root || it.get_name() != "help")
}

impl HelpPage {
    fn of(command: &Command, path: &str) -> Self {
        let usage = command.clone().render_usage().to_string();
        let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
        let arguments = command
            .get_arguments()
            .filter(|it| !is_builtin(it) && !it.is_hide_set());
        let (arguments, options): (Vec<_>, Vec<_>) = arguments.partition(|it| it.is_positional());
        let inner = commands(command, path).map(|it| HelpEntry {
            spec: it.get_name().to_owned(),
            help: it.get_about().map(ToString::to_string).unwrap_or_default(),
        });
        HelpPage {
            path: path.to_owned(),
            aliases: command
                .get_visible_aliases()
                .map(ToOwned::to_owned)
                .collect(),
            about: command
                .get_about()
                .map(ToString::to_string)
                .unwrap_or_default(),
            usage: usage.trim_end().to_owned(),
            commands: inner.collect(),
            arguments: arguments.into_iter().map(entry).collect(),
            options: options.into_iter().map(entry).collect(),
            epilogue: command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default(),
        }
    }

    /// Headings with their entries; empty ones are omitted.
    pub(super) fn sections(&self) -> impl Iterator<Item = (&'static str, &[HelpEntry])> {
        let all = [
            ("Commands", self.commands.as_slice()),
            ("Arguments", self.arguments.as_slice()),
            ("Options", self.options.as_slice()),
        ];
        all.into_iter().filter(|(_, entries)| !entries.is_empty())
    }
}

/// `--help` and `--version`, the same for every command.
fn is_builtin(argument: &Arg) -> bool {
    matches!(argument.get_id().as_str(), "help" | "version")
}

fn entry(argument: &Arg) -> HelpEntry {
    let short = argument.get_short();
    let short = short.filter(|_| argument.get_long().is_some());
    let short = short.map_or(String::new(), |it| format!("-{it}, "));
    let help = argument.get_help().map(ToString::to_string);
    let mut help = help.unwrap_or_default();
    if !argument.is_hide_default_value_set() {
        let values = argument.get_default_values().iter();
        let values: Vec<_> = values.map(|it| it.to_string_lossy()).collect();
        if !values.is_empty() && argument.get_action().takes_values() {
            help += &format!(" [default: {}]", values.join(" "));
        }
    }
    let possible = argument.get_possible_values();
    let names: Vec<_> = possible.iter().map(|it| it.get_name()).collect();
    if !names.is_empty() && argument.get_action().takes_values() {
        help += &format!(" [possible values: {}]", names.join(", "));
    }
    if let Some(variable) = argument.get_env() {
        help += &format!(" [env: {}]", variable.to_string_lossy());
    }
    HelpEntry {
        spec: format!("{short}{argument}"),
        help: help.trim_start().to_owned(),
    }
}
