//! Modules of this crate import only from the layers below their own.

#[expect(unreachable_pub, reason = "public in the testkit, a crate above")]
#[path = "../../testkit/src/layers.rs"]
mod shared;

/// Top-level modules, lowest layer first. Modules of one layer are independent of each other.
const LAYERS: [&[&str]; 13] = [
    &[
        "body",
        "frames",
        "gather",
        "head_deadline",
        "outgoing",
        "splice",
        "upgrade",
    ],
    &["answer", "error", "transport"],
    &["fields", "pool", "socket"],
    &["chunked", "date", "policy"],
    &["framing"],
    &["head", "sending"],
    &["lines"],
    &["incoming"],
    &["in_flight", "shared_reader"],
    &["download", "request_reader"],
    &["server"],
    &["client"],
    &["lib"],
];

#[test]
fn modules_import_only_from_lower_layers() {
    let src = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    shared::check(src.as_ref(), &LAYERS);
}
