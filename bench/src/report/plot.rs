//! Plots: one bar per peer with its median and the range of rounds, as SVG and PNG.

use std::{path::Path, sync::Once};

use anyhow::{Context as _, anyhow};
use plotters::{
    backend::{BitMapBackend, SVGBackend},
    chart::ChartBuilder,
    coord::Shift,
    drawing::{DrawingArea, IntoDrawingArea},
    element::{PathElement, Rectangle, Text},
    prelude::DrawingBackend,
    style::{
        Color, FontStyle, RGBColor, ShapeStyle, WHITE, register_font,
        text_anchor::{HPos, Pos, VPos},
        {IntoFont, TextStyle},
    },
};

use super::{
    model::{ReportFigure, RunReport, Scenario},
    number::number,
};
use crate::peers::Kind;

const PLOT_WIDTH: u32 = 900;
const BAR_HEIGHT: u32 = 44;
const PLOT_MARGIN: u32 = 120;
const FONT: &str = "DejaVu Sans";
const OURS: RGBColor = RGBColor(0x1f, 0x6f, 0xb2);
const YARDSTICK: RGBColor = RGBColor(0xb8, 0xb8, 0xb8);
const THEIRS: RGBColor = RGBColor(0xe0, 0x9f, 0x3e);
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);

static FONTS: Once = Once::new();

/// Draws one plot for each scenario that has figures.
pub(super) fn draw(report: &RunReport, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    for scenario in &report.scenarios {
        let bars = Bars::of(scenario);
        if bars.rows.is_empty() {
            continue;
        }
        let file = |extension| folder.join(format!("{}.{extension}", scenario.title.name));
        bars.onto(SVGBackend::new(&file("svg"), bars.size()?).into_drawing_area())?;
        bars.onto(BitMapBackend::new(&file("png"), bars.size()?).into_drawing_area())?;
    }
    Ok(())
}

/// One plot: a title, the label of its axis, and a bar for each row.
pub(super) struct Bars {
    pub(super) title: String,
    pub(super) axis: String,
    pub(super) rows: Vec<(Kind, ReportFigure)>,
}

impl Bars {
    fn of(scenario: &Scenario) -> Self {
        let rows = scenario.rows.iter();
        let rows = rows.filter_map(|row| Some((row.peer, row.figures.first().copied()??)));
        let metric = scenario.title.metrics.first();
        Self {
            title: scenario.title.name.clone(),
            axis: metric.map_or(String::new(), |metric| {
                let better = match metric.better {
                    crate::scenarios::Better::Higher => "more is better",
                    crate::scenarios::Better::Lower => "less is better",
                };
                format!("{}, {} ({better})", metric.name, metric.unit)
            }),
            rows: rows.collect(),
        }
    }

    /// Width and height in pixels.
    fn size(&self) -> anyhow::Result<(u32, u32)> {
        Ok((
            PLOT_WIDTH,
            PLOT_MARGIN + BAR_HEIGHT * u32::try_from(self.rows.len())?,
        ))
    }

    /// The plot as the text of an SVG.
    pub(super) fn svg(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        self.onto(SVGBackend::with_string(&mut text, self.size()?).into_drawing_area())?;
        Ok(text)
    }

    fn onto<B: DrawingBackend>(&self, area: DrawingArea<B, Shift>) -> anyhow::Result<()> {
        // The font comes with the program, so that no library of the system is needed.
        FONTS.call_once(|| {
            let _ = register_font(FONT, FontStyle::Normal, dejavu::sans::regular());
        });
        let failed = |error: &dyn std::fmt::Display| anyhow!("drawing {}: {error}", self.title);
        area.fill(&WHITE).map_err(|error| failed(&error))?;
        let count = self.rows.len() as f64;
        let most = self.rows.iter().map(|(_, figure)| figure.high);
        // Space for the number next to the longest bar.
        let most = most.fold(f64::MIN_POSITIVE, f64::max) * 1.2;
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, (FONT, 20).into_font().color(&INK))
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(110)
            .build_cartesian_2d(0.0..most, 0.0..count)
            .map_err(|error| failed(&error))?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .y_labels(0)
            .x_labels(6)
            .x_desc(&self.axis)
            .label_style((FONT, 13).into_font().color(&INK))
            .x_label_formatter(&|value| number(*value))
            .draw()
            .map_err(|error| failed(&error))?;
        let words = |pos| TextStyle::from((FONT, 14).into_font()).color(&INK).pos(pos);
        for (place, (kind, figure)) in self.rows.iter().enumerate() {
            // The first row is drawn at the top.
            let low = count - 1.0 - place as f64;
            let (bottom, top, middle) = (low + 0.2, low + 0.8, low + 0.5);
            let colour = match kind {
                Kind::Fairlead => OURS,
                Kind::Direct | Kind::Proxy | Kind::FairleadBefore => YARDSTICK,
                _ => THEIRS,
            };
            let bar = Rectangle::new([(0.0, bottom), (figure.median, top)], colour.filled());
            let line = ShapeStyle::from(&INK).stroke_width(1);
            let range = PathElement::new([(figure.low, middle), (figure.high, middle)], line);
            let name = Text::new(
                format!("{} ", kind.name()),
                (0.0, middle),
                words(Pos::new(HPos::Right, VPos::Center)),
            );
            let value = Text::new(
                format!("  {}", number(figure.median)),
                (figure.high, middle),
                words(Pos::new(HPos::Left, VPos::Center)),
            );
            chart.draw_series([bar]).map_err(|error| failed(&error))?;
            chart.draw_series([range]).map_err(|error| failed(&error))?;
            chart
                .draw_series([name, value])
                .map_err(|error| failed(&error))?;
        }
        area.present().map_err(|error| failed(&error))
    }
}
