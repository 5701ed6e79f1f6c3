//! File with the CA of the hub's front. It follows each rotation of the CA.

use std::path::PathBuf;

use fairlead_client::files;
use fairlead_control::Control;
use fairlead_runtime::Process;
use tracing::warn;

/// Writes the trusted authorities into `file` whenever the front has another certificate. A client with an older file
/// would reach the hub no longer after the retirement of its CA.
pub(super) async fn keep(file: PathBuf, control: Control, process: Process) {
    let mut front = control.front_tls();
    loop {
        let written = files::read(&file).ok();
        let trusted = control.ca_pem();
        if written.as_deref() != Some(trusted.as_str())
            && let Err(error) = files::write(&file, &trusted)
        {
            warn!(file = %file.display(), %error, "file with the front's CA not written");
        }
        tokio::select! {
            () = process.draining() => return,
            changed = front.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}
