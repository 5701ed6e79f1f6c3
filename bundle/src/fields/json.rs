//! Reads the options of a bundle from a JSON document.

use fairlead_api::delivery::{BundleFields, BundleKind};
use serde::{Deserialize, de::Error};
use serde_json::{Map, Value};

use super::strict::FileFields;

/// Parses the options of a bundle.
///
/// Without the field `kind`, a folder with `Chart.yaml` or options with `chart` are a Helm chart, as in `fairlead.yaml`.
///
/// # Errors
/// The first unknown field, `null`, or wrong type.
pub fn parse_json(
    options: Map<String, Value>,
    has_chart_file: bool,
) -> Result<BundleFields, serde_json::Error> {
    if let Some((name, _)) = options.iter().find(|(_, value)| value.is_null()) {
        return Err(serde_json::Error::custom(format_args!(
            "{name}: omit the field instead of null"
        )));
    }
    let FileFields {
        mut fields,
        has_kind,
        name,
    } = FileFields::deserialize(Value::Object(options))?;
    if name.is_some() {
        return Err(serde_json::Error::custom(
            "name: the id of the document names the bundle",
        ));
    }
    if !has_kind && (has_chart_file || fields.chart.is_some()) {
        fields.kind = BundleKind::Helm;
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: Value, has_chart_file: bool) -> Result<BundleFields, String> {
        let options = value.as_object().cloned().unwrap();
        parse_json(options, has_chart_file).map_err(|error| error.to_string())
    }

    #[test]
    fn unknown_fields_and_nulls_are_refused() {
        for (bad, word) in [
            (json!({"colour": "red"}), "colour"),
            (json!({"namespace": null}), "namespace"),
            (json!({"helm": {"realease": "x"}}), "realease"),
            (json!({"drift": "maybe"}), "maybe"),
        ] {
            let error = parse(bad.clone(), false).unwrap_err();
            assert!(error.contains(word), "{bad}: {error}");
        }
    }

    #[test]
    fn a_folder_with_a_chart_is_a_chart_unless_the_kind_is_given() {
        let kind = |value, has_chart| parse(value, has_chart).unwrap().kind;
        assert_eq!(kind(json!({}), false), BundleKind::Manifests);
        assert_eq!(kind(json!({}), true), BundleKind::Helm);
        let chart = json!({"chart": {"oci": "oci://r/x", "version": "1"}});
        assert_eq!(kind(chart, false), BundleKind::Helm);
        let own = json!({"kind": "manifests"});
        assert_eq!(kind(own, true), BundleKind::Manifests);
    }
}
