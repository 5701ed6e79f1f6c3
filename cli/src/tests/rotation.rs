//! Rotation of the CA, as its admin meets it.

use std::fs;

use fairlead_runtime::workers;
use fairlead_testkit::wait::{TEST_DEADLINE, eventually};

use super::hub::TestHub;

impl TestHub {
    /// Waits until the file with the CA of the front has as many certificates.
    fn wait_ca_file(&self, certificates: usize) {
        let file = self.ready("ca_file");
        let changed = eventually(TEST_DEADLINE, "the file with the CA", async || {
            let pem = fs::read_to_string(file).ok()?;
            (pem.matches("BEGIN CERTIFICATE").count() == certificates).then_some(())
        });
        workers::single().unwrap().block_on(changed).unwrap();
    }
}

#[test]
fn ca_file_of_the_hub_follows_a_rotation() {
    let hub = TestHub::start();
    let old = fs::read_to_string(hub.ready("ca_file")).unwrap();
    hub.said(&["ca", "rotate", "--yes"]);
    hub.wait_ca_file(2);
    hub.said(&["ca", "retire", "--yes"]);
    hub.wait_ca_file(1);
    assert_ne!(fs::read_to_string(hub.ready("ca_file")).unwrap(), old);

    // The login from before the rotation has the old CA, and the next step of the failure works.
    let refused = hub.run(&["whoami"]);
    refused.failed(5, "FL-3105");
    assert!(refused.stderr.contains("front-ca.pem"), "{refused:?}");
    let login = [
        "login",
        hub.ready("url"),
        "--token-file",
        hub.ready("token_file"),
        "--ca-file",
        hub.ready("ca_file"),
    ];
    hub.said(&login);
    hub.said(&["whoami"]);
}
