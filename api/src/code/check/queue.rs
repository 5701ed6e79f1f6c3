//! Runs, their logs, and sources.

use super::MISSING;
use crate::Code;

/// How to find the cause of a code of runs and sources.
pub(super) const fn check(code: Code) -> &'static str {
    match code.number() / 100 {
        65 => run(code),
        _ => source(code),
    }
}

const fn run(code: Code) -> &'static str {
    match code {
        Code::RunStopped => {
            "`fairlead run get RUN` shows attempt and state of the run. A lease ends after 60 s without a call of the agent; the agent's log has the time of its last one."
        }
        Code::OtherLog => {
            "The cause has the offset. Two agents that work on one run are a frequent cause: `fairlead cluster sessions CLUSTER` lists the agents of the cluster."
        }
        Code::OtherResult => {
            "`fairlead run get RUN` shows the accepted result. Two agents that work on one run are a frequent cause."
        }
        Code::LogGap => {
            "The answer's `fairlead-log-offset` has the stored length. `fairlead run get RUN` shows `logBytes`: it grows while the agent sends."
        }
        Code::LogIncomplete => {
            "The cause has the stored length. If it does not grow, the agent's log names the failed upload."
        }
        Code::RunEnded => "`fairlead run get RUN` shows the end of the run and its cause.",
        Code::RunGone => {
            "The hub keeps the last 20 ended runs of a bundle in a cluster, for 90 days. A restored hub does not know runs since its backup."
        }
        Code::LogForgotten => {
            "The hub keeps logs for 14 days, and 2 GiB of them together. `fairlead run get RUN` shows the age of the run."
        }
        Code::LogRange => "The header `Content-Range` of the answer has the length of the log.",
        Code::RemovalNotOrdered => {
            "`fairlead bundle get BUNDLE` lists the clusters from which the bundle is being removed."
        }
        _ => MISSING,
    }
}

const fn source(code: Code) -> &'static str {
    match code {
        Code::SourceUnreachable => {
            "On the hub's machine: `git ls-remote URL`. `fairlead source get SOURCE` shows the reason and the time of the last successful poll."
        }
        Code::HostKeyRefused => {
            "Print the keys of the server: `ssh-keyscan HOST`. A key that changed without notice may be another machine in its place."
        }
        Code::GitAccessDenied => {
            "The source names its credentials in `git.credentials.name`: a file of that name is in the folder of the source's tenant, below `--delivery-credentials` of the hub."
        }
        Code::NoSuchRef => "List the references: `git ls-remote URL`.",
        Code::CommitNotSigned => {
            "In a clone: `git -c gpg.ssh.allowedSignersFile=FILE verify-commit COMMIT`, with the lines of `git.verify` in the file."
        }
        Code::BadSourceFolder => {
            "The cause names the file. In a clone, `git ls-tree -r COMMIT PATH` lists the folder; mode 120000 is a symbolic link, 160000 a submodule."
        }
        Code::BundleNameTaken => {
            "The cause names both. `fairlead bundle get BUNDLE` shows source and path of a bundle."
        }
        Code::GitFailed => {
            "The hub's log has the lines `source not polled` with the source and the error."
        }
        Code::HookRefused => {
            "The file of the secret is `TENANT/SOURCE.webhook` in the folder `--delivery-credentials` of the hub. The server's own page of the webhook lists its last deliveries."
        }
        Code::ChartUnavailable => {
            "On the hub's machine: `helm pull NAME --repo URL --version VERSION`, with the fields of `chart`."
        }
        Code::SourceSuspended => "`fairlead source get SOURCE -o yaml` shows `suspended`.",
        _ => MISSING,
    }
}
