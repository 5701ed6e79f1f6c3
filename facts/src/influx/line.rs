//! InfluxDB's line protocol: `measurement,tag=value field=value time`, one line per point.
//!
//! A fact is a measurement, entries of its object are fields; any other value is the field `value`.
//! Cluster, source and tenant are tags.

use std::fmt::Write;

use fairlead_api::{
    ClusterId, TenantId,
    influxql::{Tag, written},
};
use fairlead_store::model::FactSource;
use serde_json::Value;

/// Maximum length of a field name in bytes; longer ones are dropped. InfluxDB limits a key to 64
/// KiB including measurement and tags.
const MAX_FIELD_NAME_BYTES: usize = 4096;

/// A version of a fact.
pub(super) struct LinePoint<'a> {
    pub(super) name: &'a str,
    pub(super) cluster: &'a ClusterId,
    pub(super) tenant: Option<&'a TenantId>,
    pub(super) source: FactSource,
    /// Milliseconds since 1970.
    pub(super) at: i64,
    pub(super) value: &'a Value,
}

/// The line without its end; `None` if the value has no usable field.
pub(super) fn line(point: &LinePoint<'_>) -> Option<String> {
    let mut fields = String::new();
    match point.value {
        Value::Object(entries) => {
            for (key, value) in entries {
                add(&mut fields, key, value);
            }
        }
        value => add(&mut fields, "value", value),
    }
    let measurement = written(point.name);
    if fields.is_empty() || measurement.is_empty() || measurement.len() > MAX_FIELD_NAME_BYTES {
        return None;
    }
    let mut line = escaped(&measurement, ", ");
    if line.starts_with('#') {
        // A leading `#` would start a comment.
        line.replace_range(..1, "_");
    }
    // Writing to a `String` cannot fail.
    let _ = write!(line, ",cluster={}", point.cluster);
    let _ = write!(line, ",source={}", point.source.as_str());
    if let Some(tenant) = point.tenant {
        let _ = write!(line, ",tenant={tenant}");
    }
    let _ = write!(line, " {fields} {}", point.at);
    Some(line)
}

fn add(fields: &mut String, key: &str, value: &Value) {
    let key = field_name(key);
    if key.is_empty() || key.len() > MAX_FIELD_NAME_BYTES {
        return;
    }
    let value = match value {
        Value::Null => return,
        Value::Bool(yes) => yes.to_string(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => format!("{whole}i"),
            // Keeps a point or exponent, so that the type stays float; skips non-finite numbers.
            (None, Some(real)) if real.is_finite() => format!("{real:?}"),
            _ => return,
        },
        Value::String(text) => quoted(text),
        Value::Array(_) | Value::Object(_) => quoted(&value.to_string()),
    };
    if !fields.is_empty() {
        fields.push(',');
    }
    *fields += &escaped(&key, ", =");
    fields.push('=');
    *fields += &value;
}

/// Avoids the names of tags and of the time, which would make conditions ambiguous.
fn field_name(key: &str) -> String {
    let mut name = written(key);
    if name == "time" || Tag::ALL.into_iter().any(|tag| tag.as_str() == name) {
        name.push('_');
    }
    name
}

fn escaped(name: &str, special: &str) -> String {
    let mut out = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        if special.contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Line breaks stay as they are.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_map, prelude::*};
    use serde_json::{Map, json};

    use super::*;

    fn line_of(name: &str, value: &Value) -> Option<String> {
        line(&LinePoint {
            name,
            cluster: &"c-a".parse().unwrap(),
            tenant: Some(&"t-a".parse().unwrap()),
            source: FactSource::Agent,
            at: 1_795_262_400_250,
            value,
        })
    }

    #[test]
    fn points_escape_all_texts() {
        let tags = "cluster=c-a,source=agent,tenant=t-a";
        for (name, value, expected) in [
            (
                "cloud",
                json!("a \"b\" \\c"),
                format!("cloud,{tags} value=\"a \\\"b\\\" \\\\c\""),
            ),
            ("n", json!(3), format!("n,{tags} value=3i")),
            ("n", json!(3.0), format!("n,{tags} value=3.0")),
            (
                "n",
                json!(u64::MAX),
                format!("n,{tags} value=1.8446744073709552e19"),
            ),
            ("on", json!(true), format!("on,{tags} value=true")),
            (
                "a b,c=d",
                json!({ "x y": 1.5, "l": [1], "n": null }),
                format!("a\\ b\\,c=d,{tags} l=\"[1]\",x\\ y=1.5"),
            ),
            (
                "end\\",
                json!("two\nlines"),
                format!("end/,{tags} value=\"two\nlines\""),
            ),
            (
                "#c",
                json!({ "cluster": "c-b", "time": 1 }),
                format!("_c,{tags} cluster_=\"c-b\",time_=1i"),
            ),
        ] {
            assert_eq!(
                line_of(name, &value),
                Some(format!("{expected} 1795262400250"))
            );
        }
    }

    #[test]
    fn values_without_fields_are_no_points() {
        for value in [
            json!(null),
            json!({}),
            json!({ "x": null, "": 1 }),
            json!({ "x".repeat(MAX_FIELD_NAME_BYTES + 1): 1 }),
        ] {
            assert_eq!(line_of("empty", &value), None);
        }
        assert_eq!(line_of("", &json!(1)), None);
    }

    /// Parses like InfluxDB: backslash escapes, and quotes after an equals sign.
    fn parse(line: &str) -> (String, Vec<(String, String)>, String) {
        let mut parts: Vec<String> = vec![String::new()];
        let (mut quoted, mut is_value) = (false, false);
        let mut characters = line.chars();
        while let Some(c) = characters.next() {
            let is_field = parts.iter().any(|part| part.starts_with(' '));
            let part = parts.last_mut().unwrap();
            match c {
                '\\' => part.extend([c, characters.next().unwrap()]),
                ' ' | ',' if !quoted => {
                    parts.push(String::from(c));
                    is_value = false;
                }
                c => {
                    quoted ^= c == '"' && is_value;
                    is_value |= c == '=' && is_field;
                    part.push(c);
                }
            }
        }
        assert!(!quoted, "{line}");
        let plain = |text: &str| {
            let mut out = String::new();
            let mut characters = text.chars();
            while let Some(c) = characters.next() {
                out.push(if c == '\\' {
                    characters.next().unwrap()
                } else {
                    c
                });
            }
            out
        };
        let time = parts.pop().unwrap();
        let measurement = plain(&parts.remove(0));
        let fields = parts.into_iter().skip_while(|part| !part.starts_with(' '));
        let fields = fields.map(|part| {
            let mut from = 1;
            while part.as_bytes()[from] != b'=' {
                from += 1 + usize::from(part.as_bytes()[from] == b'\\');
            }
            let value = &part[from + 1..];
            let text = value.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
            (
                plain(&part[1..from]),
                text.map_or(value.to_owned(), |text| format!("text {}", plain(text))),
            )
        });
        (measurement, fields.collect(), time)
    }

    fn values() -> impl Strategy<Value = (Value, String)> {
        prop_oneof![
            any::<i64>().prop_map(|it| (json!(it), format!("{it}i"))),
            any::<bool>().prop_map(|it| (json!(it), it.to_string())),
            (-1e9..1e9).prop_map(|it: f64| (json!(it), format!("{it:?}"))),
            "[a-z \\\\\",=\n\té]{0,12}".prop_map(|it| (json!(it), format!("text {it}"))),
        ]
    }

    proptest! {
        #[test]
        fn a_line_parses_back(
            name in "[a-zA-Z0-9 ,=\"\\\\é/._-]{1,16}",
            entries in btree_map("[a-zA-Z0-9 ,=\"\\\\é\n/._-]{1,12}", values(), 1..6),
        ) {
            let value: Map<_, _> = entries.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect();
            let line = line_of(&name, &value.into()).unwrap();
            let (measurement, fields, time) = parse(&line);
            prop_assert_eq!(measurement, written(&name), "{}", line);
            let expected: Vec<_> = entries.iter().map(|(key, (_, text))| (field_name(key), text.clone())).collect();
            prop_assert_eq!(fields, expected, "{}", line);
            prop_assert_eq!(time, " 1795262400250");
        }
    }
}
