//! Values of CI variables in documents. No answer of the hub has them, and no text for people may.

use serde_json::{Map, Value};

/// Text in place of a value.
const HIDDEN: &str = "(hidden)";

/// Copy without the fields that no answer of the hub repeats: values, and digests of earlier ones.
pub(super) fn without(fields: &Map<String, Value>) -> Map<String, Value> {
    changed(fields, |variable| {
        variable.remove("value");
        variable.remove("digest");
    })
}

/// Copy with hidden values.
pub(super) fn hidden(fields: &Map<String, Value>) -> Map<String, Value> {
    changed(fields, |variable| {
        if let Some(value) = variable.get_mut("value") {
            *value = HIDDEN.into();
        }
    })
}

fn changed(
    fields: &Map<String, Value>,
    change: impl Fn(&mut Map<String, Value>),
) -> Map<String, Value> {
    let mut copy = fields.clone();
    change_repo(&mut copy, &change);
    // The hub refuses variables of a template, but a pending document is shown before that.
    if let Some(Value::Object(template)) = copy.get_mut("clusterTemplate") {
        change_repo(template, &change);
    }
    copy
}

fn change_repo(owner: &mut Map<String, Value>, change: &impl Fn(&mut Map<String, Value>)) {
    let repo = owner.get_mut("gitRepo");
    let variables = repo.and_then(|it| it.get_mut("ciVariables"));
    let variables = variables.and_then(Value::as_object_mut);
    for variable in variables.into_iter().flat_map(Map::values_mut) {
        if let Value::Object(variable) = variable {
            change(variable);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_hidden_and_all_other_fields_stay() {
        let repo = json!({
            "url": "u",
            "ciVariables": {
                "A": { "value": "s3cret", "digest": "d", "masked": true },
                "B": { "valueFrom": { "name": "x" } },
                "C": null,
            },
        });
        let document = json!({ "gitRepo": repo, "clusterTemplate": { "gitRepo": repo } });
        let document = document.as_object().unwrap();
        let shown = Value::Object(hidden(document));
        assert!(!shown.to_string().contains("s3cret"), "{shown}");
        let variables = &shown["gitRepo"]["ciVariables"];
        let expected = json!({ "value": HIDDEN, "digest": "d", "masked": true });
        assert_eq!(variables["A"], expected);
        assert_eq!(variables["B"], repo["ciVariables"]["B"]);
        let rest = Value::Object(without(document));
        assert_eq!(
            rest["gitRepo"]["ciVariables"]["A"],
            json!({ "masked": true })
        );
        assert_eq!(rest["gitRepo"]["url"], "u");
    }
}
