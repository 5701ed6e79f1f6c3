//! Errors of fields, and paths to them.

/// Longest time to become ready, and longest time of hooks: a day.
pub(super) const MAX_TIMEOUT_SECONDS: u64 = 86_400;

/// A field of a bundle that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct FieldError {
    /// Path of the field, like `targets[1].patches[0].json`.
    pub field: String,
    /// Cause.
    pub problem: Problem,
}

/// Cause of a [`FieldError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// More items than the limit.
    #[error("at most {0} entries")]
    TooMany(usize),
    /// The name occurs twice.
    #[error("{0:?} is there twice")]
    Duplicate(String),
    /// The text is no valid name.
    #[error("{0:?} is no {1}")]
    Name(String, &'static str),
    /// A required field is missing.
    #[error("the field is required")]
    Required,
    /// Exactly one field of this list is required.
    #[error("exactly one of {0} is required")]
    ExactlyOne(&'static str),
    /// At most one field of this list is allowed.
    #[error("at most one of {0} is allowed")]
    AtMostOne(&'static str),
    /// The target names no clusters.
    #[error("a target needs selector, groups or clusters; selector \"\" matches every cluster")]
    NoClusters,
    /// The number is outside of its range.
    #[error("a number from {0} to {1} is required")]
    Range(u64, u64),
    /// No cluster is left for the wave.
    #[error("an earlier wave takes all other clusters")]
    Unreachable,
    /// The field has no effect with this kind of bundle.
    #[error("bundles of kind {0} do not have it")]
    Kind(&'static str),
    /// The policy has no meaning for this kind of bundle.
    #[error("{0} is not for bundles of kind {1}")]
    Policy(&'static str, &'static str),
    /// A helm bundle has no chart.
    #[error("a bundle of kind helm needs Chart.yaml in its folder, or chart")]
    NoChart,
    /// The folder has a chart of its own.
    #[error("the folder has Chart.yaml already")]
    TwoCharts,
    /// The URL has another scheme.
    #[error("a URL that starts with {0} is required")]
    Url(&'static str),
    /// The URL has a user or a password.
    #[error("the URL must have neither user nor password")]
    Login,
    /// The JSON patch is not one of RFC 6902.
    #[error("{0}")]
    Patch(&'static str),
    /// The text is no JSON pointer of RFC 6901.
    #[error("{0:?} is no JSON pointer, like /spec/replicas")]
    Pointer(String),
    /// The destination of a Secret has another form.
    #[error("{0:?} is neither values.PATH nor vars.NAME")]
    Destination(String),
    /// A patch uses the value of a Secret.
    #[error("{0} is a Secret's, which only manifests may use")]
    SecretInPatch(String),
    /// The text looks like a variable.
    #[error("{0} is no variable; write $${{...}} for the text itself")]
    Variable(String),
    /// A bundle depends on itself.
    #[error("a bundle cannot depend on itself")]
    Itself,
}

/// Path of a field; made only for an error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    name: &'a str,
    index: Option<usize>,
}

impl<'a> Path<'a> {
    pub(super) const fn root(name: &'a str) -> Self {
        Path {
            parent: None,
            name,
            index: None,
        }
    }

    pub(super) const fn item(self, index: usize) -> Self {
        Path {
            index: Some(index),
            ..self
        }
    }

    pub(super) const fn field(&'a self, name: &'a str) -> Self {
        Path {
            parent: Some(self),
            name,
            index: None,
        }
    }

    fn text(&self) -> String {
        let mut text = match self.parent {
            Some(parent) => format!("{}.{}", parent.text(), self.name),
            None => self.name.to_owned(),
        };
        if let Some(index) = self.index {
            text.push_str(&format!("[{index}]"));
        }
        text
    }

    pub(super) fn error(&self, problem: Problem) -> FieldError {
        FieldError {
            field: self.text(),
            problem,
        }
    }

    /// Error with the problem unless the condition holds.
    pub(super) fn require(
        &self,
        condition: bool,
        problem: impl FnOnce() -> Problem,
    ) -> Result<(), FieldError> {
        if condition {
            Ok(())
        } else {
            Err(self.error(problem()))
        }
    }

    pub(super) fn at_most(&self, count: usize, limit: usize) -> Result<(), FieldError> {
        self.require(count <= limit, || Problem::TooMany(limit))
    }
}

pub(super) fn check_range(
    path: &Path<'_>,
    number: u64,
    min: u64,
    max: u64,
) -> Result<(), FieldError> {
    path.require((min..=max).contains(&number), || Problem::Range(min, max))
}
