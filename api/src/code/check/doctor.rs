//! Findings of `fairlead doctor`.

use super::{Code, MISSING};

pub(super) const fn check(code: Code) -> &'static str {
    match code {
        Code::RightsMissing => {
            "`kubectl auth can-i --list --as system:serviceaccount:fairlead:fairlead-agent` shows the rights of an agent in a pod."
        }
        Code::CheckFailed => "The cause names the check, and the error of its first step.",
        Code::HubCertificateEnds => {
            "`openssl s_client -connect HOST:PORT </dev/null | openssl x509 -noout -dates -ext subjectAltName` shows the certificate of the front."
        }
        Code::HubSpaceLow => {
            "`df -h DIR` shows the free space of the folder, `du -sh DIR/*` its largest parts."
        }
        Code::HubSigningSlow => {
            "`top` on the hub's machine shows other load. The metrics of the hub show its time for enrolments."
        }
        Code::HandshakesFull => {
            "Compare the outcomes of `fairlead_handshakes_total` at the hub: many `evicted` ones, with few `ok`, mean a flood. `fairlead_front_connections` counts the open connections."
        }
        Code::GitServerUnusable => {
            "Run `fairlead doctor --hub --git-servers FILE` on the hub's machine: it asks each server with its token, and prints the answer."
        }
        _ => MISSING,
    }
}
