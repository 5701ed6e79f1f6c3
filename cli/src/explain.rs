//! `fairlead explain`: the table of codes, for people and programs.

use fairlead_api::{Code, Failure, resources::List};
use serde::Serialize;

use crate::{
    args::Explain,
    output::{self, Cell, Column},
};

/// One code as it is explained.
#[derive(Serialize)]
struct Explained {
    code: Code,
    cause: &'static str,
    check: &'static str,
    next: &'static str,
    /// HTTP status; none where the code never travels over HTTP.
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
    let format = &args.output.output;
    let Some(code) = &args.code else {
        let items = Code::ALL.iter().copied().map(Explained::from).collect();
        let columns = [
            Column::key("CODE"),
            Column::text("CAUSE"),
            Column::text("NEXT").wide(),
        ];
        return output::show_list(format, &List { items }, "codes", &columns, cells);
    };
    let unknown = |error| {
        Failure::because(Code::NotFound, format_args!("{code:?} is {error}"))
            .next("List all codes with `fairlead explain`.")
    };
    let code: Code = code.parse().map_err(unknown)?;
    output::show_named(
        format,
        &Explained::from(code),
        |it| format!("{}\n", it.code),
        text,
    )
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
    fn commands_in_explanations_are_those_of_this_command_line() {
        let mut count = 0;
        for &code in Code::ALL {
            for line in commands(code.check()).chain(commands(code.next_step())) {
                let words = line.split(' ').map(|it| match it.trim_matches('\'') {
                    "URL" => "https://hub.example",
                    "TENANT" => "t-acme",
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
    fn an_explanation_has_cause_check_and_next_step() {
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
}
