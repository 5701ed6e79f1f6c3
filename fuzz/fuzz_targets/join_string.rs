//! Any text is rejected or survives a round trip, both as it is and as a payload with a valid checksum, which
//! random input would not find.
#![no_main]

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use fairlead_api::JoinString;
use libfuzzer_sys::fuzz_target;
use secrecy::ExposeSecret;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        check(text);
    }
    let mut whole = bytes.to_vec();
    whole.extend(crc32(bytes).to_be_bytes());
    check(&format!("fl1.{}", URL_SAFE_NO_PAD.encode(whole)));
});

fn check(text: &str) {
    let Ok(join) = text.parse::<JoinString>() else {
        return;
    };
    // A URL may become too long for its field in its normal form. Nothing else may be lost.
    if let Ok(again) = join.encode() {
        let read: JoinString = again.expose_secret().parse().expect("a join string that we wrote");
        assert_eq!(read.hubs, join.hubs);
        assert_eq!(read.ca_pins, join.ca_pins);
        assert_eq!(read.token.expose_secret(), join.token.expose_secret());
    }
}

/// CRC-32 as in gzip.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}
