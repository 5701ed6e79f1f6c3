//! Scalars by the rules of `go.yaml.in/yaml/v2`, the parser of `kubectl`: YAML 1.1 without base 60.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Number, Value};

use super::Problem;

/// Prefix of the tags that are written `!!`.
const CORE: &str = "tag:yaml.org,2002:";

/// A resolved scalar.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
}

/// Resolves a scalar. `tag` is the full tag, if any. `plain` is false for quoted and block scalars.
pub(super) fn resolve(tag: Option<&str>, text: &str, plain: bool) -> Result<Scalar, Problem> {
    let tag = match tag {
        None if !plain => return Ok(Scalar::Text(text.to_owned())),
        None => return Ok(implicit(text)),
        Some(tag) => tag,
    };
    let Some(short) = tag.strip_prefix(CORE) else {
        return Ok(Scalar::Text(text.to_owned()));
    };
    let value = implicit(text);
    let fits = match (short, &value) {
        ("str", _) => return Ok(Scalar::Text(text.to_owned())),
        ("binary", _) => {
            let packed: String = text.split(['\n', '\r']).collect();
            let bytes = STANDARD.decode(packed).map_err(|_| mismatch(short, text))?;
            return Ok(Scalar::Text(String::from_utf8_lossy(&bytes).into_owned()));
        }
        ("float", Scalar::Signed(number)) => {
            #[expect(clippy::cast_precision_loss, reason = "the tag wants a float")]
            return Ok(Scalar::Float(*number as f64));
        }
        ("timestamp", Scalar::Text(text)) => is_timestamp(text),
        ("null", Scalar::Null)
        | ("bool", Scalar::Bool(_))
        | ("int", Scalar::Signed(_) | Scalar::Unsigned(_))
        | ("float", Scalar::Float(_)) => true,
        ("null" | "bool" | "int" | "float" | "timestamp", _) => false,
        _ => return Ok(Scalar::Text(text.to_owned())),
    };
    if fits {
        return Ok(value);
    }
    Err(mismatch(short, text))
}

fn mismatch(short: &str, text: &str) -> Problem {
    Problem::Tag {
        value: text.to_owned(),
        tag: format!("!!{short}"),
    }
}

fn implicit(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Scalar::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Scalar::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ => {}
    }
    let number = match text.as_bytes().first() {
        Some(b'.') if separates_digits(text) => decimal(&text.replace('_', "")).map(Scalar::Float),
        Some(b'0'..=b'9' | b'+' | b'-') => numeric(&text.replace('_', "")),
        _ => None,
    };
    number.unwrap_or_else(|| Scalar::Text(text.to_owned()))
}

/// True if each underscore stands between two digits.
fn separates_digits(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_digit = |at: Option<usize>| {
        at.and_then(|at| bytes.get(at))
            .is_some_and(u8::is_ascii_digit)
    };
    text.match_indices('_')
        .all(|(at, _)| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)))
}

fn numeric(text: &str) -> Option<Scalar> {
    if let Some(number) = integer(text) {
        return Some(number);
    }
    if let Some(number) = decimal(text) {
        return Some(Scalar::Float(number));
    }
    // A second sign after `0b` is a quirk of that parser.
    let digits = text.strip_prefix("0b")?;
    i64::from_str_radix(digits, 2).ok().map(Scalar::Signed)
}

/// An integer with an optional sign and one of the prefixes `0x`, `0o`, `0b` and `0`, in either case.
fn integer(text: &str) -> Option<Scalar> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", text.get(1..)?),
        b'+' => ("+", text.get(1..)?),
        _ => ("", text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, digits.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, digits.get(2..)?),
        [b'0', b'b' | b'B', ..] => (2, digits.get(2..)?),
        [b'0', _, ..] => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    if let Ok(number) = i64::from_str_radix(&format!("{sign}{digits}"), radix) {
        return Some(Scalar::Signed(number));
    }
    // Unsigned numbers take no sign.
    if !sign.is_empty() {
        return None;
    }
    u64::from_str_radix(digits, radix)
        .ok()
        .map(Scalar::Unsigned)
}

/// A decimal fraction: `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, in the range of a float.
fn decimal(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let is_digits = |it: &str| it.bytes().all(|it| it.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if !is_digits(whole) || !is_digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    if let Some(exponent) = exponent {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if digits.is_empty() || !is_digits(digits) {
            return None;
        }
    }
    text.parse().ok().filter(|it: &f64| it.is_finite())
}

/// A loose check of the forms that Go accepts: they begin with `YYYY-`.
fn is_timestamp(text: &str) -> bool {
    matches!(text.as_bytes(), [a, b, c, d, b'-', ..] if [a, b, c, d].iter().all(|it| it.is_ascii_digit()))
}

/// A whole number as Go prints and reads it: numbers above `i64::MAX` become floats.
pub(super) fn unsigned(number: u64) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "kubectl loses the same digits")]
    i64::try_from(number).map_or_else(|_| Value::from(number as f64), Value::from)
}

/// A float as Go prints and reads it: whole numbers become integers. None for infinities and NaN.
pub(super) fn float(number: f64) -> Option<Value> {
    if let Ok(whole) = number.to_string().parse::<i64>() {
        return Some(whole.into());
    }
    Number::from_f64(number).map(Value::Number)
}

impl Scalar {
    /// The value in JSON.
    pub(super) fn into_value(self, text: &str) -> Result<Value, Problem> {
        Ok(match self {
            Scalar::Null => Value::Null,
            Scalar::Bool(it) => Value::Bool(it),
            Scalar::Signed(it) => it.into(),
            Scalar::Unsigned(it) => unsigned(it),
            Scalar::Float(it) => float(it).ok_or_else(|| Problem::NoJson(text.to_owned()))?,
            Scalar::Text(it) => Value::String(it),
        })
    }

    /// The key of a map in JSON.
    pub(super) fn into_key(self) -> Result<String, Problem> {
        Ok(match self {
            Scalar::Bool(it) => it.to_string(),
            Scalar::Signed(it) => it.to_string(),
            Scalar::Float(it) => float_key(it),
            Scalar::Text(it) => it,
            Scalar::Null | Scalar::Unsigned(_) => return Err(Problem::Key),
        })
    }
}

/// A float as Go's `FormatFloat(number, 'g', -1, 32)` prints it.
fn float_key(number: f64) -> String {
    if !number.is_finite() {
        let text = if number.is_nan() {
            ".nan"
        } else if number > 0.0 {
            ".inf"
        } else {
            "-.inf"
        };
        return text.to_owned();
    }
    #[expect(clippy::cast_possible_truncation, reason = "kubectl prints 32 bits")]
    let number = number as f32;
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    // Go prints an exponent outside of this range.
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
