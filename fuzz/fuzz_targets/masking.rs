//! Chunks of a text do not change its masked form, and no value stays.
#![no_main]

use fairlead_masking::Masker;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<Vec<u8>>, Vec<Vec<u8>>)| {
    let (values, chunks) = input;
    let Ok(masker) = Masker::new(&values) else {
        return;
    };
    let whole = masker.mask_bytes(&chunks.concat());
    let mut stream = masker.stream();
    let mut out = Vec::new();
    for chunk in &chunks {
        stream.push(chunk, &mut out);
    }
    stream.finish(&mut out);
    assert_eq!(out, whole);
});
