//! Rules for all kinds: deletion, observed generation, and conditions.

use serde_json::Value;

use super::{Finding, HealthState, failed, progressing};
use crate::{object::text, sentence::short};

/// Rules that come before those of a kind.
pub(super) fn check(object: &Value) -> Finding {
    if text(object, "/metadata/deletionTimestamp").is_some() {
        let finalizers = object.pointer("/metadata/finalizers");
        let finalizers = finalizers.and_then(Value::as_array).into_iter().flatten();
        let names: Vec<_> = finalizers.filter_map(Value::as_str).collect();
        let cause = if names.is_empty() {
            "is being deleted".to_owned()
        } else {
            format!("is being deleted and waits for {}", names.join(", "))
        };
        return Some((HealthState::Terminating, cause));
    }
    let observed = integer(object, "/status/observedGeneration");
    if let (Some(observed), Some(generation)) = (observed, integer(object, "/metadata/generation"))
        && observed != generation
    {
        return progressing(format!(
            "has generation {generation}, and its controller has observed {observed}"
        ));
    }
    if let Some(condition) = condition(object, "Reconciling")
        && is_true(condition)
    {
        return progressing(with_message("is reconciling", condition));
    }
    if let Some(condition) = condition(object, "Stalled")
        && is_true(condition)
    {
        return failed(with_message("is stalled", condition));
    }
    None
}

/// The condition `Ready`, for kinds without rules of their own. An object without it is ready.
pub(super) fn ready_condition(object: &Value) -> Finding {
    let condition = condition(object, "Ready")?;
    if is_true(condition) {
        return None;
    }
    progressing(with_message("is not ready", condition))
}

pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions
        .iter()
        .find(|it| it.get("type").and_then(Value::as_str) == Some(kind))
}

pub(super) fn is_true(condition: &Value) -> bool {
    status(condition) == "True"
}

pub(super) fn is_false(condition: &Value) -> bool {
    status(condition) == "False"
}

fn status(condition: &Value) -> &str {
    text(condition, "/status").unwrap_or_default()
}

/// Adds message or reason of a condition to a sentence.
pub(super) fn with_message(sentence: &str, condition: &Value) -> String {
    let cause = text(condition, "/message").or_else(|| text(condition, "/reason"));
    match cause {
        None => sentence.to_owned(),
        Some(cause) => format!("{sentence}: {}", short(cause)),
    }
}

pub(super) fn integer(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer)?.as_i64()
}

/// A counter of the status; missing ones are 0.
pub(super) fn count(object: &Value, pointer: &str) -> i64 {
    integer(object, pointer).unwrap_or_default()
}
