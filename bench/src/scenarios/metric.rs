//! Name, unit and direction of a figure.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// One figure of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Metric {
    pub(crate) name: Cow<'static, str>,
    pub(crate) unit: Cow<'static, str>,
    pub(crate) better: Better,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Higher,
    Lower,
}

impl Metric {
    pub(crate) const fn higher(name: &'static str, unit: &'static str) -> Self {
        Self::new(name, unit, Better::Higher)
    }

    pub(crate) const fn lower(name: &'static str, unit: &'static str) -> Self {
        Self::new(name, unit, Better::Lower)
    }

    const fn new(name: &'static str, unit: &'static str, better: Better) -> Self {
        let (name, unit) = (Cow::Borrowed(name), Cow::Borrowed(unit));
        Self { name, unit, better }
    }
}
