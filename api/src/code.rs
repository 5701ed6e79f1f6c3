//! Stable codes of all failures that people can meet. A number never changes its meaning and is never reused.
//! `fairlead explain FL-1402` prints the texts of this file.

mod check;

use std::{borrow::Cow, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($name:ident = $number:literal, $http:literal, $title:literal, $next:literal;)*) => {
        /// Stable code of a failure, like `FL-1402`. [`Code::group`] has the meaning of the first digits.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $(#[doc = $title] $name,)* }

        impl Code {
            /// All codes, ordered by number.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// Number after `FL-`.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self { $(Code::$name => $number,)* }
            }

            /// HTTP status of a response with this code; 0 for codes that are never sent over HTTP.
            #[must_use]
            pub const fn http_status(self) -> u16 {
                match self { $(Code::$name => $http,)* }
            }

            /// One sentence without a full stop: the failure.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }

            /// One sentence: the next step for the reader.
            #[must_use]
            pub const fn next_step(self) -> &'static str {
                match self { $(Code::$name => $next,)* }
            }
        }
    };
}

codes! {
    NoToken = 1101, 401, "the request has no bearer token", "Run `fairlead login`, then write the kubeconfig again with `fairlead kubeconfig`.";
    BadToken = 1102, 401, "the bearer token was not issued by this hub", "Get a token from the platform operator, run `fairlead login`, then write each kubeconfig again with `fairlead kubeconfig`.";
    TokenExpired = 1103, 401, "the bearer token has expired", "Get a new token from the platform operator, run `fairlead login`, then write each kubeconfig again with `fairlead kubeconfig`.";
    TooManyWrongTokens = 1104, 429, "this address has sent too many invalid tokens", "Correct the client's token and try again in a minute; requests with valid tokens are not affected.";
    IssuerDown = 1105, 503, "the issuer of this token cannot be reached", "Try again in a moment; the hub's log names the issuer and the error for the platform operator.";
    NoRole = 1106, 403, "the user of this token has no role on this hub", "Ask the platform operator to add a rule to the hub's issuers file, or to create a token of the hub.";
    TokenTooLong = 1107, 431, "the bearer token is longer than 16 KiB", "Let the issuer put fewer claims into the token, for example only the groups that the hub's issuers file names.";
    NotAllowed = 1201, 403, "your role does not allow this", "Ask an admin of the tenant for a token with the right role (`fairlead token create --help` lists them).";
    NoImpersonation = 1202, 403, "only the gateway may set impersonation headers", "Omit `--as` and `--as-group`, or use a token of that user; an admin may use `--as` with the users in the agent's `--allow-as`.";
    Locked = 1203, 403, "an admin has locked this user, token, cluster or tenant", "Ask the author of the lock named in the cause; an admin removes it with `fairlead unlock`, and `fairlead locks list` shows all.";
    RequestEnded = 1204, 403, "an admin has ended this request", "Ask the admin named in the cause, then run the command again.";
    AccessEnded = 1205, 403, "the access of this running request has ended", "Run `fairlead whoami` to see your access now, and ask an admin of the tenant if you still need it.";
    SecondPerson = 1206, 403, "a second person has to decide on this request", "Ask another admin of the tenant: nobody decides on the own request, nor on one of a token that they own.";
    NoSuchCluster = 1301, 404, "no cluster with this id is visible to you", "List the visible clusters with `fairlead cluster list`.";
    WrongHost = 1302, 421, "the host of the request differs from the TLS server name", "Write the kubeconfig again with `fairlead kubeconfig`, and check for a proxy that rewrites the host.";
    BadPath = 1303, 400, "the path of the request is ambiguous", "Send the path as the Kubernetes API defines it: no `//`, no dot segments, no encoded slashes or dots.";
    BadRequest = 1304, 400, "the request is malformed", "Correct the part of the request that the cause names.";
    NoSuchRoute = 1305, 404, "the hub has no route at this path", "Use `/k8s/clusters/<id>/` for clusters; `/docs` describes the hub's own API.";
    HeadTooLarge = 1306, 431, "the request headers exceed 64 KiB or 90 fields", "Send fewer or shorter headers.";
    MethodNotAllowed = 1307, 405, "the path does not support this method", "Use one of the methods in the response's `Allow` header.";
    HubTimeout = 1308, 504, "the hub did not complete the request in time", "Run the command again; if it fails again, send the time to the platform operator.";
    WrongContentType = 1309, 415, "the path does not accept this content type", "Send JSON with `Content-Type: application/json`; a PATCH may use `application/merge-patch+json`.";
    BodyMemoryFull = 1310, 429, "the memory budget for request bodies is used up", "Try again in a moment; send large documents one after the other.";
    ProxyHeader = 1311, 0, "a connection has no valid PROXY header of a trusted proxy", "Let `--trusted-proxy` name each load balancer, and switch the PROXY protocol on at all of them or omit `--proxy-protocol`.";
    NeverConnected = 1401, 503, "the cluster has never connected", "Run the install command in the cluster; `fairlead cluster token show CLUSTER` prints it while its token is valid.";
    Lost = 1402, 503, "the cluster's agent has lost its connection", "Look at the agent's log in namespace fairlead of that cluster; the agent reconnects by itself.";
    AgentFull = 1403, 429, "the cluster's agent has reached its limit of open streams", "Close some watches or exec sessions, or try again in a moment.";
    TunnelBroke = 1404, 502, "the connection to the agent broke before it answered", "Run the command again; the agent reconnects by itself.";
    Timeout = 1405, 504, "the agent did not answer in time", "Run the command again; if it fails again, look at the agent's log.";
    Draining = 1406, 503, "the hub is shutting down", "Run the command again in a few seconds.";
    TooManyRequests = 1407, 429, "too many requests are in progress", "Try again in a moment.";
    OtherHub = 1408, 503, "the cluster's agent is connected to another hub, which this one cannot reach", "Ask the platform operator to check the `--hub-address` of that hub and the network between the hubs; meanwhile use the address of that hub (`fairlead login`, then `fairlead kubeconfig`).";
    HubWithoutSession = 1409, 503, "the hub that should have the cluster's session has none", "Run the command again; the agent is connecting to another hub.";
    TcpTargetInvalid = 1420, 400, "the target of a TCP connection is not valid", "Name the target as HOST:PORT: a DNS name in lower case, an IPv4 address or an IPv6 address in brackets, and a port from 1 to 65535.";
    TcpUpgradeMissing = 1421, 400, "a TCP connection needs a WebSocket over HTTP/1.1 or HTTP/2", "Connect by the WebSocket that docs/tcp.md describes.";
    TcpBroke = 1422, 502, "the TCP connection in the cluster broke", "Connect again; if it fails again, look at the log of the program at the target and at that of the agent.";
    TcpNotAllowed = 1423, 403, "your role does not allow TCP connections into the cluster", "Ask an admin of the tenant for a token with the role tcp, or request the role for a time with `fairlead access request`; the role admin allows them, too.";
    TcpFrames = 1424, 400, "the client's WebSocket does not follow the protocol of TCP connections", "Use a client of the hub's version; docs/tcp.md describes the messages.";
    ServicePortsMissing = 1425, 409, "the hub does not listen at this port for services", "Choose a port of the hub's `--service-ports`; the platform operator switches them on with `--service-listen`.";
    ServiceTaken = 1426, 409, "another service has this port or host", "List the visible services with `fairlead service list`, and choose another port or host.";
    ServiceClientRefused = 1427, 403, "the service does not admit this address", "Ask an admin of the cluster to add your network to `from` of the service.";
    AgentRefused = 1501, 403, "the agent does not impersonate this user or one of these groups", "Ask the site operator to allow the group with the agent's `--allow-group`.";
    ApiUnreachable = 1502, 502, "the agent cannot reach its API server", "Ask the site operator to check the API server; the agent's log has the cause.";
    TargetRefused = 1503, 403, "the agent does not allow connections to this address", "Ask the site operator to allow the address with the agent's `--allow-connect`.";
    ApiTimeout = 1504, 504, "the API server did not answer the agent in time", "Run the command again; if it fails again, ask the site operator to check the API server.";
    TargetUnreachable = 1505, 502, "the agent cannot reach this address", "Ask the site operator to check the service at this address.";
    AgentOverBudget = 1506, 429, "the agent's memory budget for data into the cluster is used up", "Try again in a moment; the site operator can raise the agent's `--session-memory`.";
    RedirectRefused = 1507, 502, "the cluster redirects to a place outside of itself", "Ask the site operator which program behind the API server redirects; clients would send their tokens to its target.";
    NamespaceReserved = 1508, 403, "the agent's namespace is reserved to admins of the hub", "Ask an admin of the hub, or work in the cluster with an account of its own.";
    GitProxyRefused = 1509, 403, "the hub's Git proxy does not allow this address", "Ask the platform operator to add the address to the hub's `--git-proxy-allow`; a cluster reaches the servers of its own repositories only.";
    GitProxyUnreachable = 1510, 502, "the hub's Git proxy cannot reach this address", "Ask the platform operator to check the Git server from the hub's machine.";
    GitProxyFull = 1511, 429, "too many connections through the hub's Git proxy are open", "Try again when other fetches of this cluster have ended.";
    RightsMissing = 1512, 0, "the agent lacks rights in its cluster", "Apply the current install manifest of this cluster as a cluster administrator; the cause lists the missing rights.";
    CheckFailed = 1513, 0, "a check of the doctor cannot be carried out", "Correct the cause, then run `fairlead doctor` again.";
    HubCertificateEnds = 1514, 0, "the certificate of the hub's front ends soon", "Renew the certificate with the host of `--public-url` among its names, and start the hub again if it does not read it by itself.";
    HubSpaceLow = 1515, 0, "a folder of the hub has little free space", "Free space on the disk of this folder, or move the folder to a larger one.";
    HubSigningSlow = 1516, 0, "the hub signs certificates too slowly", "Look for other load on the hub's machine, or on the store of its key.";
    AgentUpgradeRefused = 1520, 0, "the agent may not or cannot upgrade itself", "Remove the cause, for example by applying a new install manifest, then start another upgrade; or change the image by hand.";
    AgentRolledBack = 1521, 0, "the agent's new pods did not become ready, and it returned to its former image", "Correct the cause, which is that of the pods, then start another upgrade with `fairlead agent upgrade`.";
    AgentUpgradeUnreported = 1522, 0, "the agent has not reported the result of its upgrade in time", "Look at the cluster with `fairlead cluster get CLUSTER` and at the log of its agent; agents from before this function change by hand only.";
    TargetReserved = 1523, 403, "this address belongs to the agent's own machine, its link or its cloud", "Ask the site operator to name address and port exactly with the agent's `--allow-connect`, like `127.0.0.1:8080`, if connections to it are wanted.";
    TargetUnreadable = 1524, 400, "the agent cannot read the target of a connection", "Name the target as HOST:PORT in lower case, without a dot at its end, with an IPv6 address in brackets.";
    BootstrapUnknown = 2101, 401, "the bootstrap token was not issued by this hub", "Create a new one with `fairlead cluster token renew CLUSTER` and install again.";
    BootstrapExpired = 2102, 401, "the bootstrap token has expired", "Create a new one with `fairlead cluster token renew CLUSTER` and install again.";
    BootstrapSpent = 2103, 401, "the bootstrap token was already used with another key", "If you did not use it, inform the platform operator; otherwise create a new one with `fairlead cluster token renew CLUSTER`.";
    BadCsr = 2104, 400, "the certificate request is invalid", "Send a PKCS#10 request signed with its own P-256 or Ed25519 key.";
    ForeignName = 2105, 403, "the certificate request names another identity", "Omit the names; the hub adds those of the bootstrap token.";
    EnrolOnly = 2106, 403, "a session without an identity may only enrol", "Start the agent with `--join` to enrol it.";
    ForeignCertificate = 2107, 401, "the certificate was not issued by this hub's CA", "Enrol again with a new join string from `fairlead cluster token renew CLUSTER`.";
    ClusterDeleted = 2109, 403, "the cluster of this identity has been deleted", "Register the cluster again with `fairlead cluster create NAME`, or stop the agent.";
    CertificateExpired = 2110, 401, "the certificate has expired", "Check the clock of the agent's node; an agent renews its identity until the hub's `--renew-grace` has passed, and needs a new join string from `fairlead cluster token renew CLUSTER` after that.";
    NotEnrolled = 2111, 401, "the agent has neither an identity nor a join string", "Start the agent with `--join`, or install it with the manifest of its cluster.";
    IdentityCloned = 2112, 403, "this agent's identity belongs to another Kubernetes cluster", "If this cluster replaces the other one, enrol it with a new join string from `fairlead cluster token renew CLUSTER`; otherwise register it as a separate cluster.";
    IdentityRevoked = 2113, 403, "this identity of an agent was revoked", "Enrol the agent with a new join string from `fairlead cluster token renew CLUSTER`.";
    AdoptionOff = 2114, 403, "the hub adopts no agents", "Start the hub with `--adoption`, or the agent with a join string of `fairlead cluster create`.";
    AdoptionRefused = 2115, 403, "a person has refused to adopt this agent", "Ask the operator of the hub; the agent announces itself again when the time of its code is over.";
    AdoptionUnknown = 2116, 404, "no agent waits with this code", "Compare the code with the newest line `agent waits for its adoption` in the agent's log: an expired code is replaced by another one.";
    AdoptionsFull = 2117, 429, "too many agents wait for their adoption", "Approve or refuse those of `fairlead adoption list`; the agent tries again by itself.";
    AdoptionKeyDiffers = 2118, 409, "the waiting agent has another key than the approval names", "Compare the fingerprints in the agent's log and in `fairlead adoption list`: a box on the path may pose as the agent.";
    DialDns = 3101, 0, "the hub's name cannot be resolved", "Check the name, and DNS on the agent's machine.";
    DialTcp = 3102, 0, "the TCP connection to the hub failed", "Allow outbound connections to that address in the firewall, or set HTTPS_PROXY.";
    DialProxy = 3103, 0, "the proxy did not connect to the hub", "Ask the proxy's operator to allow CONNECT to the hub.";
    DialProxyAuth = 3104, 0, "the proxy rejected the credentials", "Put user and password into HTTPS_PROXY (http://user:password@host:port).";
    DialTls = 3105, 0, "the hub's certificate is not trusted", "Set the CA with `--ca-file` or FAIRLEAD_CA_FILE; if a corporate proxy terminates TLS, use the CA of that proxy.";
    DialUpgrade = 3106, 0, "the hub or an intermediary refused the WebSocket", "Check the hub's URL, and that proxies and load balancers on the path support WebSockets.";
    DialProtocol = 3107, 0, "the answer does not follow Fairlead's protocol", "Check that the URL belongs to a hub, and that hub and agent are at most one version apart.";
    DialHubIdentity = 3108, 0, "the hub does not match the CA in the join string", "Get a new join string with `fairlead cluster token renew CLUSTER`; either a proxy answers in the hub's place, or the hub has a new CA.";
    DialIdentity = 3109, 0, "the hub does not accept this agent's identity", "Enrol again with a new join string from `fairlead cluster token renew CLUSTER`.";
    DialTimeout = 3110, 0, "the hub did not answer in time", "Check the network path to the hub; the cause names the stage that was not completed.";
    DialReplaced = 3111, 0, "a newer session of the same cluster replaced this one", "No action is needed unless it repeats; then the cluster has more than 16 links of agents.";
    SessionBroke = 3112, 0, "the connection to the hub broke", "No action is needed; the agent reconnects by itself.";
    DialClock = 3113, 0, "a clock is wrong", "Compare the clocks of this machine and of the hub, and set the wrong one; a new CA or join string does not help.";
    HandshakesFull = 3114, 0, "the hub has more handshakes than places for them", "No action is needed at the site: the agent dials again by itself; if it goes on, look for a flood of connections at the hub (fairlead_handshakes_total with outcome evicted).";
    GitServerUnusable = 3115, 0, "the hub cannot use a Git server", "Check `endpoint`, `ca_file` and the token of this server in the hub's settings of Git servers, and the network from the hub to it.";
    BadConfig = 4101, 0, "the configuration is invalid", "Correct each setting that is listed.";
    BadJoinString = 4102, 400, "the join string is damaged", "Copy the whole string again; it starts with fl1. or fl2. and has a checksum.";
    DataDir = 4103, 0, "the data directory cannot be used", "Make the user of this command the owner of the folder, and free space on its disk.";
    AddressInUse = 4104, 0, "the listen address is not available", "Choose another address with `--listen` or `--admin`, or stop the program that uses it.";
    HubUnreachable = 4105, 0, "the hub cannot be reached", "Check the URL, and that the hub runs; `FAIRLEAD_URL` takes precedence over `fairlead login`.";
    NotLoggedIn = 4106, 0, "no hub is known", "Run `fairlead login URL`, or set FAIRLEAD_URL and FAIRLEAD_TOKEN.";
    NotFound = 4107, 404, "the resource does not exist", "List the existing ones with `fairlead cluster list`, `fairlead tenant list` or `fairlead token list`.";
    Conflict = 4108, 409, "the resource exists already, or has changed meanwhile", "Read it again, then repeat the change.";
    Invalid = 4109, 400, "a value is not allowed", "Correct the value that the cause names.";
    BadKubeconfig = 4110, 0, "the kubeconfig cannot be used", "Check `--kubeconfig` and `--context`.";
    InUse = 4111, 409, "the resource is still in use", "Delete the resources that use it first; the cause names them.";
    CannotWrite = 4112, 0, "a file cannot be written", "Check the folder, its owner and the free space on its disk.";
    NotReady = 4113, 0, "the wait timed out", "Look at the last step above: it has not completed.";
    ChangedMeanwhile = 4114, 412, "the resource has changed since it was read", "Read it again, then repeat the change.";
    Compacted = 4115, 410, "changes since that revision are no longer kept", "List the present state, then watch from the revision of that answer.";
    Protected = 4116, 409, "the resource is protected against deletion", "Remove the protection first: `fairlead cluster set CLUSTER --delete-protection=false`.";
    Usage = 4117, 0, "the command line is invalid", "Run the command with `--help`.";
    NotConfirmed = 4118, 0, "the action was not confirmed, and nothing was changed", "Run the command again on a terminal and answer yes, or add `--yes`.";
    CannotRead = 4119, 0, "a file cannot be read", "Check its path, and that this user may read it.";
    FileExists = 4120, 0, "the file exists already, and a backup never overwrites one", "Name another file, or move the existing one away.";
    NoRecipient = 4121, 0, "a backup with the CA key must be encrypted", "Add `--recipient age1...` (`age-keygen` makes a key pair), or leave the CA out with `--without-ca`.";
    WrongKey = 4122, 0, "the file is encrypted for other keys", "Pass the file of the right private key with `--identity`.";
    CaRotating = 4123, 409, "a rotation of the CA runs already", "Look at it with `fairlead ca status`, and end it with `fairlead ca retire`.";
    NoRotation = 4124, 409, "no rotation of the CA runs", "Begin one with `fairlead ca rotate`.";
    CaBehind = 4125, 409, "agents do not know the new CA yet", "Wait until `fairlead ca status` lists no cluster; `fairlead ca retire --force` cuts the listed ones off.";
    RolloutStopped = 4126, 0, "the rollout has stopped before its end", "Look at it with `fairlead rollout status BUNDLE`.";
    ClustersDiffer = 4127, 0, "clusters differ from the folder", "Deploy the folder with `fairlead deploy`, or correct it.";
    RunFailed = 4128, 0, "the run has not succeeded", "Read its log with `fairlead run logs RUN`.";
    NoHostKeys = 4129, 502, "the host keys of a Git server cannot be read", "Check `ssh_host` and `ssh_port` of the hub's settings, and the network path from the hub.";
    OtherHostKeys = 4130, 409, "the Git server does not show a key with this fingerprint", "List its keys with `fairlead git-server scan SERVER`, and compare them with those of its operator.";
    SignInDenied = 4131, 0, "the sign-in was denied", "Sign in with an account that may use this hub; the issuer's administrators know its rules.";
    SignInTimeout = 4132, 0, "nobody completed the sign-in in time", "Run the command again, and complete the sign-in in the browser.";
    SignInIssuerAway = 4133, 0, "the issuer of the sign-in cannot be reached", "Check the network path from this machine to the issuer, and HTTPS_PROXY; a token works meanwhile (`fairlead login URL --token-file FILE`).";
    SignInBadIssuer = 4134, 0, "the issuer refuses the sign-in or answers in an invalid form", "Send the cause to the platform operator: the client, its scopes or its redirect may be wrong.";
    SignInMismatch = 4135, 0, "the answer does not belong to this sign-in", "Run the command again and use the newest address only; if it repeats, another program interferes.";
    SignInEnded = 4136, 0, "the sign-in has ended", "Sign in again with `fairlead login URL`.";
    NoSignIn = 4137, 0, "the hub offers no such sign-in", "Pass a token with `--token-file`, or ask the platform operator for an issuer with `client_id`.";
    QuotaExceeded = 4140, 403, "the quota of the tenant is used up", "Delete resources that are not needed, or ask an admin of the hub to raise the quota: `fairlead tenant set TENANT --quota NAME=NUMBER`.";
    TooManyChanges = 4141, 429, "the tenant has used up its changes of this minute", "Try again in the next minute, or ask an admin of the hub to raise the quota: `fairlead tenant set TENANT --quota changesPerMinute=NUMBER`.";
    BadRepoFile = 4142, 400, "a file of a Git repository is not allowed", "Correct the path or the content that the cause names; `{\"delete\": true}` removes a file.";
    BadCiVariable = 4143, 400, "a CI variable of a Git repository is not allowed", "Correct the variable that the cause names.";
    GroupNotAllowed = 4144, 0, "the tenant may not use this group of the Git server", "Choose a group that `tenants` of the server's settings lists for the tenant, or let an admin of the hub add it there.";
    VaultSealed = 4150, 503, "Vault is sealed", "Unseal Vault (`vault operator unseal`); the hub tries again by itself.";
    VaultAway = 4151, 503, "Vault cannot be reached or does not answer", "Check `address` and `ca_file` of the hub's Vault settings, and the network path from the hub; the hub tries again by itself.";
    VaultToken = 4152, 502, "Vault does not accept the hub's token", "Write a valid token into `token_file` of the hub's Vault settings; the hub reads it at each try.";
    VaultRight = 4153, 502, "the hub's token for Vault lacks a right", "Give the token's policy the right that the cause names; docs/vault.md has the complete policy.";
    VaultTaken = 4154, 409, "Vault has a part of this name that the hub has not made", "Rename or remove that part in Vault, or set another `prefix` in the hub's Vault settings.";
    VaultRefused = 4155, 502, "Vault refuses a request of the hub", "Correct what the cause names in Vault or in the hub's Vault settings; the hub tries again by itself.";
    MergeRefused = 4160, 409, "the merge request is not merged", "Correct what the cause names, and list the merge requests again with `fairlead maintenance list`.";
    GitServerAway = 4161, 502, "the Git server cannot be reached, or its answer is unknown", "List the merge requests again with `fairlead maintenance list`; the merge may have been done.";
    GitServerThrottled = 4162, 429, "the Git server limits the rate of requests", "Run the command again after the time that the cause names.";
    BadSite = 4170, 400, "a network setting of a site is not allowed", "Correct the field that the cause names.";
    UpgradeVersion = 4180, 400, "this hub does not work with agents of that version", "Upgrade the hub first, or choose the version of the hub or one of the two minor versions before it.";
    UpgradeBusy = 4181, 409, "a cluster is in another upgrade already", "Wait for its end with `fairlead upgrade get UPGRADE -w`, or cancel it with `fairlead upgrade cancel UPGRADE`.";
    UpgradeImage = 4182, 400, "the image of the agents is not known", "Name the image with `--image`.";
    NoSuchUpgrade = 4183, 404, "there is no such upgrade of agents", "List them with `fairlead upgrade list`.";
    UpgradeState = 4184, 409, "the upgrade is not in the state for this", "See its state with `fairlead upgrade get UPGRADE`.";
    UpgradeStopped = 4185, 0, "the upgrade has ended with failed clusters", "Read the causes in `fairlead upgrade get UPGRADE`, then start another upgrade with `fairlead agent upgrade`.";
    Internal = 5101, 500, "an internal error occurred", "Report it with the request id and the hub's log around it.";
    Store = 5102, 503, "the hub's store cannot read or write the data", "Look at the hub's log and the free space on its disk; nothing was changed.";
    StoreFull = 5103, 507, "the hub's store cannot be written", "Free space on its disk, or mount it writable; the hub recovers by itself, and nothing was changed.";
    StoreAway = 5104, 503, "the hub's database cannot be reached", "Try again in a few seconds; if it fails again, the platform operator checks the database.";
    InfluxAway = 5105, 503, "the InfluxDB for this query cannot be reached", "Try again in a moment, or query the hub itself with `backend=hub`.";
    InfluxRefused = 5106, 502, "the InfluxDB rejected the query", "Query the hub itself with `backend=hub`.";
    AuditFull = 5107, 507, "the hub's audit log cannot be written, so new requests are refused", "Free space on the disk of the audit log, or mount it writable; the hub recovers by itself.";
    AuditBroken = 5108, 0, "the audit log was changed, or lines of it are missing", "Keep the files as they are, and compare them with the copies that the hub has delivered elsewhere.";
    Unrecordable = 5109, 503, "the session must be recorded, and cannot be", "Use kubectl exec or attach; otherwise the platform operator looks at the hub's log and at the disk of its recordings.";
    TracesNotExported = 5120, 0, "traces cannot be sent to the collector", "Look at the cause: address, port (4318 for OTLP over HTTP), certificate and credential of the collector. Requests are not affected; the spans are dropped.";
    LocalAddress = 5130, 0, "the local address is not available", "Choose another address, or port 0 for a free one.";
    RemoteListen = 5131, 0, "the local address is reachable from other machines", "Listen on 127.0.0.1 or [::1], or add `--allow-remote`: everybody who reaches the address gets your access.";
    TcpClientBroke = 5132, 0, "the connection to the hub broke", "Connect again; if it breaks after the same time each time, a proxy or load balancer on the path limits it.";
    NoWebSocket = 5133, 0, "the path to the hub does not pass WebSockets", "Ask the operator of the proxies and load balancers on the path to pass the headers `Connection` and `Upgrade`.";
    ProxyRequest = 5134, 0, "a program sent an unreadable request to the local proxy", "Set the proxy of the program to `socks5h://ADDRESS` or `http://ADDRESS`.";
    NoSuchArtifact = 6101, 404, "no such content was uploaded for this tenant, or is used by a visible bundle", "Deploy the folder again with `fairlead deploy DIR`; an upload that no bundle uses is kept for an hour.";
    ArchiveRefused = 6102, 400, "the archive is not accepted", "Send a tar or a gzipped tar with regular files only, within the limits that the cause names.";
    BadBundleFile = 6103, 400, "the file fairlead.yaml is not valid", "Correct the line that the cause names.";
    WrongDigest = 6104, 502, "the content has another digest than its name", "Nothing was applied; it is requested again by itself. If that fails again, send the cause to the platform operator.";
    RemovalNotConfirmed = 6105, 409, "the change takes bundles away from clusters", "Check the list of clusters in `details.removed`, then repeat the request with `confirm` and the value of `details.confirm`.";
    NoSuchGeneration = 6106, 404, "the bundle has no such generation", "Choose one of the generations that `fairlead bundle get BUNDLE` lists.";
    BundleDeleting = 6107, 409, "the bundle is being removed from its clusters", "Wait until all clusters have reported the removal, or delete it with `fairlead bundle delete BUNDLE --keep`.";
    ChartNotFetched = 6108, 400, "the chart of the bundle was not fetched", "Name it in `fairlead.yaml` of the folder and upload the folder: the hub fetches the chart with it, if it runs with `--helm`. Or put the chart itself into the folder: `helm pull --untar`.";
    DependencyCycle = 6109, 400, "bundles depend on each other in a circle", "Remove one of the entries of `dependsOn` that the cause names.";
    BadBundle = 6110, 400, "the bundle is not valid", "Correct each field that the cause names.";
    TooManyTransfers = 6111, 429, "too many uploads are in progress", "Try again in a moment.";
    CatalogBundle = 6112, 409, "the bundle is made of the catalog of a cluster", "Change the catalog with `fairlead cluster catalog set CLUSTER`, or end its delivery with `fairlead cluster set CLUSTER --deliver-catalog=false`.";
    ToolBundle = 6113, 409, "the bundle is made of the settings of a GitOps tool", "Change the settings with `fairlead cluster agent set CLUSTER`, or end the installation with `fairlead cluster agent set CLUSTER --gitops-install=false`.";
    ObjectRefused = 6201, 0, "the API server refused an object of the bundle", "Correct the object named in the cause, and deploy the bundle again.";
    FieldConflict = 6202, 0, "another manager has set a field of an object", "Remove the field from the bundle or from the other manager, or set `conflicts: force`.";
    ForeignObject = 6203, 0, "an object belongs to a Helm release or to another bundle", "Remove the object from one of them, or set `adopt: true` to take it over.";
    PruneBlocked = 6204, 0, "the new content would delete objects that need a confirmation", "Compare the list in the cause with your change, then confirm the deployment, or deploy the objects again.";
    DeploymentWaits = 6205, 0, "the deployment waits for something else in its cluster", "Deploy what the cause names; the agent goes on by itself.";
    NotReadyInTime = 6206, 0, "the objects of the bundle are applied, and did not become ready in time", "Look at the object named in the cause, and raise `timeout` if it only needs more time.";
    MissingRight = 6207, 0, "the ServiceAccount of the bundle lacks a right", "Add the rule in the cause to a role of the ServiceAccount, or name another one with `serviceAccount`.";
    InvalidManifests = 6208, 0, "the files of the bundle are no valid manifests", "Correct the file and line in the cause, and deploy the bundle again.";
    OutcomeUnknown = 6209, 0, "the outcome of a run cannot be determined", "Compare the objects with the bundle, then confirm the deployment to run it again.";
    AccountUnusable = 6210, 0, "the ServiceAccount of the bundle cannot be used", "Create the ServiceAccount named in the cause, or bind the ClusterRole `fairlead-deliverer` in its namespace.";
    SiteForbids = 6211, 0, "the site's ConfigMap does not allow this delivery", "Ask the site operator to change the ConfigMap `fairlead-delivery`, or change the bundle.";
    RunCancelled = 6212, 0, "a person cancelled the run", "Start the deployment again if it is still needed.";
    ApiServerAway = 6213, 0, "the API server of the cluster does not answer the agent", "Check the API server; the agent goes on by itself.";
    HelmFailed = 6220, 0, "Helm could not bring the release to its desired content", "Read the log of the run with `fairlead run logs RUN`; the agent tries again by itself.";
    HelmHookFailed = 6221, 0, "a hook of the chart failed", "Look at the hook's pods in the cluster, correct the chart or its environment, and deploy again; the agent tries again meanwhile.";
    HelmValuesRefused = 6222, 0, "the values of the release do not fit the chart", "Correct the value that the cause names in `helm.values` of the bundle or of its target, and deploy again.";
    HelmTemplateFailed = 6223, 0, "a template of the chart cannot be rendered", "Correct the file and line that the cause names, and deploy again.";
    HelmKubernetesVersion = 6224, 0, "the chart does not support the Kubernetes version of the cluster", "Deploy a version of the chart for this cluster, or leave the cluster out of the targets.";
    HelmFieldImmutable = 6225, 0, "the release changes a field that cannot change", "Delete the object that the cause names in the cluster, or keep the old value of the field, and deploy again.";
    HelmTimeout = 6226, 0, "Helm did not end in time", "Read the log of the run with `fairlead run logs RUN`, and raise `helm.timeout` of the bundle if the hooks need longer.";
    HelmForeignRevision = 6227, 0, "the newest revision of the release is somebody else's", "Compare it with `helm history`; `fairlead deployment sync CLUSTER BUNDLE` puts the bundle's revision on top of it.";
    HelmMemory = 6228, 0, "Helm was killed for its memory", "Raise the memory limit of the runner's container in the cluster, or make the chart smaller.";
    HelmObjectOwned = 6229, 0, "an object of the chart belongs to somebody else", "Set `helm.takeOwnership: true` in the bundle to take the object over, or remove it from one of the two.";
    HelmChartInvalid = 6230, 0, "the folder of the bundle is no usable chart", "Correct the chart as the cause says, for example with `helm lint` and `helm dependency build`, and deploy again.";
    HelmReleaseLocked = 6231, 0, "somebody else's operation of Helm holds the release", "Wait for its end; if its program is gone, return to a good revision with `helm rollback`.";
    RunnerAway = 6232, 0, "the runner of the agent cannot be reached", "Look at the container `runner` of the agent's pod; the agent tries again by itself.";
    HelmRolledBack = 6233, 0, "the release was returned to an earlier revision", "Correct the cause, and deploy again; nothing is tried again by itself.";
    HelmRecordUnreadable = 6234, 0, "Helm's record of the release cannot be read", "Look at the Secret that the cause names; `helm history` shows whether Helm can read it.";
    HelmFieldConflict = 6235, 0, "another field manager holds a field of the release", "Remove the field from the chart's values or from the other manager, or set `conflicts: force` in the bundle.";
    JournalFailed = 6301, 0, "the agent cannot write the journal of the deployment", "Check that the API server accepts Secrets in the namespace `fairlead-delivery`; a full etcd is a frequent cause.";
    JournalTooLarge = 6302, 0, "the journal of the deployment is too large for Secrets", "Split the bundle: a journal holds at most 8 MiB of packed objects.";
    JournalDamaged = 6303, 0, "the journal of the deployment cannot be read", "Confirm the deployment: the agent then begins a new journal, and deletes nothing.";
    RunFenced = 6304, 0, "an earlier run of the deployment may still have effects", "Wait a minute; if it stays, remove the finalizers of the Secret named in the cause.";
    OldGeneration = 6305, 0, "the hub is older than the state of this cluster", "If the hub was restored from a backup on purpose, run the restore with `--deliver-again`; otherwise start the right hub.";
    RolloutVerb = 6401, 409, "the rollout does not take this verb in its state", "See its state with `fairlead rollout status BUNDLE`; a rollout that has ended is replaced by a new generation or a rollback.";
    StillTargeted = 6402, 409, "the bundle still targets this cluster", "Change the targets of the bundle or the labels of the cluster first; `fairlead deployment suspend CLUSTER BUNDLE` pauses the deployment.";
    NoSpec = 6403, 0, "the bundle cannot be made for this cluster", "Set the missing variable in the bundle, or the fact or annotation of the cluster that the cause names.";
    ClusterOffline = 6404, 0, "the deployment waits for its cluster, which is offline", "Look at the cluster with `fairlead cluster get CLUSTER`; it gets the newest released generation on its return.";
    NotReported = 6405, 0, "the agent has not reported the released generation", "Wait some seconds; if it stays, look at the agent's log, and install its newest version.";
    DeliverySuspended = 6406, 0, "the bundle or the deployment is suspended", "Resume it with `fairlead bundle resume BUNDLE` or `fairlead deployment resume CLUSTER BUNDLE`.";
    WaveWaits = 6407, 0, "the deployment waits for its wave", "Follow the waves with `fairlead rollout status BUNDLE`.";
    RolloutStops = 6408, 0, "the rollout of the bundle has stopped", "Read its reason with `fairlead rollout status BUNDLE`, then deploy a corrected version, roll back, retry, or resume.";
    ReleasesStopped = 6409, 0, "the hub was restored, and releases nothing until a confirmation", "Revoke again what was revoked since the backup, then run `fairlead confirm-restore`.";
    NotTargeted = 6410, 0, "the bundle does not target this cluster any more, and its objects are kept", "Target the cluster again, or remove the deployment with `fairlead deployment remove CLUSTER BUNDLE`.";
    RemovalRuns = 6411, 0, "the agent removes the objects of the bundle", "Wait until the agent has reported the end; an offline cluster does it on its return.";
    RunStopped = 6501, 409, "the attempt of this run counts no longer", "No action is needed: the agent stops the attempt, and `fairlead run get RUN` shows the run.";
    OtherLog = 6502, 409, "the log of the run differs from the stored one", "No action is needed: the agent ends the attempt, and the next one writes a log of its own.";
    OtherResult = 6503, 409, "the attempt has reported another result before", "No action is needed: the first result counts, and `fairlead run get RUN` shows it.";
    LogIncomplete = 6504, 412, "the log of the run is not whole", "No action is needed: the agent sends the rest of the log, then its result.";
    LogGap = 6505, 416, "bytes of the log before this piece are missing", "No action is needed: the agent sends the log from the offset in the answer.";
    RunEnded = 6506, 409, "the run has ended", "Create a new run with `fairlead run create CLUSTER BUNDLE --kind sync`.";
    RunGone = 6507, 410, "the hub has no such run of this cluster", "No action is needed: the agent forgets the run.";
    LogForgotten = 6508, 410, "the log of the run is no longer kept", "Read logs within 14 days; `fairlead run get RUN` still shows the outcome.";
    LogRange = 6509, 416, "the log is shorter than the requested range", "Request a range within the length that the cause names, or follow the log with `fairlead run logs -f RUN`.";
    RemovalNotOrdered = 6510, 409, "the bundle is not to be removed from this cluster", "Remove the deployment with `fairlead deployment remove CLUSTER BUNDLE`.";
    SourceUnreachable = 6601, 0, "the Git repository cannot be reached", "Check the URL of the source and the way from the hub to its host; the hub tries again by itself.";
    HostKeyRefused = 6602, 0, "the Git server has another host key than the source names", "Compare the key with the administrator of the server, then correct `git.hostKeys` of the source.";
    GitAccessDenied = 6603, 0, "the Git server does not accept the credentials of the source", "Check the file of these credentials on the hub, and the rights of its key or token on the server.";
    NoSuchRef = 6604, 0, "the repository has no such branch, tag or commit", "Correct `git.ref` of the source, or push the branch again; bundles keep their last content.";
    CommitNotSigned = 6605, 0, "the commit has no signature of an allowed signer", "Sign the commit with a key of `git.verify`, or add the signer there; bundles keep their last content.";
    BadSourceFolder = 6606, 0, "a folder of the source cannot become a bundle", "Correct the file that the cause names, and push again; the bundle keeps its last content.";
    BundleNameTaken = 6607, 0, "two folders or owners name the same bundle", "Give one of them another name with `name` in its `fairlead.yaml`, or delete the other bundle.";
    GitFailed = 6608, 0, "the program git failed", "Check that git is installed on the hub, and free space in its data directory; the cause has the program's last line.";
    HookRefused = 6609, 401, "no source has this id and this webhook secret", "Compare URL and secret of the webhook with the source and with its file on the hub.";
    ChartUnavailable = 6610, 0, "the chart cannot be fetched", "Check repository, name and version of the chart, and that the hub was started with `--helm`.";
    SourceSuspended = 6611, 409, "the source is suspended", "Resume it first: write it again with `suspended: false`.";
    DriftFound = 6701, 0, "objects in the cluster differ from the bundle", "Compare object, field and manager of the deployment with the bundle; with `drift: correct` the agent corrects them by itself.";
    DriftFight = 6702, 0, "another manager and the bundle change the same object again and again", "Stop the other manager, or add the field to `ignore` of the bundle; then confirm the deployment.";
    DriftTakenOver = 6703, 0, "another bundle has taken over an object of this bundle", "Remove the object from one of the two bundles; it is not corrected meanwhile.";
    DriftRefused = 6704, 0, "a change by others cannot be corrected", "Correct the object or the rights that the cause names; the agent tries again by itself.";
    SecretMissing = 6705, 0, "a Secret that the bundle needs is missing in the cluster", "Create the Secret and the key that the cause names; the bundle continues by itself.";
    SecretForbidden = 6706, 0, "the bundle's ServiceAccount may not read a Secret", "Bind the rule of the cause to the ServiceAccount; the bundle continues by itself.";
    SecretMisused = 6707, 0, "a value of a Secret is used outside of Secrets and Helm values", "Use the variable in objects of kind Secret only, and let the pods read that Secret.";
    SecretUnusable = 6708, 0, "a value of a Secret cannot be used", "Change the value in the Secret that the cause names: values are below 64 KiB together, and text, except for those that are all of a field in `data` of a Secret.";
    DiffRefused = 6709, 0, "objects cannot be compared with the cluster", "Correct the objects or the rights that the log of the run names, and compare again.";
    GitOpsForeignSecret = 6801, 0, "the Secret of the GitOps tool belongs to someone else", "Delete the Secret that the cause names, if nobody needs its key; the agent then makes one of its own.";
    GitOpsForbidden = 6802, 0, "the agent lacks a right for the GitOps tool", "Apply the install manifest of this cluster again as a cluster administrator: it has the rights for its tool.";
    GitOpsToolAbsent = 6803, 0, "the GitOps tool is not installed in the cluster", "Install the tool in its default namespace, or set another one, as with `fairlead cluster agent set CLUSTER --gitops flux`.";
    GitOpsRepositoryUnusable = 6804, 0, "the catalog's repository cannot be read with an SSH key", "Give the cluster's repository a URL with `ssh://`, and the host keys of its server.";
    GitOpsHostKeyRefused = 6805, 0, "the Git server has another host key than the registry knows", "Compare the key with the administrator of the server, then correct the host keys of the cluster's repository; nothing is synced before.";
    GitOpsSyncFailed = 6806, 0, "the GitOps tool cannot read the catalog", "Correct the cause, which is the message of the tool; the tool tries again by itself.";
    GitOpsKeyNotRegistered = 6807, 0, "the Git server has not confirmed the next SSH key", "For a repository that the hub does not manage, add the key `steward-next` to its deploy keys, then run `fairlead cluster agent confirm-key CLUSTER FINGERPRINT`.";
    GitOpsRotationFailed = 6808, 0, "the SSH key was not rotated, and the previous one is in use", "Correct the cause, then run `fairlead cluster agent rotate-key CLUSTER`.";
    GitOpsUnreachable = 6809, 0, "the SSH key of the GitOps tool cannot be kept up to date", "Wait for the API server or the hub that the cause names; the agent tries again by itself.";
    GitOpsRollbackStopped = 6810, 0, "the GitOps tool breaks itself with the same change again and again", "Correct the version of the tool in the catalog, then run `fairlead deployment sync CLUSTER BUNDLE`; the agent returns no more by itself.";
    GitOpsRepairPaused = 6811, 0, "an annotation pauses repairs", "Remove the annotation `fairlead/paused` from the object, or from the namespace that the cause names.";
    GitOpsWorkloadUnavailable = 6812, 0, "a workload of the GitOps tool is not available", "Look at the pods of the workload that the cause names; a deployment with `drift: repair` is repaired by itself.";
    GitOpsDefinitionMissing = 6813, 0, "a definition of the GitOps tool is missing", "Install the tool again; a deployment with `drift: repair` is repaired by itself.";
    GitOpsSyncOverdue = 6814, 0, "the GitOps tool has not synced for a long time", "Look at the log of the tool's controllers, and check that its sync is not suspended.";
    GitOpsToolFound = 6815, 0, "the cluster has a GitOps tool that the hub has not installed", "Take it over with `fairlead cluster agent set CLUSTER --gitops-adopt`, or leave it alone with `--gitops-install=false`.";
    GitOpsManifestUnusable = 6816, 400, "the manifest of the GitOps tool cannot be used", "Put the file that the cause names into the folder of `--gitops-manifests`, and its SHA-256 into the settings, or remove the version from the settings: one is embedded.";
    GitOpsKeysUnusable = 6817, 400, "the GitOps tool cannot verify commits with these keys", "Correct the key or the mode that the cause names: Flux verifies OpenPGP and SSH signatures, Argo CD those of OpenPGP.";
    PurgeNeedsAgent = 6818, 409, "the delivered objects of the cluster cannot be removed now", "Wait until its agent is connected. Without the agent, run `fairlead agent uninstall --purge --kubeconfig KUBECONFIG`, then `fairlead cluster delete CLUSTER` without --purge.";
    PurgeUnfinished = 6819, 0, "delivered objects of the cluster are still there", "Run the command again: it continues. `fairlead cluster delete CLUSTER --purge --cancel` ends the purge, and the bundles are delivered again.";
}

impl Code {
    /// Heading of the codes with the same first digits.
    #[must_use]
    pub const fn group(self) -> &'static str {
        match self.number() / 100 {
            11 => "Authentication",
            12 => "Authorization",
            13 => "Requests",
            14 => "Path to the cluster",
            15 => "Agent and API server",
            21 => "Enrolment and identity",
            31 => "Connection from agent to hub",
            41 => "Configuration and command line",
            51 if self.number() >= 5130 => "TCP connections of the command line",
            61 => "Content of deliveries, bundles and plans",
            62 => "Runs of deliveries in a cluster",
            63 => "Journals of deliveries in a cluster",
            65 => "Runs and logs of deliveries",
            66 => "Sources of bundles",
            67 => "Drift and Secrets of deliveries",
            68 => "GitOps tools",
            _ => "Internal errors and storage",
        }
    }

    fn from_number(number: u16) -> Option<Code> {
        Code::ALL
            .iter()
            .copied()
            .find(|code| code.number() == number)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FL-{:04}", self.number())
    }
}

/// Error of parsing a text that is not a known code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a known code; codes look like FL-1402")]
pub struct UnknownCode;

impl FromStr for Code {
    type Err = UnknownCode;
    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        let upper = text.trim().to_ascii_uppercase();
        let digits = upper.strip_prefix("FL-").unwrap_or(&upper);
        digits
            .parse()
            .ok()
            .and_then(Code::from_number)
            .ok_or(UnknownCode)
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Code of a failure with the cause and the next step of this case. `cause` is shown to people and never has secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{code}: {cause}")]
pub struct Failure {
    /// Kind of the failure.
    pub code: Code,
    /// One sentence: the cause.
    pub cause: String,
    /// Next step of this case; `None` for that of the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cow<'static, str>>,
    /// Parts of the cause for programs, like a list of clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<serde_json::Value>>,
}

impl Failure {
    /// Failure with the title of the code as its cause.
    #[must_use]
    pub fn new(code: Code) -> Self {
        Failure::with_cause(code, code.title())
    }

    /// Failure with this cause, without the title of the code.
    #[must_use]
    pub fn with_cause(code: Code, cause: impl Into<String>) -> Self {
        Failure {
            code,
            cause: cause.into(),
            next: None,
            details: None,
        }
    }

    /// Failure with the title of the code and a detail as its cause.
    #[must_use]
    pub fn because(code: Code, detail: impl fmt::Display) -> Self {
        Failure::with_cause(code, format!("{}: {detail}", code.title()))
    }

    /// Replaces the next step of the code. `step` is one sentence with a full stop.
    #[must_use]
    pub fn next(self, step: impl Into<Cow<'static, str>>) -> Self {
        Failure {
            next: Some(step.into()),
            ..self
        }
    }

    /// Adds parts of the cause for programs.
    #[must_use]
    pub fn details(self, details: serde_json::Value) -> Self {
        Failure {
            details: Some(Box::new(details)),
            ..self
        }
    }

    /// Next step of this case, or of the code.
    #[must_use]
    pub fn next_step(&self) -> &str {
        self.next
            .as_deref()
            .unwrap_or_else(|| self.code.next_step())
    }
}

impl From<Code> for Failure {
    fn from(code: Code) -> Self {
        Failure::new(code)
    }
}

#[cfg(test)]
mod tests;
