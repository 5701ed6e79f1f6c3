//! `deploy/release/rustc-stable-names`: arguments that rustc gets, with `echo` as rustc.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::{path::Path, process::Command};

const HOST_ARGUMENTS: [&str; 2] = ["-C", "metadata=43caf5f324a96233"];
const TARGET_ARGUMENTS: [&str; 4] = [
    "--target",
    "x86_64-unknown-linux-gnu",
    "-C",
    "metadata=43caf5f324a96233",
];

/// Arguments that rustc gets for a package of this name and version.
fn passed(name: &str, version: [&str; 3], arguments: &[&str]) -> String {
    let wrapper =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/release/rustc-stable-names");
    let [major, minor, patch] = version;
    let output = Command::new(wrapper)
        .arg("echo")
        .args(arguments)
        .env("CARGO_PKG_NAME", name)
        .env("CARGO_PKG_VERSION", version.join("."))
        .env("CARGO_PKG_VERSION_MAJOR", major)
        .env("CARGO_PKG_VERSION_MINOR", minor)
        .env("CARGO_PKG_VERSION_PATCH", patch)
        .output()
        .unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .unwrap()
        .trim_end()
        .to_owned()
}

fn metadata(name: &str, version: [&str; 3]) -> String {
    let passed = passed(name, version, &TARGET_ARGUMENTS);
    let (_, metadata) = passed.rsplit_once("metadata=").unwrap();
    metadata.to_owned()
}

#[test]
fn metadata_is_name_and_compatible_version() {
    assert_eq!(metadata("tokio", ["1", "54", "0"]), "tokio-1");
    assert_eq!(metadata("h2", ["0", "4", "12"]), "h2-0.4");
    assert_eq!(metadata("tiny", ["0", "0", "7"]), "tiny-0.0.7");
}

#[test]
fn own_crates_keep_their_names_in_a_new_version() {
    assert_eq!(
        metadata("fairlead-gateway", ["0", "1", "0"]),
        "fairlead-gateway"
    );
    assert_eq!(metadata("fairlead", ["1", "0", "0"]), "fairlead");
}

#[test]
fn build_scripts_and_macros_keep_the_metadata_of_cargo() {
    let passed = passed("tokio-macros", ["2", "6", "0"], &HOST_ARGUMENTS);
    assert_eq!(passed, "-C metadata=43caf5f324a96233");
}
