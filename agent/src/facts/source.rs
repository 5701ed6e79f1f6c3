//! The objects that a collector reads.

/// Something to read.
#[derive(Debug, Clone)]
pub(super) struct FactSource {
    pub(super) path: String,
    pub(super) selection: Selection,
    /// The right that it needs, like `list nodes`.
    pub(super) right: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Selection {
    Object,
    List {
        /// In the syntax of label selectors; empty: all.
        selector: &'static str,
        /// Metadata is all that is needed.
        metadata: bool,
    },
}

impl FactSource {
    pub(super) fn object(path: impl Into<String>, right: &'static str) -> Self {
        FactSource {
            path: path.into(),
            selection: Selection::Object,
            right,
        }
    }

    /// Whole objects.
    pub(super) fn list(path: &str, right: &'static str) -> Self {
        FactSource {
            path: path.to_owned(),
            selection: Selection::List {
                selector: "",
                metadata: false,
            },
            right,
        }
    }

    /// The metadata of the objects that `selector` names.
    pub(super) fn metadata(path: &str, selector: &'static str, right: &'static str) -> Self {
        FactSource {
            path: path.to_owned(),
            selection: Selection::List {
                selector,
                metadata: true,
            },
            right,
        }
    }
}
