use super::*;

fn reading(files: u64, streams: u64, failed: u64) -> Reading {
    let open = OpenResources {
        memory: 1,
        files,
        threads: 3,
    };
    Reading {
        answered: 0,
        broken_off: 0,
        failed,
        hub: open,
        agent: open,
        gauges: vec![0, 0, streams],
    }
}

#[test]
fn files_open_beyond_the_pools_have_leaked() {
    let before = reading(20, 1, 0);
    assert!(
        before
            .leaks(&reading(20 + MAX_MORE_FILES, 1 + CLIENT_COUNT, 0))
            .is_empty()
    );
    assert_eq!(
        before.leaks(&reading(21 + MAX_MORE_FILES, 2 + CLIENT_COUNT, 0)),
        [
            "hub files: 20 before, 53 after",
            "agent files: 20 before, 53 after",
            "fairlead_streams_open: 1 before, 18 after",
        ]
    );
    assert_eq!(before.leaks(&reading(20, 1, 3)), ["3 requests failed"]);
}
