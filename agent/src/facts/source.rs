//! Sources of a collector: objects and lists of the API server.

/// Object or list to read.
#[derive(Debug, Clone)]
pub(super) struct CollectorSource {
    pub(super) path: String,
    pub(super) selection: Selection,
    /// Right needed for it, such as `list nodes`.
    pub(super) right: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Selection {
    Object,
    List {
        /// Label selector; empty: all objects.
        selector: &'static str,
        /// Whether metadata is enough.
        metadata: bool,
    },
}

impl CollectorSource {
    pub(super) fn object(path: impl Into<String>, right: &'static str) -> Self {
        CollectorSource {
            path: path.into(),
            selection: Selection::Object,
            right,
        }
    }

    /// Source of whole objects.
    pub(super) fn list(path: &str, right: &'static str) -> Self {
        CollectorSource {
            path: path.to_owned(),
            selection: Selection::List {
                selector: "",
                metadata: false,
            },
            right,
        }
    }

    /// Source of the metadata of selected objects.
    pub(super) fn metadata(path: &str, selector: &'static str, right: &'static str) -> Self {
        CollectorSource {
            path: path.to_owned(),
            selection: Selection::List {
                selector,
                metadata: true,
            },
            right,
        }
    }
}
