//! Merge requests on Git servers.

use super::{Code, MISSING};

pub(super) const fn check(code: Code) -> &'static str {
    match code {
        Code::MergeRefused => {
            "`fairlead maintenance list --tenant TENANT` shows the CI and the conflicts of each merge request. The cause has the server's own words."
        }
        Code::GitServerAway => {
            "The cause names the server. `fairlead git-server list` shows those of the hub; the hub's log has the errors."
        }
        Code::GitServerThrottled => {
            "The cause names the server and the time. All requests with the same settings share its limit."
        }
        _ => MISSING,
    }
}
