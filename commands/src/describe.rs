//! Output of `describe`: one resource with its status and related resources. It prints no secrets and truncates no errors.

use fairlead_api::resources::List;
use fairlead_client::{HubClient, HubError, query_of};
use fairlead_store::Change;
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;

use crate::{
    audit,
    output::{self, Cell, OutputError, TableColumn},
};

/// Number of changes that are shown.
const SHOWN_CHANGES: usize = 5;
/// Fields that contain secrets, or that have their own section.
const OMITTED_FIELDS: [&str; 14] = [
    "id",
    "tenant",
    "displayName",
    "created",
    "version",
    "status",
    "uid",
    "clone",
    "enrolled",
    "facts",
    "dynamicFacts",
    "compileMeta",
    "installURL",
    "agentInstallURL",
];

/// Text of a description; the values of a section are aligned.
#[derive(Default)]
pub(crate) struct ClusterDescription(String);

impl ClusterDescription {
    /// Adds a line `Name:  value` for each field with a value.
    pub(crate) fn fields<'a>(
        &mut self,
        indent: usize,
        fields: impl IntoIterator<Item = (&'a str, Option<String>)>,
    ) {
        let given = fields.into_iter();
        let given: Vec<_> = given.filter_map(|(name, it)| Some((name, it?))).collect();
        let width = given.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in given {
            let blank = " ".repeat(width - name.len());
            let value = output::plain(&value);
            let line = format!("{:indent$}{name}:{blank}  {value}", "");
            self.0 += line.trim_end();
            self.0.push('\n');
        }
    }

    /// Adds a heading with a table below it, or with `none`.
    pub(crate) fn table<const N: usize>(
        &mut self,
        heading: &str,
        columns: &[TableColumn; N],
        rows: Vec<[Cell; N]>,
    ) {
        if rows.is_empty() {
            self.0 += &format!("{heading}:  none\n");
            return;
        }
        self.0 += &format!("{heading}:\n");
        for line in output::untruncated_table(columns, rows).lines() {
            self.0 += &format!("  {line}\n");
        }
    }

    pub(crate) fn heading(&mut self, heading: &str) {
        self.0 += &format!("{heading}:\n");
    }

    pub(crate) fn print(self) -> Result<(), OutputError> {
        output::print(&self.0)
    }
}

/// Formats a time with its age.
pub(crate) fn at(time: OffsetDateTime) -> String {
    let age = output::age(time);
    format!("{} ({age} ago)", output::time(time))
}

/// Remaining fields of a document with their paths.
pub(crate) fn other_fields<T: Serialize>(document: &T) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let document = serde_json::to_value(document).unwrap_or_default();
    for (name, value) in document.as_object().into_iter().flatten() {
        if !OMITTED_FIELDS.contains(&name.as_str()) {
            flatten(name, value, &mut fields);
        }
    }
    fields
}

fn flatten(path: &str, value: &Value, fields: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Object(inner) => {
            for (name, value) in inner {
                flatten(&format!("{path}.{name}"), value, fields);
            }
        }
        Value::String(text) => fields.push((path.to_owned(), text.clone())),
        other => fields.push((path.to_owned(), other.to_string())),
    }
}

/// Resource with changes to describe.
pub(crate) enum Changed<'a> {
    Tenant(&'a str),
    Cluster(&'a str),
}

/// Last changes; `None` if the caller may not read them.
pub(crate) async fn changes(
    hub: &HubClient,
    of: Changed<'_>,
) -> Result<Option<Vec<Change>>, HubError> {
    let limit = SHOWN_CHANGES.to_string();
    let (parameter, id) = match of {
        Changed::Tenant(id) => ("tenant", id),
        Changed::Cluster(id) => ("cluster", id),
    };
    let query = query_of([(parameter, Some(id)), ("limit", Some(&limit))]);
    match hub.get::<List<Change>>(&format!("/v1/audit?{query}")).await {
        Ok(mut list) => {
            list.items.truncate(SHOWN_CHANGES);
            Ok(Some(list.items))
        }
        Err(HubError::NotAllowed(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Adds the section with the last changes.
pub(crate) fn describe_changes(description: &mut ClusterDescription, changes: Option<&[Change]>) {
    match changes {
        None => {
            let text = Some("for the role admin only".to_owned());
            description.fields(0, [("Last changes", text)]);
        }
        Some(changes) => {
            let rows = changes.iter().map(audit::cells).collect();
            description.table("Last changes", &audit::columns(), rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_a_section_are_aligned() {
        let mut it = ClusterDescription::default();
        let fields = [
            ("Name", Some("a\nb".to_owned())),
            ("None", None),
            ("Last seen", Some("5m".to_owned())),
        ];
        it.fields(2, fields);
        it.table("Sessions", &[TableColumn::key("ID")], Vec::new());
        it.table("Facts", &[TableColumn::key("ID")], vec![["x".into()]]);
        assert_eq!(
            it.0,
            "  Name:       a b\n  Last seen:  5m\nSessions:  none\nFacts:\n  ID\n  x\n"
        );
    }

    #[test]
    fn described_document_is_flat_and_has_no_install_url() {
        let more = json!({ "gitRepo": { "url": "u", "hostKeys": null }, "installURL": "secret", "deleteProtection": true });
        let fields = other_fields(&more);
        let expected = [("deleteProtection", "true"), ("gitRepo.url", "u")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut fields = fields;
        fields.sort();
        assert_eq!(fields, expected);
    }
}
