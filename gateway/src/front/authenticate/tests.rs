//! Tests of `authenticate`.

use fairlead_api::Code;

use super::*;

fn read(values: &[&str]) -> Result<String, Code> {
    let given = values
        .iter()
        .map(|value| HeaderValue::from_str(value).unwrap());
    bearer(&given.collect::<Vec<_>>())
        .map(str::to_owned)
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
    for bad in [&["Bearer a", "Bearer a"][..], &["Bearer a b"]] {
        assert_eq!(read(bad), Err(Code::BadToken), "{bad:?}");
    }
}

#[test]
fn token_has_16_kib_at_most() {
    let longest = "x".repeat(MAX_TOKEN_BYTES);
    let read_token = |token: &str| read(&[&format!("Bearer {token}")]);
    assert_eq!(read_token(&longest).as_deref(), Ok(longest.as_str()));
    assert_eq!(
        read_token(&format!("{longest}x")),
        Err(Code::TokenTooLong),
        "not a wrong token, so it does not count against the address"
    );
}
