//! Any file is refused, or its objects survive as JSON: a JSON document reads as the same object.
#![no_main]

use fairlead_manifests::yaml;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(manifests) = yaml::parse("a.yaml", bytes) else {
        return;
    };
    for manifest in manifests {
        let json = manifest.object.to_string();
        // JSON has a smaller limit of depth.
        let Ok(again) = yaml::parse("a.json", json.as_bytes()) else {
            continue;
        };
        if let [again] = &again[..] {
            assert_eq!(again.object, manifest.object);
        }
    }
});
