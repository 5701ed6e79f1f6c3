//! Any text is rejected with a word that it contains, or is a query within its bounds that reads the same
//! with other spaces.
#![no_main]

use fairlead_api::influxql::{MAX_QUERY_BYTES, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match parse(text) {
        Err(refused) => {
            assert!(text.contains(&refused.word), "{refused:?}");
            assert!(refused.at <= text.chars().count() + 1 || text.len() > MAX_QUERY_BYTES);
        }
        Ok(query) => {
            assert!(text.len() <= MAX_QUERY_BYTES);
            assert!((1..=64).contains(&query.select.len()) && (1..=64).contains(&query.from.len()));
            let wider = format!(" {text}\n");
            if wider.len() <= MAX_QUERY_BYTES {
                assert_eq!(parse(&wider).expect("the same query"), query);
            }
            for column in &query.select {
                let _ = column.title();
            }
        }
    }
});
