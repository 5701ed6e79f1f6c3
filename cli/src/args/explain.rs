//! Arguments of `fairlead explain` and `fairlead help`.

use std::str::FromStr;

use clap::{Parser, ValueEnum};
use clap_complete::ArgValueCompleter;

use fairlead_commands::{complete, output::OutputFormat};

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  fairlead explain FL-1402
  fairlead explain --all
  fairlead explain -o json";

#[derive(Parser)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(crate) struct Explain {
    /// Code to explain, like FL-1402 or 1402 [default: list all codes]
    #[arg(value_name = "CODE")]
    pub(crate) code: Option<String>,
    /// Print the explanations of all codes, ordered by number
    #[arg(long, conflicts_with = "code")]
    pub(crate) all: bool,
    /// Output format: table, wide, json, yaml, name, jsonpath=TEMPLATE, custom-columns=NAME:.path,... or markdown
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "table",
        hide_default_value = true,
        add = ArgValueCompleter::new(complete::formats)
    )]
    pub(crate) output: ExplainFormat,
}

/// Output format of `fairlead explain`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ExplainFormat {
    /// A document with a section for each code.
    Markdown,
    Data(OutputFormat),
}

impl FromStr for ExplainFormat {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "markdown" => Ok(ExplainFormat::Markdown),
            text => text.parse().map(ExplainFormat::Data),
        }
    }
}

const HELP_EXAMPLES: &str = "\
Examples:
  fairlead help cluster create
  fairlead help --all
  fairlead help --man ~/.local/share/man/man1";

#[derive(Parser)]
#[command(after_help = HELP_EXAMPLES)]
pub(crate) struct Help {
    /// Command to describe, like `cluster create` [default: list all commands]
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// Print the help of every command on one page
    #[arg(long, conflicts_with = "command")]
    pub(crate) all: bool,
    /// Write a manual page of every command into this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["command", "all"])]
    pub(crate) man: Option<std::path::PathBuf>,
    /// Format of the page
    #[arg(
        short,
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "text",
        requires = "all"
    )]
    pub(crate) output: HelpFormat,
}

/// Output format of `fairlead help --all`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HelpFormat {
    Text,
    Markdown,
}
