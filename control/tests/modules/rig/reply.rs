//! A response of a route.

use fairlead_api::Code;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Code of a failure.
    pub(crate) fn code(&self) -> Code {
        let body = self.json();
        assert!(!body["reason"].as_str().unwrap().is_empty(), "{self:?}");
        let code: Code = body["code"].as_str().unwrap().parse().unwrap();
        assert!(!body["next"].as_str().unwrap().is_empty(), "{self:?}");
        code
    }

    /// Body of a success.
    pub(crate) fn good(&self) -> Value {
        assert!(self.status.is_success(), "{self:?}");
        if self.text.is_empty() {
            Value::Null
        } else {
            self.json()
        }
    }
}
