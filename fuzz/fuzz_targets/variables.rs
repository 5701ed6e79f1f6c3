//! Replacement of any text names only variables that the scan of the text finds, and leaves all other text.
#![no_main]

use std::{borrow::Cow, cell::Cell};

use fairlead_bundle::variables::{UsedVariables, VariableError, substitute_text};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|text: &str| {
    let used = UsedVariables::of_text(text);
    let is_looked_up = Cell::new(false);
    let lookup = |name: &str| {
        is_looked_up.set(true);
        assert!(used.contains(name), "{name}");
        (name.len() % 2 == 0).then(|| Cow::Owned(Value::from(name)))
    };
    let replaced = substitute_text(text, &lookup);
    if !is_looked_up.get() && !text.contains("$${") {
        match replaced {
            Ok(replaced) => assert_eq!(replaced, Value::from(text)),
            Err(error) => assert!(matches!(error, VariableError::Nested(_)), "{error}"),
        }
    }
});
