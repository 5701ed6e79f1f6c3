//! Tests of `authenticate`.

use fairlead_api::Code;
use secrecy::ExposeSecret;

use super::*;

fn read(values: &[&str]) -> Result<String, Code> {
    let given = values
        .iter()
        .map(|value| HeaderValue::from_str(value).unwrap());
    bearer(&given.collect::<Vec<_>>())
        .map(|token| token.expose_secret().to_owned())
        .map_err(|error| error.code())
}

#[test]
fn token_comes_from_exactly_one_header() {
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
