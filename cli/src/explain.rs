//! `fairlead explain`: explanations of codes, for people and programs.

use std::fmt::Write as _;

use fairlead_api::{Code, Failure, resources::List};
use serde::Serialize;

use fairlead_commands::output::{self, Cell, TableColumn};

use crate::args::{Explain, ExplainFormat};

/// Explanation of one code.
#[derive(Serialize)]
struct Explained {
    code: Code,
    cause: &'static str,
    check: &'static str,
    next: &'static str,
    /// HTTP status; `None` for codes that are never sent over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<u16>,
}

impl From<Code> for Explained {
    fn from(code: Code) -> Self {
        Explained {
            code,
            cause: code.title(),
            check: code.check(),
            next: code.next_step(),
            http: Some(code.http_status()).filter(|status| *status != 0),
        }
    }
}

pub(crate) fn run(args: &Explain) -> Result<(), Failure> {
    let codes = match &args.code {
        Some(code) => vec![parse(code)?],
        None => Code::ALL.to_vec(),
    };
    let explained = || codes.iter().copied().map(Explained::from);
    let format = match &args.output {
        ExplainFormat::Markdown => return Ok(output::print(&markdown(&codes))?),
        ExplainFormat::Data(format) => format,
    };
    match (codes.as_slice(), args.all) {
        (&[code], false) => Ok(output::show_named(
            format,
            &Explained::from(code),
            |it| format!("{}\n", it.code),
            text,
        )?),
        (_, true) if format.is_table() => {
            let texts: Vec<_> = explained().map(|it| text(&it)).collect();
            Ok(output::print(&texts.join("\n"))?)
        }
        _ => {
            let columns = [
                TableColumn::key("CODE"),
                TableColumn::text("CAUSE"),
                TableColumn::text("NEXT").wide(),
            ];
            let items = explained().collect();
            Ok(output::show_list(
                format,
                &List { items },
                "codes",
                &columns,
                cells,
            )?)
        }
    }
}

fn parse(code: &str) -> Result<Code, Failure> {
    code.parse().map_err(|error| {
        Failure::because(Code::NotFound, format_args!("{code:?} is {error}"))
            .next("List all codes with `fairlead explain`.")
    })
}

fn cells(it: &Explained) -> [Cell; 3] {
    [it.code.to_string().into(), it.cause.into(), it.next.into()]
}

fn text(it: &Explained) -> String {
    let http = it.http.map_or(String::new(), |it| format!("http:  {it}\n"));
    format!(
        "code:  {}\ncause: {}\ncheck: {}\nnext:  {}\n{http}",
        it.code, it.cause, it.check, it.next
    )
}

/// Document with a section for each group of codes, and one for each code.
fn markdown(codes: &[Code]) -> String {
    let mut out = "# Error codes\n".to_owned();
    let mut group = "";
    for &code in codes {
        if code.group() != group {
            group = code.group();
            // Writing into a text cannot fail.
            let _ = write!(out, "\n## {group}\n");
        }
        let it = Explained::from(code);
        let http = it.http.map_or("none".to_owned(), |it| it.to_string());
        let _ = write!(
            out,
            "\n### {code}\n\n{}.\n\n- Check: {}\n- Next step: {}\n- HTTP status: {http}\n",
            capitalised(it.cause),
            it.check,
            it.next,
        );
    }
    out
}

/// The text with a capital first letter.
fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(characters).collect()
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    /// Commands between backticks that begin with `fairlead`.
    fn commands(text: &str) -> impl Iterator<Item = &str> {
        let quoted = text.split('`').skip(1).step_by(2);
        quoted.filter(|it| it.starts_with("fairlead "))
    }

    #[test]
    fn commands_in_explanations_are_valid() {
        let mut count = 0;
        for &code in Code::ALL {
            for line in commands(code.check()).chain(commands(code.next_step())) {
                let words = line.split(' ').map(|it| match it.trim_matches('\'') {
                    "URL" => "https://hub.example",
                    "TENANT" => "t-acme",
                    "BUNDLE" => "b-shop",
                    "SOURCE" => "s-platform",
                    "GROUP" => "g-edge",
                    "RUN" => "run-01KB0000000000000000000000",
                    word => word,
                });
                if let Err(error) = crate::args::command().try_get_matches_from(words) {
                    let fine = [ErrorKind::DisplayHelp, ErrorKind::MissingRequiredArgument];
                    assert!(fine.contains(&error.kind()), "{code}: {line}: {error}");
                }
                count += 1;
            }
        }
        assert!(count > 50, "{count}");
    }

    #[test]
    fn explanation_has_cause_check_and_next_step() {
        let shown = text(&Code::Lost.into());
        for part in [
            "code:  FL-1402\n",
            "\ncause: ",
            "\ncheck: ",
            "\nnext:  ",
            "\nhttp:  503\n",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let json = serde_json::to_value(Explained::from(Code::DialDns)).unwrap();
        assert!(json.get("http").is_none(), "{json}");
    }

    #[test]
    fn markdown_explains_every_code_in_number_order() {
        let text = markdown(Code::ALL);
        let places: Vec<_> = Code::ALL
            .iter()
            .map(|code| text.find(&format!("\n### {code}\n")).unwrap())
            .collect();
        assert!(places.is_sorted());
        assert_eq!(text.matches("\n- HTTP status: ").count(), Code::ALL.len());
    }
}
