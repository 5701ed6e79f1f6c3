//! `fairlead explain`.

use fairlead_api::{Code, Failure};

use crate::output::{self, Column, Format};

pub(crate) fn run(code: Option<&str>) -> Result<(), Failure> {
    let Some(code) = code else {
        let rows = Code::ALL
            .iter()
            .map(|code| [code.to_string().into(), code.title().into()]);
        let columns = [Column::key("CODE"), Column::text("MEANING")];
        return output::print(&output::table(&Format::Table, &columns, rows));
    };
    let unknown = |error| Failure::because(Code::NotFound, format_args!("{code:?} is {error}"));
    let code: Code = code.parse().map_err(unknown)?;
    let http = match code.http_status() {
        0 => String::new(),
        status => format!("http:  {status}\n"),
    };
    output::print(&format!(
        "code:  {code}\ncause: {}\nnext:  {}\n{http}",
        code.title(),
        code.next_step()
    ))
}
