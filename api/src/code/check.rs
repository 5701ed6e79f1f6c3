//! How to find the cause of each code: places to look at, and commands. Words in capitals are placeholders for values of the
//! reader. A test of the command line runs each `fairlead` command in here through its parser.

mod adoption;
mod bundles;
mod commands;
mod doctor;
mod drift;
mod gitops;
mod helm;
mod merge_requests;
mod queue;
mod rollouts;
mod runs;
mod tcp;
mod upgrade;
mod vault;

use super::Code;

const TRACES: &str = "`fairlead_spans_total` counts the spans by outcome. On the machine of the process: `curl -i -X POST URL/v1/traces` shows whether the collector answers.";

impl Code {
    /// How to find the cause: one to three sentences.
    #[must_use]
    pub const fn check(self) -> &'static str {
        match self.number() / 100 {
            11..=13 => request(self),
            14..=15 if matches!(self.number(), 1420..=1429 | 1523..=1529) => tcp::check(self),
            15 if self.number() >= 1520 => upgrade::check(self),
            15 if self.number() >= 1512 => doctor::check(self),
            14..=15 => cluster(self),
            21 if self.number() >= 2114 => adoption::check(self),
            31 if self.number() >= 3114 => doctor::check(self),
            20..=39 => session(self),
            41 if self.number() >= 4180 => upgrade::check(self),
            41 if self.number() >= 4170 => sites(self),
            41 if self.number() >= 4160 => merge_requests::check(self),
            41 if self.number() >= 4150 => vault::check(self),
            41 if self.number() >= 4142 => git_servers(self),
            41 if self.number() >= 4140 => quota(self),
            65 | 66 => queue::check(self),
            41 if self.number() > 4130 => sign_in(self),
            41 if matches!(self.number(), 4126..=4128) => commands::ended(self),
            51 if self.number() >= 5130 => tcp::check(self),
            51 if self.number() >= 5120 => TRACES,
            61 => bundles::content(self),
            62 if self.number() >= 6220 => helm::in_cluster(self),
            62..=63 => runs::in_cluster(self),
            64 => rollouts::releases(self),
            67 => drift::in_cluster(self),
            68 => gitops::in_cluster(self),
            _ => here(self),
        }
    }
}

const MISSING: &str = "Read the cause printed with the code.";

/// Requests to a hub.
const fn request(code: Code) -> &'static str {
    match code {
        Code::NoToken => {
            "Look for `token` in the kubeconfig: `kubectl config view --minify --raw`. A proxy that removes the `Authorization` header has the same effect."
        }
        Code::BadToken => {
            "Run `fairlead whoami`: it fails with the same code if the stored token is invalid. An admin lists the issued tokens with `fairlead token list`. A token of another hub is a frequent cause."
        }
        Code::TokenExpired => {
            "An admin sees the expiry of each token with `fairlead token list -o wide`. A kubeconfig keeps the token that it was written with."
        }
        Code::TooManyWrongTokens => {
            "The hub's log names the address in its lines `request rejected`. `fairlead whoami` shows whether the stored token is valid."
        }
        Code::IssuerDown => {
            "On the hub's machine, fetch the issuer's metadata: `curl -sS ISSUER/.well-known/openid-configuration`. The hub's log names the issuer and the error."
        }
        Code::NoRole => {
            "Compare the claims of the token with the rules in the file that `fairlead server --issuers FILE` reads; docs/issuers.md shows the rules. The hub's log names the user."
        }
        Code::TokenTooLong => {
            "Run `fairlead credential` and look at the length of the token that it prints. Tokens of an issuer grow with the groups of their person."
        }
        Code::NotAllowed => {
            "Run `fairlead whoami`: it prints your role and your tenant. `fairlead token create --help` lists the permissions of each role."
        }
        Code::NoImpersonation => {
            "Look for `as`, `as-uid` and `as-groups` in the kubeconfig: `kubectl config view --minify`. The cause names the header."
        }
        Code::Locked => {
            "The cause names the lock, its reason and its author. `fairlead locks list` shows all locks to an admin, and `fairlead audit` their history."
        }
        Code::RequestEnded => {
            "The cause names the admin and the reason. `fairlead audit` lists the order to end the request."
        }
        Code::AccessEnded => {
            "Run `fairlead whoami`, then `fairlead cluster get CLUSTER`: they show your role and the tenant of the cluster now. `fairlead audit` lists the change to an admin."
        }
        Code::SecondPerson => {
            "Compare `fairlead whoami` with the requester in `fairlead access list`. `fairlead token list -o wide` shows the owner of a token to an admin."
        }
        Code::NoSuchCluster => {
            "Run `fairlead cluster list` and compare ids and names. `fairlead whoami` shows your tenant: clusters of other tenants are not listed."
        }
        Code::WrongHost => {
            "Compare `server` and `tls-server-name` of the kubeconfig with the hub's address: `kubectl config view --minify`."
        }
        Code::BadPath => {
            "Print the path that the client sends: `kubectl -v=8 COMMAND`. Look for `//`, `.`, `..` and `%2F` in it."
        }
        Code::BadRequest => {
            "The cause names the part of the request. `kubectl -v=8 COMMAND` prints what kubectl sends."
        }
        Code::NoSuchRoute => "Compare the path with the paths in `curl -sS HUB/openapi.json`.",
        Code::HeadTooLarge => {
            "Print the headers that the client sends: `kubectl -v=9 COMMAND`. Long tokens and cookies of a proxy are frequent causes."
        }
        Code::MethodNotAllowed => {
            "The header `Allow` of the answer lists the methods: `curl -sSi -X OPTIONS HUB/PATH`."
        }
        Code::BodyMemoryFull => {
            "Look at the size of the request's body, and at the number of values in it: small values cost more memory than their bytes. `fairlead sessions list` shows other running requests."
        }
        Code::ProxyHeader => {
            "The hub's log has the address and the cause: `PROXY header refused`. `tcpdump -A -c 20 port PORT` on the hub's machine shows the first bytes of a connection: `PROXY ` in version 1, `QUIT` in version 2."
        }
        Code::WrongContentType => {
            "Print the headers that the client sends: `curl -v` or `kubectl -v=9 COMMAND`. HTML forms and file uploads do not send JSON."
        }
        Code::HubTimeout => {
            "Look at `fairlead_store_change_duration_seconds` in `curl -sS ADMIN/metrics` on the hub's machine, and at the hub's log of that minute."
        }
        _ => MISSING,
    }
}

/// Requests through a hub to a cluster.
const fn cluster(code: Code) -> &'static str {
    match code {
        Code::NeverConnected => {
            "Run `fairlead cluster token list` to see whether the cluster's bootstrap token is still valid. In the cluster, look at the agent: `kubectl -n fairlead get pods` and `kubectl -n fairlead logs deployment/fairlead-agent`."
        }
        Code::Lost => {
            "Run `fairlead cluster describe CLUSTER` for the time and the last error. In the cluster, look at the agent: `kubectl -n fairlead get pods` and `kubectl -n fairlead logs deployment/fairlead-agent`."
        }
        Code::AgentFull => {
            "Run `fairlead cluster sessions CLUSTER`: the column REQUESTS counts open streams. An agent carries 1,024 on each session."
        }
        Code::TunnelBroke => {
            "Run `fairlead cluster sessions CLUSTER`: a young session shows a reconnect. The agent's log has the reason: `kubectl -n fairlead logs deployment/fairlead-agent`."
        }
        Code::Timeout => {
            "Run `fairlead cluster describe CLUSTER` for the round trip and the last good probe, and `kubectl -n fairlead logs deployment/fairlead-agent` in the cluster for slow requests."
        }
        Code::Draining => {
            "`curl -sS ADMIN/readyz` on the hub's machine shows whether the hub accepts requests. Its log has the time of the shutdown."
        }
        Code::TooManyRequests => {
            "The cause names the limit. `fairlead_requests_open` in `curl -sS ADMIN/metrics` on the hub's machine counts requests; each watch counts as one."
        }
        Code::OtherHub => {
            "Run `fairlead cluster describe CLUSTER`: the line Hub names the hub with the session."
        }
        Code::HubWithoutSession => {
            "Run `fairlead cluster sessions CLUSTER`: the column HUB shows where the agents are connected now."
        }
        Code::AgentRefused => {
            "Run `fairlead whoami` for your user and group. The agent's log names the refused user or group: `kubectl -n fairlead logs deployment/fairlead-agent`."
        }
        Code::ApiUnreachable => {
            "On the agent's machine, query the API server: `kubectl get --raw /readyz`. The agent's log has the error of the last probe."
        }
        Code::TargetRefused => {
            "Run `fairlead cluster config CLUSTER` for the addresses that the hub may request, and look at `--allow-connect` of the agent: `kubectl -n fairlead get deployment fairlead-agent -o yaml`."
        }
        Code::ApiTimeout => {
            "In the cluster, query the API server directly: `kubectl get --raw '/readyz?verbose'`. Webhooks that do not answer are a frequent cause."
        }
        Code::TargetUnreachable => {
            "From a pod of the cluster, open the same address: `kubectl run probe --rm -it --image=busybox -- nc -zv HOST PORT`."
        }
        Code::AgentOverBudget => {
            "Look at `fairlead_agent_session_unread_bytes` on the agent's admin port: `curl -sS ADMIN/metrics`. `fairlead cluster sessions CLUSTER -o yaml` shows `unreadBytes` of each session."
        }
        Code::GitProxyRefused => {
            "The cause names the address. `fairlead cluster get CLUSTER -o yaml` shows the repository of the cluster; the hub's log has each refusal."
        }
        Code::GitProxyUnreachable => {
            "On the hub's machine, connect to the address: `nc -vz HOST PORT`. The cause has the error."
        }
        Code::GitProxyFull => {
            "The metric `fairlead_git_proxy_connections` of the hub counts the open connections, and its log has a line at the end of each."
        }
        Code::NamespaceReserved => {
            "Run `fairlead whoami` for your role. The agent closes its own namespace, and lists of Secrets in all namespaces, to all roles but admin: its Secret is the identity of the cluster."
        }
        Code::RedirectRefused => {
            "In the cluster, send the same request: `kubectl get --raw PATH -v=8` prints status and `Location` of the answer. Only redirects to a path of the API server pass."
        }
        _ => MISSING,
    }
}

/// Enrolment, identity and dialling: mostly in the log of an agent.
const fn session(code: Code) -> &'static str {
    match code {
        Code::BootstrapUnknown => {
            "Run `fairlead cluster token list`: a deleted cluster has no token. Compare the hub in the join string with `fairlead whoami`: a join string is good for one hub."
        }
        Code::BootstrapExpired => {
            "Run `fairlead cluster token list -o wide`: it shows state and expiry of each token. The hub's `--bootstrap-ttl` sets the lifetime."
        }
        Code::BootstrapSpent => {
            "Run `fairlead cluster describe CLUSTER`: a cluster with a connected agent has used its token. `fairlead audit --cluster CLUSTER` shows the enrolment."
        }
        Code::BadCsr => "Read the request: `openssl req -in REQUEST -noout -text -verify`.",
        Code::ForeignName => {
            "Read the names in the request: `openssl req -in REQUEST -noout -text`."
        }
        Code::EnrolOnly => {
            "The agent's log says whether it found an identity: `kubectl -n fairlead logs deployment/fairlead-agent`."
        }
        Code::ForeignCertificate => {
            "The agent's certificate comes from another hub, or the hub has a new CA. The hub's log of its last start names its CA."
        }
        Code::ClusterDeleted => {
            "Run `fairlead audit --cluster CLUSTER` with the id: it shows the deletion with time and author."
        }
        Code::CertificateExpired => {
            "Run `fairlead cluster sessions CLUSTER -o wide`: CERTIFICATE EXPIRES shows the expiry of each identity. Compare the clock of the agent's node: `date -u`."
        }
        Code::NotEnrolled => {
            "Look for the Secret of the identity: `kubectl -n fairlead get secrets`. Outside of a pod, list the folder of `--state`."
        }
        Code::IdentityCloned => {
            "Run `fairlead cluster describe CLUSTER`: it shows both UIDs and the address of the clone. Compare with `kubectl get namespace kube-system -o jsonpath='{.metadata.uid}'` in each cluster."
        }
        Code::IdentityRevoked => {
            "`fairlead audit --cluster CLUSTER` shows the revocation, the move or the newer enrolment with its time. The cause says which of them it was."
        }
        Code::DialDns => {
            "On the same machine, resolve the name: `getent hosts HOST`. In a pod, the cluster's DNS counts: `kubectl run probe --rm -it --image=busybox -- nslookup HOST`."
        }
        Code::DialTcp => {
            "On the same machine, open a connection: `curl -v HUB/healthz`. A refusal means that nothing listens there; silence means a firewall."
        }
        Code::DialProxy => {
            "Open the same connection through the proxy: `curl -v --proxy PROXY HUB/healthz`. The proxy's log has the reason."
        }
        Code::DialProxyAuth => {
            "Test the credentials: `curl -v --proxy PROXY --proxy-user USER:PASSWORD HUB/healthz`. The response's `Proxy-Authenticate` header lists the methods."
        }
        Code::DialTls => {
            "Show the certificate and its issuer: `openssl s_client -connect HOST:PORT -servername HOST -showcerts`. An issuer of your company means that a proxy terminates TLS."
        }
        Code::DialUpgrade => {
            "Request the WebSocket with curl: `curl -sSi -H 'Connection: Upgrade' -H 'Upgrade: websocket' HUB/connect`. The response headers name the proxy or load balancer that answered."
        }
        Code::DialProtocol => {
            "Compare the versions: `fairlead version` on both sides. `curl -sSi HUB/` shows the program that answers."
        }
        Code::DialHubIdentity => {
            "Show the certificate: `openssl s_client -connect HOST:PORT -servername HOST`. Ask the platform operator whether the hub's CA was replaced."
        }
        Code::DialIdentity => {
            "Run `fairlead cluster describe CLUSTER` and `fairlead audit --cluster CLUSTER`: a deletion, a move or a new enrolment revokes an identity."
        }
        Code::DialTimeout => {
            "The cause names the stage. Measure the path: `curl -sS -o /dev/null -w '%{time_connect} %{time_appconnect}\\n' HUB/healthz`."
        }
        Code::DialReplaced => {
            "Run `fairlead cluster sessions CLUSTER`: each agent and each link has a row. Look for a second Deployment: `kubectl get deployments -A`."
        }
        Code::SessionBroke => {
            "Run `fairlead cluster sessions CLUSTER` for the age of each session. Breaks at equal intervals mean an idle timeout of a proxy or load balancer."
        }
        Code::DialClock => {
            "Compare the clocks: `date -u` on both machines, and `curl -sSI HUB/healthz` for the header `Date` of the hub."
        }
        _ => MISSING,
    }
}

/// Configuration, command line, and the hub's own faults.
const fn here(code: Code) -> &'static str {
    match code {
        Code::BadConfig => {
            "The error lists each mistake with its flag, variable or line. `fairlead server --help` and `fairlead agent --help` list the settings; `env | grep FAIRLEAD_` shows those of the environment."
        }
        Code::BadJoinString => {
            "Print it again with `fairlead cluster token show CLUSTER` and compare. Line breaks of a terminal or a chat are a frequent cause."
        }
        Code::DataDir => {
            "List owner and free space: `ls -ld DIR` and `df -h DIR`. The hub and the command must run as the same user."
        }
        Code::AddressInUse => "Find the program with the port: `ss -ltnp 'sport = :PORT'`.",
        Code::HubUnreachable => {
            "Query the hub directly: `curl -v HUB/healthz`. `env | grep -i -e FAIRLEAD_ -e _PROXY` shows variables that take precedence over `fairlead login`."
        }
        Code::NotLoggedIn => {
            "Look at the variables and the file of logins: `env | grep FAIRLEAD_` and `ls ~/.config/fairlead/hubs.toml`."
        }
        Code::NotFound => {
            "List the ids: `fairlead cluster list`, `fairlead tenant list`, `fairlead token list`. `fairlead whoami` shows your tenant; resources of other tenants are not listed."
        }
        Code::Conflict => {
            "Read the current state: `fairlead cluster get CLUSTER -o yaml` or `fairlead tenant get TENANT -o yaml`. `fairlead audit --limit 5` shows the last changes and their authors."
        }
        Code::Invalid => {
            "The cause names the field. /docs of the hub describes each field. `fairlead cluster apply -f FILE --dry-run` checks a document without a change."
        }
        Code::BadKubeconfig => {
            "Try it with kubectl: `kubectl --kubeconfig FILE config get-contexts` and `kubectl --kubeconfig FILE version`."
        }
        Code::InUse => {
            "The cause counts the resources that use it. List them: `fairlead cluster list --tenant TENANT` and `fairlead tenant list --tenant TENANT`."
        }
        Code::CannotWrite => {
            "List owner and free space of the folder: `ls -ld DIR` and `df -h DIR`."
        }
        Code::NotReady => {
            "Run `fairlead cluster describe CLUSTER`: it shows the status, the last error and its next step."
        }
        Code::ChangedMeanwhile => {
            "Run `fairlead audit --limit 5` for the change in between and its author."
        }
        Code::Compacted => {
            "Run `fairlead changes` for the oldest change that is kept. The hub's `--keep-changes` sets the retention."
        }
        Code::Protected => {
            "Run `fairlead cluster get CLUSTER -o jsonpath='{.deleteProtection}'`. `fairlead audit --cluster CLUSTER` shows who set the protection."
        }
        Code::Usage => {
            "The error names the argument. Each command has `--help` with examples; `fairlead --help` lists the commands."
        }
        Code::NotConfirmed => {
            "Run the command on a terminal to see its question. `--dry-run` of `fairlead cluster apply` shows the changes first."
        }
        Code::CannotRead => {
            "List the file and its folder: `ls -ld FILE DIR`. A path is relative to the folder of the command: `pwd`."
        }
        Code::AuditFull | Code::AuditBroken | Code::Unrecordable => audit(code),
        Code::Internal => {
            "Look for the request id in the hub's log. `fairlead version` prints the version for the report."
        }
        Code::Store => {
            "Look at the disk of the hub's data folder: `df -h DIR`. `fairlead store check --data DIR` reads the whole store."
        }
        Code::StoreFull => {
            "Look at the disk of the hub's data folder and its mount: `df -h DIR` and `findmnt -T DIR`."
        }
        Code::StoreAway => {
            "On the hub's machine, open the database: `psql URL -c 'select 1'`. The hub's log has the error of the driver."
        }
        Code::InfluxAway => {
            "On the hub's machine, query the InfluxDB: `curl -sSi INFLUX/ping`. The hub's log has the error."
        }
        Code::InfluxRefused => {
            "Send the query to the hub itself: `fairlead inventory query QUERY --backend hub`. The cause includes the answer of the InfluxDB."
        }
        _ => authority(code),
    }
}

/// The audit log.
const fn audit(code: Code) -> &'static str {
    match code {
        Code::Unrecordable => {
            "Compare the table `[recording]` of the hub's `--audit-config` with the request. On the hub's machine: `df -h DATA/audit/recordings`."
        }
        Code::AuditBroken => {
            "Each line above names file, line and event. Look for the request in the API server's log: its `auditID` is the `id` of the event."
        }
        Code::AuditFull => {
            "On the hub's machine: `df -h DATA/audit`. The hub's log has the error of the last write."
        }
        _ => MISSING,
    }
}

/// Backups and the hub's CA.
const fn authority(code: Code) -> &'static str {
    match code {
        Code::FileExists => {
            "List the file with its time: `ls -l FILE`. A file that ends in `.part` is left over from a backup that was killed."
        }
        Code::NoRecipient => {
            "`fairlead backup --help` describes both flags. A backup without the CA restores the registry only."
        }
        Code::WrongKey => {
            "Print the public key of a private key: `age-keygen -y FILE`. Compare it with the recipients of the backup."
        }
        Code::CaRotating => {
            "Run `fairlead ca status`: it shows both authorities and the clusters that are behind."
        }
        Code::NoRotation => {
            "Run `fairlead ca status`: its phase is `stable`, and it lists retired authorities with their dates."
        }
        Code::NoHostKeys => {
            "On the hub's machine: `ssh-keyscan -p PORT HOST` with `ssh_host` and `ssh_port` of the server."
        }
        Code::OtherHostKeys => {
            "`fairlead git-server scan SERVER` prints the fingerprints of now; the operator of the server publishes the true ones."
        }
        Code::CaBehind => {
            "Run `fairlead ca status`: it lists each cluster that is behind with its last contact. Start its agent, or check it with `fairlead cluster describe CLUSTER`."
        }
        _ => MISSING,
    }
}

/// Quotas of tenants.
const fn quota(code: Code) -> &'static str {
    match code {
        Code::QuotaExceeded => {
            "`fairlead tenant describe TENANT` shows the quotas of the tenant and its clusters; `fairlead token list` shows its tokens. Limits that are not shown are the hub's `--tenant-quota`."
        }
        Code::TooManyChanges => {
            "`fairlead audit --tenant TENANT` shows the last changes and their authors: look for a script in a loop."
        }
        _ => MISSING,
    }
}

/// Networks of sites.
const fn sites(code: Code) -> &'static str {
    match code {
        Code::BadSite => {
            "Read the field in the cause; docs/networks.md lists the settings of sites. A URL with credentials belongs into a Secret of the site."
        }
        _ => MISSING,
    }
}

/// Content of Git repositories.
const fn git_servers(code: Code) -> &'static str {
    match code {
        Code::BadRepoFile => {
            "Read the path and the reason in the cause; docs/git-servers.md lists the limits. Limits of sizes count all files of the record."
        }
        Code::BadCiVariable => {
            "Read the name and the reason in the cause, which never has the value; docs/git-servers.md lists the fields."
        }
        Code::GroupNotAllowed => {
            "Compare the group in the reason with `tenants` of that server in the file that `fairlead server --git-servers FILE` reads."
        }
        _ => MISSING,
    }
}

/// Sign-in of people, on their own machine.
const fn sign_in(code: Code) -> &'static str {
    match code {
        Code::SignInDenied => {
            "The cause has the issuer's own words. Sign in at the issuer in a browser and look for the application there."
        }
        Code::SignInTimeout => {
            "Open the printed address in a browser on the same machine. Without one, use `fairlead login URL --device`."
        }
        Code::SignInIssuerAway => {
            "Fetch the issuer's metadata from this machine: `curl -sS ISSUER/.well-known/openid-configuration`. The cause names the address and the error."
        }
        Code::SignInBadIssuer => {
            "Compare client and scopes of `curl -sS HUB/v1/sign-in` with the client at the issuer. It must be public, and permit the loopback redirect."
        }
        Code::SignInMismatch => {
            "The cause names the value that differs. An old window of an earlier sign-in is the most frequent cause."
        }
        Code::SignInEnded => {
            "The cause has the issuer's own words. Issuers end sign-ins after a time, after a logout, and for removed people."
        }
        Code::NoSignIn => {
            "List the issuers of the hub: `curl -sS HUB/v1/sign-in`. docs/sign-in.md shows the settings of the hub."
        }
        _ => MISSING,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_check_of_its_own() {
        let mut known = std::collections::BTreeSet::new();
        for &code in Code::ALL {
            let check = code.check();
            assert_ne!(check, MISSING, "{code} has no check");
            assert!(check.ends_with('.'), "{code}: {check}");
            let quotes = check.matches('`').count();
            assert!(quotes % 2 == 0, "{code}: a command is not closed: {check}");
            assert!(known.insert(check), "{code} has the check of another code");
        }
    }
}
