//! Any message is rejected, or is the one encoding of its content.
#![no_main]

use fairlead_dialer::link::frame::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &[u8]| {
    if let Ok(frame) = decode(message) {
        assert_eq!(&frame.encode()[..], message);
    }
});
