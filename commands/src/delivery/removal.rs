//! Changes that take bundles away from clusters. The hub refuses them until the list of clusters is confirmed by its hash.

use fairlead_api::{Failure, percent};
use fairlead_client::{HubError, documents::removals::Removals};

use crate::confirm::confirm;

/// Sends a change; one that takes bundles away is sent again once the user has confirmed it. `send` gets the parameter
/// `confirm=...`, or an empty text.
///
/// # Errors
/// `FL-4118` without confirmation; failures of the hub.
pub(crate) async fn confirmed<T>(
    yes: bool,
    send: impl AsyncFn(&str) -> Result<T, HubError>,
) -> Result<T, Failure> {
    let failure = match send("").await {
        Ok(done) => return Ok(done),
        Err(error) => Failure::from(error),
    };
    let removals = Removals::of(failure)?;
    confirm(yes, &format!("This {}. Continue?", removals.text))?;
    let parameter = format!("confirm={}", percent::encode(removals.confirm.as_str()));
    Ok(send(&parameter).await?)
}

/// Adds a parameter to a path with or without others.
pub(crate) fn joined(path: &str, parameter: &str) -> String {
    match (parameter, path.contains('?')) {
        ("", _) => path.to_owned(),
        (parameter, true) => format!("{path}&{parameter}"),
        (parameter, false) => format!("{path}?{parameter}"),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use fairlead_api::Code;
    use serde_json::json;

    use super::*;
    use crate::output::streams;

    fn hash() -> String {
        format!("sha256:{}", "ab".repeat(32))
    }

    fn refusal() -> HubError {
        let removed = json!([
            { "cluster": "c-b", "bundle": "b-shop", "deletes": true },
            { "cluster": "c-c", "bundle": "b-web", "deletes": false },
        ]);
        let details = json!({ "removed": removed, "confirm": hash() });
        let failure =
            Failure::with_cause(Code::RemovalNotConfirmed, "the change takes bundles away");
        HubError::from(failure.details(details))
    }

    #[tokio::test]
    async fn confirmed_removal_is_sent_with_its_hash() {
        let sent = RefCell::new(Vec::new());
        let send = async |confirm: &str| {
            sent.borrow_mut().push(confirm.to_owned());
            match confirm {
                "" => Err(refusal()),
                _ => Ok(7),
            }
        };
        assert_eq!(confirmed(true, &send).await, Ok(7));
        assert_eq!(
            *sent.borrow(),
            [
                String::new(),
                format!("confirm={}", percent::encode(&hash()))
            ]
        );
        streams::capture();
        let failure = confirmed(false, &send).await.unwrap_err();
        assert_eq!(failure.code, Code::NotConfirmed);
        let list = "This takes b-shop with its objects from c-b, b-web from c-c. Continue?";
        assert!(failure.cause.contains(list), "{failure:?}");
    }

    #[tokio::test]
    async fn other_failures_are_not_repeated() {
        let sent = RefCell::new(0);
        let send = async |_: &str| {
            *sent.borrow_mut() += 1;
            Err::<(), _>(HubError::from(Failure::new(Code::NotAllowed)))
        };
        let failure = confirmed(true, send).await.unwrap_err();
        assert_eq!(failure.code, Code::NotAllowed);
        assert_eq!(*sent.borrow(), 1);
    }
}
