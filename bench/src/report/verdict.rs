//! Results of a scenario's goals.

use super::{
    model::{Is, ReportFigure, Row, Scenario, Verdict},
    number::number,
};
use crate::{peers::Kind, scenarios::goal::Goal};

pub(super) fn of(scenario: &Scenario) -> Vec<Verdict> {
    let goals = scenario.title.goals.iter();
    goals
        .map(|goal| {
            let (is, measured) = judged(goal, scenario).unwrap_or((Is::Open, "-".to_owned()));
            Verdict {
                goal: goal.said(&scenario.title.metrics),
                measured,
                is,
            }
        })
        .collect()
}

/// Judges a goal; `None` where figures are missing.
fn judged(goal: &Goal, scenario: &Scenario) -> Option<(Is, String)> {
    let fairlead = scenario.of(Kind::Fairlead)?;
    if fairlead.rounds.is_empty() {
        return fairlead
            .absent
            .as_ref()
            .map(|_| (Is::Missed, "none".to_owned()));
    }
    match *goal {
        Goal::First => first(fairlead, scenario),
        Goal::Times { of, least } => {
            let other = scenario.of(of)?;
            if fairlead.median(0).is_none() {
                return other.median(0).map(|_| (Is::Missed, "none".to_owned()));
            }
            let times = other.fairlead?;
            Some((times_least(times, least), said(times)))
        }
        Goal::Most { figure, value } => Some(bounded(fairlead, figure, |got| got <= value)),
        Goal::Least { figure, value } => Some(bounded(fairlead, figure, |got| got >= value)),
        Goal::Added { figure, most } => {
            let own = fairlead.median(figure)?;
            let added = own - scenario.of(Kind::Direct)?.median(figure)?;
            let is = if added <= most { Is::Met } else { Is::Missed };
            Some((is, number(added)))
        }
    }
}

/// Compares with the best other tunnel.
fn first(fairlead: &Row, scenario: &Scenario) -> Option<(Is, String)> {
    let others = scenario.rows.iter().filter(|row| row.peer.is_built());
    let mut others = others.filter(|row| row.median(0).is_some()).peekable();
    if fairlead.median(0).is_none() {
        let another = others.peek()?;
        return Some((Is::Missed, format!("none, {} has one", another.peer.name())));
    }
    let ratios = others.filter_map(|row| Some((row.peer, row.fairlead?)));
    let closest = ratios.min_by(|(_, one), (_, other)| one.median.total_cmp(&other.median));
    match closest {
        Some((peer, times)) => {
            let measured = format!("{} x {}", said(times), peer.name());
            Some((times_least(times, 1.0), measured))
        }
        // The other tunnels were measured, and none has a figure.
        None => {
            let tried = |row: &Row| row.peer.is_built() && row.rounds.len() > 1;
            let tried = scenario.rows.iter().any(tried);
            tried.then(|| (Is::Met, "no other has a figure".to_owned()))
        }
    }
}

fn times_least(times: ReportFigure, least: f64) -> Is {
    if times.median >= least {
        Is::Met
    } else if times.high >= least {
        Is::Level
    } else {
        Is::Missed
    }
}

fn said(ReportFigure { median, low, high }: ReportFigure) -> String {
    format!("{median:.2} ({low:.2}-{high:.2})")
}

fn bounded(row: &Row, figure: usize, holds: impl Fn(f64) -> bool) -> (Is, String) {
    match row.figures.get(figure).copied().flatten() {
        None => (Is::Missed, "none".to_owned()),
        Some(ReportFigure { median, low, high }) => {
            let is = if holds(median) {
                Is::Met
            } else if holds(low) || holds(high) {
                Is::Level
            } else {
                Is::Missed
            };
            let range = format!("{} ({}-{})", number(median), number(low), number(high));
            (is, range)
        }
    }
}
