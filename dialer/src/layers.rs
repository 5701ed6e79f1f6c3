//! Modules of this crate import only from the layers below their own.

#[expect(unreachable_pub, reason = "public in the testkit, a crate above")]
#[path = "../../testkit/src/layers.rs"]
mod shared;

/// Top-level modules, lowest layer first. Modules of one layer are independent of each other.
const LAYERS: [&[&str]; 9] = [
    &[
        "close",
        "input_gate",
        "memory",
        "path",
        "reset_socket",
        "sync",
        "upgrade",
        "websocket",
    ],
    &["byte_socket", "error", "limits", "tls", "watched"],
    &["link", "link_io"],
    &["mux", "wire"],
    &["secure", "session"],
    &["dial"],
    &["accept"],
    &["tunnel"],
    &["lib"],
];

#[test]
fn modules_import_only_from_lower_layers() {
    let src = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    shared::check(src.as_ref(), &LAYERS);
}
