//! Every failure a person can meet, with a stable number. The number never changes its meaning; a code that is no
//! longer given keeps its number. `fairlead explain FL-1402` prints what stands here.

mod check;

use std::{borrow::Cow, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($name:ident = $number:literal, $http:literal, $title:literal, $next:literal;)*) => {
        /// A stable code. `FL-11xx` who you are, `FL-12xx` what you may, `FL-13xx` what you asked for, `FL-14xx` reaching the
        /// cluster, `FL-15xx` what agent and API server said, `FL-2xxx` enrolment and identity, `FL-3xxx` dialling,
        /// `FL-4xxx` configuration and command line, `FL-5xxx` our own faults.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $(#[doc = $title] $name,)* }

        impl Code {
            /// All of them, by number.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// The digits behind `FL-`.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self { $(Code::$name => $number,)* }
            }

            /// The HTTP status that goes with it; 0 where it is never told over HTTP.
            #[must_use]
            pub const fn http_status(self) -> u16 {
                match self { $(Code::$name => $http,)* }
            }

            /// One sentence: what happened.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }

            /// One sentence: what to do next.
            #[must_use]
            pub const fn next_step(self) -> &'static str {
                match self { $(Code::$name => $next,)* }
            }
        }
    };
}

codes! {
    NoToken = 1101, 401, "the request carries no bearer token", "Run `fairlead login` and write the kubeconfig again with `fairlead kubeconfig`.";
    BadToken = 1102, 401, "this hub has not issued the bearer token", "Get a token from the platform operator, run `fairlead login`, then write each kubeconfig again with `fairlead kubeconfig`.";
    TokenExpired = 1103, 401, "the bearer token has expired", "Get a new token from the platform operator, run `fairlead login`, then write each kubeconfig again with `fairlead kubeconfig`.";
    TooManyWrongTokens = 1104, 429, "too many wrong tokens came from this address", "Correct the client's token and try again in a minute; requests with right tokens are always accepted.";
    IssuerDown = 1105, 503, "the issuer of this token cannot be reached now", "Try again in a moment; the hub's log names the issuer and the error for the platform operator.";
    NoRole = 1106, 403, "the user of this token has no role on this hub", "Ask the platform operator for a rule in the hub's file of issuers, or for a token of the hub.";
    NotAllowed = 1201, 403, "your role does not allow this", "Ask an admin of the tenant for a token with the right role (`fairlead token create --help` lists them).";
    NoImpersonation = 1202, 403, "impersonation headers cannot be sent through the gateway, which sets them itself", "Leave out `--as` and `--as-group`, or use a token that belongs to that person; an admin may use `--as` with users of the agent's `--allow-as`.";
    NoSuchCluster = 1301, 404, "no cluster with this id is known to you", "List what you can reach with `fairlead cluster list`.";
    WrongHost = 1302, 421, "the host of the request and the name of the TLS connection do not agree", "Write the kubeconfig again with `fairlead kubeconfig`, and check for a proxy that rewrites hosts.";
    BadPath = 1303, 400, "the path of the request cannot be passed on unambiguously", "Send the path as the Kubernetes API has it: no `//`, no dot segments, no encoded slashes or dots.";
    BadRequest = 1304, 400, "the request is malformed", "Correct the part of the request that the cause names.";
    NoSuchRoute = 1305, 404, "the hub has nothing at this path", "Clusters are at /k8s/clusters/<id>/, the hub's own API is described at /docs.";
    HeadTooLarge = 1306, 431, "the head of the request is larger than 64 KiB or has more than 90 fields", "Send fewer or shorter headers.";
    MethodNotAllowed = 1307, 405, "this path does not know this method", "See the Allow header of the answer.";
    HubTimeout = 1308, 504, "the hub did not finish this request in time", "Run the command again; if it fails again, send the time to the platform operator.";
    WrongContentType = 1309, 415, "the body is of a type that this path does not take", "Send JSON with `Content-Type: application/json`, or as a PATCH with `application/merge-patch+json`.";
    NeverConnected = 1401, 503, "the cluster has never connected", "Run the install command in the cluster; `fairlead cluster token show CLUSTER` prints it while its token is valid.";
    Lost = 1402, 503, "the cluster's agent has lost its connection", "Look at the agent's log in namespace fairlead of that cluster; it dials again by itself.";
    AgentFull = 1403, 429, "the cluster's agent has as many streams open as it may", "Close some watches or exec sessions, or try again in a moment.";
    TunnelBroke = 1404, 502, "the connection to the agent broke before it answered", "Run the command again; the agent dials again by itself.";
    Timeout = 1405, 504, "the agent did not answer in time", "Run the command again; if it stays, look at the agent's log.";
    Draining = 1406, 503, "the hub is shutting down", "Run the command again in a few seconds.";
    TooManyRequests = 1407, 429, "too many requests are under way", "Try again in a moment.";
    OtherHub = 1408, 503, "the cluster's agent is connected to another hub", "Use that hub's address (`fairlead login`, then `fairlead kubeconfig`), or have the cluster's agent connect to each hub (`fairlead agent --links 2 --hub URL --hub URL`).";
    AgentRefused = 1501, 403, "the agent does not impersonate this user or one of these groups", "Ask the site operator to allow the group with `--allow-group` of the agent.";
    ApiUnreachable = 1502, 502, "the agent cannot reach its API server", "Ask the site operator whether the API server is up; the agent's log has the cause.";
    TargetRefused = 1503, 403, "the agent opens no connection to this address", "Ask the site operator to allow the address with `--allow-connect` of the agent.";
    ApiTimeout = 1504, 504, "the API server did not answer the agent in time", "Run the command again; if it stays, ask the site operator.";
    TargetUnreachable = 1505, 502, "the agent cannot reach this address", "Ask the site operator whether it is up.";
    AgentClogged = 1506, 429, "the agent's memory budget for data into the cluster is used up", "Try again in a moment; the site operator can raise `--session-memory` of the agent.";
    BootstrapUnknown = 2101, 401, "the bootstrap token is not one of this hub", "Make a new one with `fairlead cluster token renew CLUSTER` and install again.";
    BootstrapExpired = 2102, 401, "the bootstrap token has expired", "Make a new one with `fairlead cluster token renew CLUSTER` and install again.";
    BootstrapSpent = 2103, 401, "the bootstrap token has been used already, with another key", "If this was not you, tell the platform operator; else make a new one with `fairlead cluster token renew CLUSTER`.";
    BadCsr = 2104, 400, "the certificate request cannot be used", "Send a PKCS#10 request signed with its own P-256 or Ed25519 key.";
    ForeignName = 2105, 403, "the certificate request names another identity", "Leave the names out; the hub adds those of the bootstrap token.";
    EnrolOnly = 2106, 403, "a session without an identity reaches the enrolment route only", "Enrol first: start the agent with `--join`.";
    ForeignCertificate = 2107, 401, "this hub's authority has not issued the certificate", "Enrol again with a new join string from `fairlead cluster token renew CLUSTER`.";
    ForeignCluster = 2108, 403, "the certificate belongs to another cluster", "An agent speaks for its own cluster only.";
    ClusterDeleted = 2109, 403, "the cluster of this identity has been deleted", "Register the cluster again with `fairlead cluster create NAME` if it is to come back.";
    CertificateExpired = 2110, 401, "the certificate has expired", "An agent renews its identity by itself until the hub's `--renew-grace` after its end; later, `fairlead cluster token renew` gives a join string to enrol with. Check the clock of the agent's node.";
    NotEnrolled = 2111, 401, "the agent has neither an identity nor a join string", "Start the agent with `--join`, or install it with the manifest of its cluster.";
    IdentityCloned = 2112, 403, "this agent's identity belongs to another Kubernetes cluster", "If this cluster takes the other's place, enrol it with a new join string from `fairlead cluster token renew`; else register it as a cluster of its own.";
    DialDns = 3101, 0, "the hub's name cannot be resolved", "Check the name and the DNS of the machine the agent runs on.";
    DialTcp = 3102, 0, "no TCP connection to the hub", "Check that the firewall lets this machine out to that address, or set HTTPS_PROXY.";
    DialProxy = 3103, 0, "the proxy gives no connection to the hub", "Ask the proxy's operator to allow CONNECT to the hub.";
    DialProxyAuth = 3104, 0, "the proxy wants other credentials", "Put user and password into HTTPS_PROXY (http://user:password@host:port).";
    DialTls = 3105, 0, "the hub's certificate is not trusted", "Give the CA with `--ca-file` or FAIRLEAD_CA_FILE; if a corporate proxy opens TLS, give that proxy's CA.";
    DialUpgrade = 3106, 0, "the hub, or something in between, refused the WebSocket", "Check the hub's URL, and that proxies and load balancers in between pass WebSockets on.";
    DialProtocol = 3107, 0, "the answer is not in Fairlead's protocol", "Check that the URL is a hub's, and that hub and agent are at most one version apart.";
    DialHubIdentity = 3108, 0, "the hub does not match the CA in the join string", "Get a new join string with `fairlead cluster token renew CLUSTER`; a proxy may answer in the hub's place, or the hub has a new CA.";
    DialIdentity = 3109, 0, "the hub does not accept this agent's identity", "Enrol again with a new join string from `fairlead cluster token renew CLUSTER`.";
    DialTimeout = 3110, 0, "the hub did not answer in time", "Check the network path to the hub; the stage says how far it got.";
    DialReplaced = 3111, 0, "a newer session of the same cluster took this one's place", "Nothing, unless it goes on: then more agents and links of the cluster run than the 16 it may have.";
    SessionBroke = 3112, 0, "the connection to the hub broke", "Nothing; the agent dials again by itself.";
    DialClock = 3113, 0, "a clock is wrong", "Compare the clocks of this machine and of the hub's, and set the one that is wrong; no CA and no new join string will help.";
    BadConfig = 4101, 0, "the configuration has mistakes", "Correct each line named.";
    BadJoinString = 4102, 400, "the join string is damaged", "Copy it again, whole; it starts with fl1. and has a checksum.";
    DataDir = 4103, 0, "the data directory cannot be used", "Give the folder to the user of this command, and free space on its disk.";
    AddressInUse = 4104, 0, "the address cannot be listened on", "Choose another address with `--listen` or `--admin`, or stop the program at this address.";
    HubUnreachable = 4105, 0, "the hub cannot be reached", "Check the URL, and that the hub runs; `FAIRLEAD_URL` wins over `fairlead login`.";
    NotLoggedIn = 4106, 0, "no hub is known", "Run `fairlead login URL`, or set FAIRLEAD_URL and FAIRLEAD_TOKEN.";
    NotFound = 4107, 404, "there is no such thing", "List the existing ones with `fairlead cluster list`, `fairlead tenant list` or `fairlead token list`.";
    Conflict = 4108, 409, "it exists already, or has changed meanwhile", "Read it again, then repeat the change.";
    Invalid = 4109, 400, "a value is not allowed", "Correct the value that the cause names.";
    BadKubeconfig = 4110, 0, "the kubeconfig cannot be used", "Check `--kubeconfig` and `--context`.";
    InUse = 4111, 409, "it is still in use", "Delete its users first; the cause names them.";
    CannotWrite = 4112, 0, "a file cannot be written", "Check the folder, its owner and the free space on its disk.";
    NotReady = 4113, 0, "it did not get ready in time", "Look at the steps above: the last one is where it stands.";
    ChangedMeanwhile = 4114, 412, "it has changed since it was read", "Read it again, then repeat the change.";
    Compacted = 4115, 410, "changes of so long ago are no longer kept", "List the present state, then watch from the revision of that answer.";
    Protected = 4116, 409, "it is protected against deletion", "Lift the protection first: `fairlead cluster set CLUSTER --delete-protection=false`.";
    Usage = 4117, 0, "the command line has mistakes", "Run the command with `--help`.";
    NotConfirmed = 4118, 0, "it was not confirmed, and nothing was changed", "Run it again on a terminal and answer yes, or add `--yes`.";
    CannotRead = 4119, 0, "a file cannot be read", "Check its path, and that this user may read it.";
    Internal = 5101, 500, "something went wrong inside Fairlead", "Report it with the request id and the hub's log around it.";
    Store = 5102, 503, "the hub's store did not take or give the data", "Look at the hub's log and the room on its disk; nothing was changed.";
    StoreFull = 5103, 507, "the hub's store cannot be written", "Free space on its disk, or mount it writable; the hub continues by itself, and nothing was changed.";
    StoreAway = 5104, 503, "the hub's database cannot be reached", "Try again in a few seconds; the hub's operator checks the database.";
    InfluxAway = 5105, 503, "the InfluxDB for this query cannot be reached now", "Try again in a moment, or query the hub itself with `backend=hub`.";
    InfluxRefused = 5106, 502, "the InfluxDB for this query refuses it", "Query the hub itself with `backend=hub`.";
}

impl Code {
    /// The code with this number.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Code> {
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

/// The text is no known code.
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

/// A code with what is particular to this case. It is what people see, so `cause` is one sentence without secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{code}: {cause}")]
pub struct Failure {
    pub code: Code,
    pub cause: String,
    /// Next step of this case; the code's own where it is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cow<'static, str>>,
}

impl Failure {
    /// The code's own sentence, nothing to add.
    #[must_use]
    pub fn new(code: Code) -> Self {
        Failure::with_cause(code, code.title())
    }

    /// The cause alone, without the code's title in front.
    #[must_use]
    pub fn with_cause(code: Code, cause: impl Into<String>) -> Self {
        Failure {
            code,
            cause: cause.into(),
            next: None,
        }
    }

    /// The code's own sentence, then what is particular to this case.
    #[must_use]
    pub fn because(code: Code, detail: impl fmt::Display) -> Self {
        Failure::with_cause(code, format!("{}: {detail}", code.title()))
    }

    /// Replaces the code's next step, where this case has a better one. One sentence, with its full stop.
    #[must_use]
    pub fn next(self, step: impl Into<Cow<'static, str>>) -> Self {
        Failure {
            next: Some(step.into()),
            ..self
        }
    }

    /// One sentence: the next step of this case.
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
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_rise() {
        assert!(
            Code::ALL
                .windows(2)
                .all(|pair| pair[0].number() < pair[1].number())
        );
    }

    #[test]
    fn a_code_reads_back_from_what_it_prints() {
        for &code in Code::ALL {
            assert_eq!(code.to_string().parse(), Ok(code));
        }
        assert_eq!("fl-1402".parse(), Ok(Code::Lost));
        assert_eq!("FL-9999".parse::<Code>(), Err(UnknownCode));
    }

    #[test]
    fn a_failure_has_the_next_step_of_its_code_unless_it_has_its_own() {
        let failure = Failure::new(Code::Lost);
        assert_eq!(failure.next_step(), Code::Lost.next_step());
        let failure = failure.next("Start the agent.");
        assert_eq!(failure.next_step(), "Start the agent.");
        let text = serde_json::to_string(&failure).unwrap();
        assert_eq!(serde_json::from_str::<Failure>(&text).unwrap(), failure);
    }

    #[test]
    fn every_next_step_is_a_sentence() {
        for code in Code::ALL {
            assert!(
                code.next_step().ends_with('.') && code.next_step().len() > 8,
                "{code}"
            );
            assert!(
                !code.title().ends_with('.'),
                "{code}: the title is put into sentences"
            );
        }
    }
}
