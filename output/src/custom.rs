//! `-o custom-columns=NAME:.path,...` like kubectl: one row per item, and `<none>` for a missing value.

use std::str::FromStr;

use serde_json::Value;

use crate::{
    jsonpath::Template,
    table::layout::{Cell, TableColumn, table},
};

/// Columns with their paths into an item.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomColumns(Vec<(String, Template)>);

impl FromStr for CustomColumns {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let column = |part: &str| {
            let (name, path) = part
                .split_once(':')
                .filter(|(name, path)| !name.is_empty() && !path.is_empty())
                .ok_or_else(|| format!("{part:?}: expected NAME:.path"))?;
            Ok((name.to_owned(), relaxed(path).parse()?))
        };
        text.split(',')
            .map(column)
            .collect::<Result<_, _>>()
            .map(CustomColumns)
    }
}

/// Normalizes a path: kubectl accepts `x.y`, `.x.y` and `{.x.y}`.
fn relaxed(path: &str) -> String {
    let inner = path.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
    let inner = inner.unwrap_or(path);
    match inner.starts_with(['.', '[', '$', '@']) {
        true => format!("{{{inner}}}"),
        false => format!("{{.{inner}}}"),
    }
}

impl CustomColumns {
    /// Renders the table of a list or of one resource.
    pub(crate) fn table(&self, value: &Value) -> String {
        let names = self
            .0
            .iter()
            .map(|(name, _)| TableColumn::text(name.clone()));
        let rows: Vec<_> = items(value).iter().map(|item| self.cells(item)).collect();
        table(&names.collect::<Vec<_>>(), &rows, None)
    }

    /// Renders one row without the header.
    pub(crate) fn row(&self, item: &Value) -> String {
        let texts: Vec<_> = self.texts(item).collect();
        texts.join("  ") + "\n"
    }

    fn cells(&self, item: &Value) -> Vec<Cell> {
        self.texts(item).map(Into::into).collect()
    }

    fn texts<'a>(&'a self, item: &'a Value) -> impl Iterator<Item = String> + 'a {
        self.0.iter().map(|(_, path)| {
            let found = path.values(item);
            if found.is_empty() {
                "<none>".to_owned()
            } else {
                found.join(",")
            }
        })
    }
}

/// Items of a list, or the single resource.
pub(crate) fn items(value: &Value) -> &[Value] {
    match value.get("items").unwrap_or(value) {
        Value::Array(items) => items.as_slice(),
        _ => std::slice::from_ref(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_those_of_kubectl() {
        let list = json!({ "items": [
            { "id": "c-a", "facts": { "a.b": "1" }, "hosts": ["x", "y"], "n": 3 },
            { "id": "c-bcd" },
        ] });
        let columns: CustomColumns = "ID:.id,FACT:{.facts.a\\.b},HOSTS:hosts[*],N:.n"
            .parse()
            .unwrap();
        assert_eq!(
            columns.table(&list),
            "ID     FACT    HOSTS   N\nc-a    1       x,y     3\nc-bcd  <none>  <none>  <none>\n"
        );
        assert_eq!(columns.table(&json!({ "id": "c-a" })).lines().count(), 2);
        assert_eq!(
            columns.row(&json!({ "id": "c-a" })),
            "c-a  <none>  <none>  <none>\n"
        );
        for bad in ["", "ID", "ID:", ":.id", "ID:.id,", "ID:{.a"] {
            assert!(bad.parse::<CustomColumns>().is_err(), "{bad:?}");
        }
    }
}
