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

#[test]
fn usual_form_yields_the_token_of_the_general_one() {
    // Two spaces are no usual form, and mean the same.
    let general = |token: &str| read(&[&format!("Bearer  {token}")]);
    let texts = ["a", "a.b-c_d~e+f/g==", "a b", "a\tb", " a", "a ", "", " "];
    for text in texts {
        assert_eq!(
            read(&[&format!("BEARER {text}")]),
            general(text),
            "{text:?}"
        );
    }
    for byte in (b' '..0x7f).chain([b'\t', 0x80, 0xff]) {
        let value = HeaderValue::from_bytes(&[b"bearer ab".as_slice(), &[byte], b"c"].concat());
        let value = value.unwrap();
        let is_usual = usual_bearer(&value).is_some();
        assert_eq!(is_usual, byte.is_ascii_graphic(), "{byte:#x}");
        assert_eq!(bearer([&value]).is_ok(), is_usual, "{byte:#x}");
    }
}
