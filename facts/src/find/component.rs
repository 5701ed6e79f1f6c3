//! Components of GitOps tools: entries of the fact `components`, `KIND/NAMESPACE/NAME`.

use serde_json::Value;

use super::{
    term::{Hit, Of},
    version::{LooseVersion, Versions},
};

const FACT: &str = "components";

/// Components with this name or chart, in lower case.
pub(super) fn hits<'a>(of: Of<'a>, wanted: &str, versions: Option<&Versions>) -> Vec<Hit<'a>> {
    let found = of
        .entries(FACT)
        .filter(|(_, _, key, value)| is_named(key, value, wanted) && is_of(value, versions));
    let hits = found.map(|(name, fact, key, value)| Hit {
        name,
        fact,
        key: Some(key.clone()),
        value: value.clone(),
    });
    hits.collect()
}

fn is_named(key: &str, value: &Value, wanted: &str) -> bool {
    let name = key.rsplit('/').next();
    let chart = value.get("chart").and_then(Value::as_str);
    let mut names = [name, chart].into_iter().flatten();
    names.any(|name| name.to_lowercase() == wanted)
}

/// A revision of Git is no version, even if its hash begins with a digit.
fn is_of(value: &Value, versions: Option<&Versions>) -> bool {
    let Some(wanted) = versions else {
        return true;
    };
    let version = value.get("version").and_then(Value::as_str);
    let version = version.filter(|version| version.contains('.'));
    let version = version.and_then(LooseVersion::read);
    version.is_some_and(|version| wanted.contain(&version))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn name_or_chart_is_whole_and_in_any_case() {
        let value = json!({ "chart": "ingress-nginx" });
        for (key, wanted, is) in [
            ("HelmRelease/web/Ingress", "ingress", true),
            ("HelmRelease/web/other", "ingress-nginx", true),
            ("HelmRelease/ingress/other", "ingress", false),
            ("HelmRelease/web/ingress-2", "ingress", false),
        ] {
            assert_eq!(is_named(key, &value, wanted), is, "{key} {wanted}");
        }
    }

    #[test]
    fn only_versions_are_compared() {
        let versions = Versions::read("<4.11");
        for (version, is) in [
            ("4.10.1", true),
            ("v4.10.1", true),
            ("4.11.0", false),
            ("4a1b0f3c", false),
            ("main@sha1:1.2", false),
        ] {
            let value = json!({ "version": version });
            assert_eq!(is_of(&value, versions.as_ref()), is, "{version}");
        }
        assert!(!is_of(&json!({}), versions.as_ref()));
        assert!(is_of(&json!({}), None));
    }
}
