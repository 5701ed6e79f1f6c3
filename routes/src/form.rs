//! Bodies of HTML forms, as OAuth 2.0 uses them.

use std::collections::HashMap;

use axum::extract::{FromRequest, Request};
use fairlead_api::Code;
use http::header;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    body,
    rejected::{Answer, Rejected},
};

/// Content type of a form.
pub(crate) const FORM: &str = "application/x-www-form-urlencoded";
/// Longest form, in bytes.
const MAX_FORM_BYTES: usize = 32 * 1024;

/// A form; unknown fields are ignored, repeated ones are refused (RFC 6749, section 3.2).
pub struct FormBody<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for FormBody<T> {
    type Rejection = Rejected;

    async fn from_request(request: Request, _: &S) -> Answer<Self> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|it| it.to_str().ok()?.split(';').next());
        if !kind.is_some_and(|it| it.trim().eq_ignore_ascii_case(FORM)) {
            let detail = format_args!("expected {FORM}");
            return Err(Rejected::because(Code::WrongContentType, detail));
        }
        let bytes = body::read(request, MAX_FORM_BYTES).await?;
        Ok(FormBody(parse(&bytes)?))
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Answer<T> {
    let mut fields = HashMap::new();
    for (name, value) in form_urlencoded::parse(bytes).into_owned() {
        if fields.insert(name, Value::from(value)).is_some() {
            return Err(Rejected::because(
                Code::BadRequest,
                "a field occurs more than once",
            ));
        }
    }
    // RFC 6749, section 3.2: a parameter without a value is like an omitted one.
    fields.retain(|_, value| value != "");
    let fields = Value::Object(fields.into_iter().collect());
    serde_json::from_value(fields).map_err(|error| Rejected::because(Code::BadRequest, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<HashMap<String, String>> {
        parse(text.as_bytes()).ok()
    }

    #[test]
    fn repeated_fields_are_refused_and_empty_ones_omitted() {
        let form = parsed("a=1%202+3&b=&c=%C3%A4").unwrap();
        let expected = [("a", "1 2 3"), ("c", "\u{e4}")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(form, HashMap::from(expected));
        assert_eq!(parsed("a=1&a=1"), None);
    }
}
