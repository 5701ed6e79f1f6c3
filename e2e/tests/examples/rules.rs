//! How commands are run that do not end by themselves, print nothing, or cannot be run here.

/// A rule for every command that holds `text`; the first that fits counts.
pub(crate) struct Rule {
    text: &'static str,
    pub(crate) way: Way,
}

pub(crate) enum Way {
    /// It goes on for ever: it is ended when it has printed this.
    Until(&'static str),
    /// The same, where it prints this only when something changes.
    Follow(&'static str),
    /// It prints nothing where all is well.
    Silent,
    /// It is not run, for this reason.
    Left(&'static str),
}

pub(crate) struct Rules;

const fn until(text: &'static str, printed: &'static str) -> Rule {
    Rule {
        text,
        way: Way::Until(printed),
    }
}

const fn follow(text: &'static str, printed: &'static str) -> Rule {
    Rule {
        text,
        way: Way::Follow(printed),
    }
}

const fn silent(text: &'static str) -> Rule {
    Rule {
        text,
        way: Way::Silent,
    }
}

const fn left(text: &'static str, reason: &'static str) -> Rule {
    Rule {
        text,
        way: Way::Left(reason),
    }
}

const RULES: &[Rule] = &[
    left("make demo", "it is the other command of the README"),
    left("make test", "this is part of it"),
    left(
        "cargo build",
        "`make bench` builds with this profile, in minutes",
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
        "HTTPS_PROXY",
        "it needs a proxy; `make net` runs it with squid",
    ),
    left(
        "--backend influxdb",
        "it needs an InfluxDB; `make influxdb` queries one",
    ),
    left(
        "# asks for the token",
        "it needs a terminal; the test commands has one",
    ),
    until("fairlead dev", "hub ready"),
    until("fairlead server", "hub ready"),
    until("fairlead agent --join", "configured by the hub"),
    until("--wait", "waiting for the agent to enrol"),
    until("cluster list -w", "demo"),
    follow("changes --since 1042 -f", "c-demo"),
    follow("changes -f", "c-demo"),
    until("wait edge-1 edge-2", "waiting"),
    silent("cluster wait demo"),
    silent("fairlead kubeconfig --cluster"),
    silent("> demo.yaml"),
    silent("> store-key"),
    silent("source <("),
];

/// Commands after which the world is no longer as the other pages take it for granted.
const SPOILERS: [&str; 4] = [
    "agent uninstall",
    "cluster delete",
    "--delete-protection",
    "--name prod",
];

impl Rules {
    pub(crate) fn spoils(command: &str) -> bool {
        SPOILERS.iter().any(|text| command.contains(text))
    }

    pub(crate) fn of(command: &str) -> Option<&'static Way> {
        let rule = RULES.iter().find(|rule| command.contains(rule.text));
        rule.map(|rule| &rule.way)
    }

    /// Rules that no command needs.
    pub(crate) fn idle(commands: &[String]) -> Vec<&'static str> {
        let first = |command: &String| RULES.iter().position(|it| command.contains(it.text));
        let used: Vec<usize> = commands.iter().filter_map(first).collect();
        let idle = RULES.iter().enumerate();
        let idle = idle.filter(|(at, _)| !used.contains(at));
        idle.map(|(_, rule)| rule.text).collect()
    }
}
