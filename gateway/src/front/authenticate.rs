//! Request to [`Caller`]: exactly one bearer token, asked of the modules.

use std::sync::Arc;

use fairlead_api::{Code, Failure};
use http::{HeaderMap, header};
use secrecy::SecretString;

use crate::{front::record::Inbound, hub::Hub, seam::Caller};

/// Longest token in bytes.
const MAX_TOKEN: usize = 4096;

/// Something whose caller is known.
pub(crate) struct Known<T> {
    pub(crate) caller: Caller,
    pub(crate) asked: T,
}

/// # Errors
/// `FL-1101`, `FL-1102`, `FL-1103`, `FL-5102`.
pub(crate) async fn authenticate<T>(hub: Arc<Hub>, asked: T) -> Result<Known<T>, Failure>
where
    T: AsRef<Inbound>,
{
    let inbound = asked.as_ref();
    let token = bearer(inbound.request.headers())?;
    let record = inbound.record.clone();
    let caller = hub.trust.caller(&token).await?;
    record.called_by(&caller);
    Ok(Known { caller, asked })
}

impl AsRef<Inbound> for Inbound {
    fn as_ref(&self) -> &Inbound {
        self
    }
}

fn bearer(headers: &HeaderMap) -> Result<SecretString, Failure> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let first = given.next().ok_or(Code::NoToken)?;
    if given.next().is_some() {
        return Err(Failure::because(Code::BadToken, "there is more than one"));
    }
    let (scheme, token) = first
        .to_str()
        .ok()
        .and_then(|value| value.split_once(' '))
        .ok_or(Code::NoToken)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Code::NoToken.into());
    }
    let token = token.trim();
    if token.is_empty() {
        return Err(Code::NoToken.into());
    }
    if token.len() > MAX_TOKEN || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Code::BadToken.into());
    }
    Ok(SecretString::from(token))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use secrecy::ExposeSecret;

    use super::*;

    fn read(values: &[&str]) -> Result<String, Code> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        bearer(&headers)
            .map(|token| token.expose_secret().to_owned())
            .map_err(|failure| failure.code)
    }

    #[test]
    fn a_token_is_taken_from_exactly_one_header() {
        assert_eq!(read(&["Bearer abc"]).as_deref(), Ok("abc"));
        assert_eq!(read(&["bearer abc"]).as_deref(), Ok("abc"));
        for none in [
            &[][..],
            &[""],
            &["abc"],
            &["Bearer"],
            &["Bearer "],
            &["Basic abc"],
        ] {
            assert_eq!(read(none), Err(Code::NoToken), "{none:?}");
        }
        let long = format!("Bearer {}", "x".repeat(MAX_TOKEN + 1));
        for bad in [&["Bearer a", "Bearer a"][..], &["Bearer a b"], &[&long]] {
            assert_eq!(read(bad), Err(Code::BadToken), "{bad:?}");
        }
    }
}
