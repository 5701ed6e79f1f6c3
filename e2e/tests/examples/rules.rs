//! Rules for commands that do not end by themselves, print nothing, or cannot run here.

/// Rule for every command that contains `text`. The first match counts.
pub(crate) struct OutputRule {
    text: &'static str,
    pub(crate) way: EndCondition,
}

pub(crate) enum EndCondition {
    /// It runs forever and is ended once it has printed this text.
    Until(&'static str),
    /// Like `Until`, for a command that prints only on a change.
    Follow(&'static str),
    /// It prints nothing on success.
    Silent,
    /// It is skipped for this reason.
    Left(&'static str),
}

pub(crate) struct Rules;

const fn until(text: &'static str, printed: &'static str) -> OutputRule {
    OutputRule {
        text,
        way: EndCondition::Until(printed),
    }
}

const fn follow(text: &'static str, printed: &'static str) -> OutputRule {
    OutputRule {
        text,
        way: EndCondition::Follow(printed),
    }
}

const fn silent(text: &'static str) -> OutputRule {
    OutputRule {
        text,
        way: EndCondition::Silent,
    }
}

const fn left(text: &'static str, reason: &'static str) -> OutputRule {
    OutputRule {
        text,
        way: EndCondition::Left(reason),
    }
}

const RULES: &[OutputRule] = &[
    until("fairlead forward", "Forwarding "),
    until("fairlead proxy", "Proxy to "),
    left(
        "fairlead nc",
        "it needs a target that the site of the test cluster allows",
    ),
    left("make demo", "it is the other command of the README"),
    left("make test", "this is part of it"),
    left(
        "make dist",
        "it takes minutes; `make bench` builds the same program",
    ),
    left("--example ", "the test tunnel_examples runs both programs"),
    left(
        "openssl req",
        "the test tunnel_examples makes such certificates",
    ),
    left(
        "fairlead agent upgrade",
        "no agent of the test cluster runs in a pod",
    ),
    left(
        "au-0123456789abcdef",
        "it needs an upgrade of agents in pods",
    ),
    left(
        "edge-1 --purge",
        "it needs an agent that delivers; the test site purges a cluster",
    ),
    left(
        "fairlead cluster values",
        "the token is for one agent, and Helm is not among the required programs; the test charts has it",
    ),
    left(
        "--hold 60",
        "it takes a minute; the test doctor holds for a shorter time",
    ),
    left(
        "set image",
        "no Deployment of the agent runs in the test cluster",
    ),
    left(
        "postgres://",
        "it needs a PostgreSQL; `make test` runs it with one, in the tests hubs, postgres and crash",
    ),
    left(
        "fairlead runner --socket",
        "its folders are those of a container; the test helm runs it in others",
    ),
    left(
        "kubectl exec -n fairlead",
        "no pod of the agent runs in the test cluster; the test doctor checks one",
    ),
    left(
        "kubectl logs -n fairlead",
        "no pod of the agent runs in the test cluster",
    ),
    left(
        "HTTPS_PROXY",
        "it needs a proxy; `make net` runs it with squid",
    ),
    left(
        "git-server",
        "it needs a Git server; `make gitea` has repositories on a real one",
    ),
    left("vault", "it needs a Vault; `make vault` has a real one"),
    left(
        "fairlead maintenance",
        "it needs a Git server; `make gitea` has merge requests on a real one",
    ),
    left(
        ".gitRepo.state.drift",
        "it needs a Git server; `make gitea` has repositories on a real one",
    ),
    left(
        "find component",
        "it needs a GitOps tool; `make flux` has a real Flux",
    ),
    left(
        "cluster catalog status",
        "it needs a GitOps tool; `make flux` has a real Flux",
    ),
    left(
        "b-gitops",
        "it needs a GitOps tool; `make flux` has a real Flux",
    ),
    left(
        "flux install",
        "it needs a GitOps tool; `make flux` has a real Flux",
    ),
    left(
        "--gitops-version",
        "it needs a GitOps tool; `make flux` has a real Flux",
    ),
    left(
        "fairlead/paused",
        "it needs a GitOps tool; `make flux` has a real Flux",
    ),
    left(
        "--gitops-verify",
        "it needs keys of people; `make flux` verifies signed commits",
    ),
    left(
        "kubectl get events",
        "it needs a repaired GitOps tool; `make flux` counts the Events",
    ),
    left(
        "--out-of-sync",
        "it needs a GitOps tool; `make flux` has a real Flux",
    ),
    left(
        "--backend influxdb",
        "it needs an InfluxDB; `make influxdb` queries one",
    ),
    left(
        "fairlead login https://hub.example.com  ",
        "it needs an issuer and a browser; the test sign_in has both",
    ),
    left(
        "fairlead login https://hub.example.com --device",
        "it needs an issuer and a browser; the test sign_in has both",
    ),
    left(
        "fairlead login https://hub.example.com --no-browser",
        "it needs an issuer and a browser; the test sign_in has both",
    ),
    left(
        "ISSUER_TOKEN_FILE",
        "it needs a token of a CI; the test sign_in exchanges one",
    ),
    left(
        "issuer-token-file",
        "it needs a token of a CI; the test sign_in exchanges one",
    ),
    left(
        "/v1/token -d",
        "it needs a token of a CI; the test sign_in exchanges one",
    ),
    left(
        "cluster steward rotate",
        "no Steward is installed in the test cluster",
    ),
    left(
        "ca rotate",
        "the test ca rotates the CA of a hub of its own",
    ),
    left(
        "ca retire",
        "the test ca rotates the CA of a hub of its own",
    ),
    left(
        "confirm-restore",
        "the hub of all examples was not restored",
    ),
    left("hub-b/audit", "it needs the files of two hubs"),
    left(
        "hub.log",
        "it needs the log of a service; the tests of audit check heads of one",
    ),
    left("docker ", "it needs a registry of images"),
    left("--image registry", "it needs an image in a registry"),
    left(
        "k-0123456789abcdef",
        "no token has this id; the tests of the modules hand one over",
    ),
    left(
        "recording ",
        "the hub of all examples records no session; the test audit plays one",
    ),
    left(
        "sessions kill 0123456789abcdef",
        "no request has this id; the test kubectl ends one by its caller",
    ),
    left(
        "ar-0123456789abcdef",
        "no request has this id; the test kubectl decides on one",
    ),
    left(
        "access break-glass",
        "nobody may without a rule of an issuer; the tests of the modules have one",
    ),
    left(
        "install/adoption.yaml",
        "the hub of all examples adopts no agents; the test site has one that does",
    ),
    left(
        "WaitsForAdoption",
        "no agent of the examples waits; the test site adopts one",
    ),
    left(
        "fairlead adoption ",
        "no agent of the examples waits; the test site adopts one",
    ),
    left(
        "agent --adopt",
        "it waits for a person; the test site adopts an agent",
    ),
    left(
        "--git-proxy-allow",
        "it needs a Git server; the test site has one behind such a hub",
    ),
    left("fairlead diff ", "no agent of the examples delivers"),
    left("--diff ", "no agent of the examples delivers"),
    left("--yes --wait", "no agent of the examples delivers"),
    left("--kind sync --wait", "no agent of the examples delivers"),
    left(
        "run-01KB0000000000000000000000",
        "no run has this id; the tests of the modules read one",
    ),
    until("fairlead dev", "hub ready"),
    until("fairlead server", "hub ready"),
    until("fairlead agent --join", "configuration applied"),
    until("--wait", "waiting for the agent to enrol"),
    until("cluster list -w", "demo"),
    until("rollout status shop -w", "canary"),
    follow("changes --since 1042 -f", "c-demo"),
    follow("changes -f", "c-demo"),
    until("wait edge-1 edge-2", "waiting"),
    silent("help --man"),
    silent("fairlead upgrade list"),
    silent("cluster wait demo"),
    silent("fairlead kubeconfig --cluster"),
    silent("> demo.yaml"),
    silent("> shop.yaml"),
    silent("--state Drifted"),
    silent("--state Failed"),
    silent("> store-key"),
    silent("source <("),
    silent("sessions list --cluster c-demo"),
    silent("audit requests --cluster demo --verb create"),
];

/// Commands that break the assumptions of other pages, so they run last.
const SPOILERS: [&str; 5] = [
    "bundle delete",
    "agent uninstall",
    "cluster delete",
    "--delete-protection",
    "--name prod",
];

impl Rules {
    pub(crate) fn spoils(command: &str) -> bool {
        SPOILERS.iter().any(|text| command.contains(text))
    }

    pub(crate) fn of(command: &str) -> Option<&'static EndCondition> {
        let rule = RULES.iter().find(|rule| command.contains(rule.text));
        rule.map(|rule| &rule.way)
    }

    /// Rules that match no command.
    pub(crate) fn idle(commands: &[String]) -> Vec<&'static str> {
        let first = |command: &String| RULES.iter().position(|it| command.contains(it.text));
        let used: Vec<usize> = commands.iter().filter_map(first).collect();
        let idle = RULES.iter().enumerate();
        let idle = idle.filter(|(at, _)| !used.contains(at));
        idle.map(|(_, rule)| rule.text).collect()
    }
}
