//! Plots of a Markdown page, drawn from the tables of the same page, so that plots and tables agree.
//!
//! An image `![ROW: AXIS](images/NAME.svg)` is the plot of the table row with the first cell `ROW`.

use std::path::PathBuf;

use anyhow::Context as _;

use super::{model::ReportFigure, plot::Bars};
use crate::peers::Kind;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The page; its images are written beside it
    page: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let page = || format!("reading {}", args.page.display());
    let text = std::fs::read_to_string(&args.page).with_context(page)?;
    let folder = args.page.parent().unwrap_or_else(|| ".".as_ref());
    for (name, bars) in plots(&text)? {
        let file = folder.join(name);
        let writing = || format!("writing {}", file.display());
        std::fs::write(&file, bars.svg()?).with_context(writing)?;
    }
    Ok(())
}

/// Each linked plot with its path.
///
/// # Errors
/// An image names a row that no table has.
fn plots(page: &str) -> anyhow::Result<Vec<(&str, Bars)>> {
    let images = page.lines().filter_map(image);
    let drawn = images.map(|(row, axis, path)| {
        let rows = bars(page, row).with_context(|| format!("no table has the row {row:?}"))?;
        let (title, axis) = (row.to_owned(), axis.to_owned());
        Ok((path, Bars { title, axis, rows }))
    });
    drawn.collect()
}

/// Row, axis and path of a line like `![ROW: AXIS](images/NAME.svg)`; rows may contain colons.
fn image(line: &str) -> Option<(&str, &str, &str)> {
    let (alt, path) = line.strip_prefix("![")?.split_once("](")?;
    let (row, axis) = alt.rsplit_once(": ")?;
    Some((row, axis, path.strip_suffix(')')?))
}

/// The first row with this label, of any table, with the peers of the table's head.
fn bars(page: &str, label: &str) -> Option<Vec<(Kind, ReportFigure)>> {
    let mut head: Vec<&str> = Vec::new();
    for line in page.lines() {
        let Some(cells) = line.strip_prefix("| ") else {
            if !line.starts_with('|') {
                head.clear();
            }
            continue;
        };
        let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
        let first = cells.first().copied().unwrap_or_default();
        if first == label {
            let both = head.iter().zip(&cells).skip(1);
            return Some(both.filter_map(|(peer, cell)| bar(peer, cell)).collect());
        }
        if head.is_empty() {
            head = cells;
        }
    }
    None
}

fn bar(peer: &str, cell: &str) -> Option<(Kind, ReportFigure)> {
    let name = if peer == "one-hop proxy" {
        "proxy"
    } else {
        peer
    };
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name)?;
    let median = cell.split(' ').next()?.trim_matches('*').parse().ok()?;
    let figure = ReportFigure {
        median,
        low: median,
        high: median,
    };
    Some((kind, figure))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const PAGE: &str = "\
![a, req/s: more is better](images/a.svg)

| some | direct | one-hop proxy | fairlead |
|---|---:|---:|---:|
| b | 1 | 2 | **3** |
| a, req/s | 10 (0.5) | | **2.5** |
";

    #[test]
    fn plot_has_the_figures_of_its_row() {
        let plots = plots(PAGE).unwrap();
        let [(path, bars)] = plots.as_slice() else {
            panic!("one plot");
        };
        assert_eq!((*path, &*bars.axis), ("images/a.svg", "more is better"));
        let rows: Vec<_> = bars.rows.iter().map(|it| (it.0, it.1.median)).collect();
        assert_eq!(rows, [(Kind::Direct, 10.0), (Kind::Fairlead, 2.5)]);
    }

    #[test]
    fn image_without_a_row_is_refused() {
        assert!(plots("![c: less is better](images/c.svg)").is_err());
    }

    #[test]
    fn plots_of_the_benchmarks_page_are_current() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let page = std::fs::read_to_string(docs.join("benchmarks.md")).unwrap();
        for (path, bars) in plots(&page).unwrap() {
            let drawn = std::fs::read_to_string(docs.join(path)).unwrap();
            let hint = "run `fairlead-bench plots docs/benchmarks.md`";
            assert!(drawn == bars.svg().unwrap(), "{path} is outdated: {hint}");
        }
    }
}
