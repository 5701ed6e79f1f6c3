//! Modules of the agent import only from the layers below their own.

use fairlead_testkit::layers;

/// Top-level modules, lowest layer first. Modules of one layer are independent of each other.
const LAYERS: [&[&str]; 7] = [
    &[
        "backoff",
        "config",
        "connect_rules",
        "metrics",
        "proxy_source",
        "reserved",
    ],
    &["hub_request", "identity", "role_bindings"],
    &["context", "home"],
    &[
        "configuration",
        "delivery",
        "facts",
        "git_proxy",
        "gitops",
        "proxy",
        "rights",
        "upgrade",
    ],
    &["link"],
    &["doctor"],
    &["lib", "uninstall"],
];

#[test]
fn modules_import_only_from_lower_layers() {
    let src = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    layers::check(src.as_ref(), &LAYERS);
}
