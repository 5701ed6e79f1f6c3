//! Access of clusters to Vault.

use super::{Code, MISSING};

pub(super) const fn check(code: Code) -> &'static str {
    match code {
        Code::VaultSealed => {
            "`vault status` at the hub's Vault shows the seal. `fairlead cluster get CLUSTER -o yaml` shows the state of the access below `vault`."
        }
        Code::VaultAway => {
            "From the hub's machine, `curl -sS ADDRESS/v1/sys/health` shows whether Vault answers. The cause names the failure."
        }
        Code::VaultToken => {
            "`vault token lookup` with the token of the file shows its end. A token without a renewal ends after its TTL."
        }
        Code::VaultRight => {
            "`vault token capabilities PATH` with the hub's token shows its rights on the path that the cause names."
        }
        Code::VaultTaken => {
            "`vault auth list -detailed` shows the description of each auth method, and `vault policy read NAME` the first line of a policy: both name the owner."
        }
        Code::VaultRefused => {
            "The cause has Vault's own words. `vault secrets list` and `vault auth list` show what is enabled there."
        }
        _ => MISSING,
    }
}
