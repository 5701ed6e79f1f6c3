//! How to find the cause of TCP connections that fail.

use super::{Code, MISSING};

pub(super) const fn check(code: Code) -> &'static str {
    match code {
        Code::TcpTargetInvalid => {
            "The cause names the part of the target. docs/tcp.md shows the one spelling of each form."
        }
        Code::TcpUpgradeMissing => {
            "The cause names the missing part. Proxies that drop `Connection` and `Upgrade` have the same effect: `curl -sSi HUB/v1/clusters/CLUSTER/tcp/HOST:PORT` shows the answer."
        }
        Code::TcpBroke => {
            "Look at the log of the program at the target for the same time. `fairlead cluster sessions CLUSTER` shows whether the agent has connected again meanwhile."
        }
        Code::TcpNotAllowed => {
            "Run `fairlead whoami`: one of your roles must be tcp or admin, for the whole cluster. A role in namespaces allows no TCP connections."
        }
        Code::TcpFrames => {
            "The cause names the frame. The hub takes binary messages of at most 64 KiB, and none after the empty one."
        }
        Code::ServicePortsMissing => {
            "The cause names the ports that the hub has for services, if any. `--service-listen` and `--service-ports` are settings of `fairlead server`."
        }
        Code::ServiceTaken => {
            "The cause names the port or host. An admin of all tenants finds its service with `fairlead service list`."
        }
        Code::ServiceClientRefused => {
            "The audit event of the request has the address as the hub has it. Behind a load balancer that is the client's own one only with `--proxy-protocol` or `--trusted-proxy`."
        }
        Code::TargetReserved => {
            "The cause names the resolved address. `kubectl -n fairlead get deployment fairlead-agent -o yaml` shows each `--allow-connect`; rules with a name or a network never reach these addresses."
        }
        Code::TargetUnreadable => {
            "The agent's log has the target that arrived: `kubectl -n fairlead logs deployment/fairlead-agent`."
        }
        Code::LocalAddress => "List the programs that listen: `ss -ltnp`.",
        Code::RemoteListen => {
            "Compare the address of the command with the machine's own ones: `ip address`."
        }
        Code::TcpClientBroke => {
            "Run `fairlead cluster sessions CLUSTER` for the agent's side. `fairlead sessions list --kind tcp` shows whether the hub has the connection still."
        }
        Code::NoWebSocket => {
            "The cause has the status of the answer. Compare with a request from another network; `kubectl exec` needs the same headers."
        }
        Code::ProxyRequest => {
            "The cause has the first bytes. `curl -v --proxy socks5h://127.0.0.1:PORT http://HOST:PORT/` uses the proxy as it should be used."
        }
        _ => MISSING,
    }
}
