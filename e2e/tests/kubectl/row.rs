//! One call of kubectl on all three routes at once. The routes must end alike and print the same bytes.

use anyhow::ensure;
use fairlead_e2e::{Output, UpgradeProtocol};

use crate::world::{CallRoute, KubectlWorld};

/// Differences between routes that are removed before the comparison. All others are errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Differs {
    Nothing,
    /// The URL of the server depends on the route.
    Server,
    /// A column is an age, which also determines the width of other columns.
    Ages,
    /// Each route writes an object of its own, with its own times and versions.
    Stamps,
    /// Names of temporary folders.
    Folders,
}

/// A call. `{pod}` in its arguments is a pod of `demo`, `{tag}` depends on the route.
#[derive(Debug, Clone)]
pub(crate) struct CommandRow {
    args: Vec<String>,
    stdin: String,
    editor: &'static str,
    transport: Option<UpgradeProtocol>,
    code: i32,
    says: &'static str,
    differs: Differs,
}

/// A call with arguments without blanks. It must succeed.
pub(crate) fn row(args: &str) -> CommandRow {
    CommandRow {
        args: args.split(' ').map(str::to_owned).collect(),
        stdin: String::new(),
        editor: "false",
        transport: None,
        code: 0,
        says: "",
        differs: Differs::Nothing,
    }
}

impl CommandRow {
    /// Adds an argument, which may contain blanks.
    pub(crate) fn word(mut self, word: &str) -> Self {
        self.args.push(word.to_owned());
        self
    }

    /// Adds an argument before all others.
    pub(crate) fn first(mut self, word: &str) -> Self {
        self.args.insert(0, word.to_owned());
        self
    }

    pub(crate) fn stdin(mut self, text: &str) -> Self {
        text.clone_into(&mut self.stdin);
        self
    }

    pub(crate) fn editor(mut self, command: &'static str) -> Self {
        self.editor = command;
        self
    }

    pub(crate) fn over(mut self, transport: UpgradeProtocol) -> Self {
        self.transport = Some(transport);
        self
    }

    pub(crate) fn exits(mut self, code: i32) -> Self {
        self.code = code;
        self
    }

    /// Requires this text on either output, since three empty answers would be equal too.
    pub(crate) fn says(mut self, text: &'static str) -> Self {
        self.says = text;
        self
    }

    pub(crate) fn names_the_server(mut self) -> Self {
        self.differs = Differs::Server;
        self
    }

    pub(crate) fn has_ages(mut self) -> Self {
        self.differs = Differs::Ages;
        self
    }

    pub(crate) fn has_stamps(mut self) -> Self {
        self.differs = Differs::Stamps;
        self
    }

    pub(crate) fn names_folders(mut self) -> Self {
        self.differs = Differs::Folders;
        self
    }

    async fn run(&self, world: &KubectlWorld, way: CallRoute) -> anyhow::Result<RowOutcome> {
        let filled = self.args.iter().map(|arg| {
            arg.replace("{pod}", world.pod(0))
                .replace("{tag}", way.tag())
        });
        let mut kubectl = world
            .kubectl(way)
            .args(filled)
            .stdin(self.stdin.clone())
            .env("KUBE_EDITOR", self.editor)
            .env("KUBECTL_EXTERNAL_DIFF", "diff -u -N");
        if let Some(transport) = self.transport {
            kubectl = kubectl.transport(transport);
        }
        let output = kubectl.run().await?;
        Ok(RowOutcome {
            code: output.status.code(),
            stdout: self.same(world, way, &output.text()),
            stderr: self.same(world, way, &output.stderr),
            output,
        })
    }

    fn same(&self, world: &KubectlWorld, way: CallRoute, text: &str) -> String {
        let text = text.replace(way.tag(), "TAG");
        let each = |change: fn(&str) -> String| text.split('\n').map(change).collect::<Vec<_>>();
        match self.differs {
            Differs::Nothing => text,
            Differs::Server => text.replace(&world.server(way), "SERVER"),
            Differs::Ages => each(without_ages).join("\n"),
            Differs::Stamps => each(without_stamp).join("\n"),
            Differs::Folders => each(without_folder).join("\n"),
        }
    }

    async fn check(&self, world: &KubectlWorld) -> anyhow::Result<()> {
        let [direct, path, name] = CallRoute::ALL.map(|way| self.run(world, way));
        let (direct, path, name) = tokio::try_join!(direct, path, name)?;
        let fine = direct.code == Some(self.code)
            && (direct.stdout.contains(self.says) || direct.stderr.contains(self.says));
        ensure!(fine, "{self:?}: directly: {:?}", direct.output);
        for (way, seen) in [(CallRoute::Path, path), (CallRoute::Name, name)] {
            let same = seen.code == direct.code
                && seen.stdout == direct.stdout
                && seen.stderr == direct.stderr;
            ensure!(same, "{self:?}: {way:?}: {}", seen.beside(&direct));
        }
        Ok(())
    }
}

struct RowOutcome {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    output: Output,
}

impl RowOutcome {
    /// The first different line, since a whole answer may be a megabyte.
    fn beside(&self, direct: &RowOutcome) -> String {
        let lines = |seen: &RowOutcome| {
            let whole = format!("{:?}\n{}\n{}", seen.code, seen.stderr, seen.stdout);
            whole.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let (ours, theirs) = (lines(self), lines(direct));
        let number = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
        let (ours, theirs) = (ours.get(number), theirs.get(number));
        let said = &self.stderr;
        format!("line {number}: {ours:?}, directly {theirs:?}; standard error: {said:?}")
    }
}

/// Makes the calls one after the other and reports all failures.
pub(crate) async fn check(world: &KubectlWorld, rows: &[CommandRow]) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for row in rows {
        if let Err(error) = row.check(world).await {
            wrong.push(format!("{error:#}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn without_ages(line: &str) -> String {
    let is_age = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit()) && word.ends_with(['s', 'm', 'h'])
    };
    let words = line.split_whitespace();
    let words = words.map(|word| if is_age(word) { "AGE" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

fn without_stamp(line: &str) -> String {
    const STAMPS: [&str; 4] = ["creationTimestamp:", "resourceVersion:", "time:", "uid:"];
    let field = line.trim_start_matches([' ', '-', '+']);
    let stamp = STAMPS.into_iter().find(|stamp| field.starts_with(stamp));
    stamp.unwrap_or(line).to_owned()
}

/// Removes the random folder and the time from `diff`'s file headers.
fn without_folder(line: &str) -> String {
    let heads = ["diff -u ", "--- ", "+++ "];
    let head = heads.into_iter().find(|head| line.starts_with(head));
    head.map_or_else(|| without_stamp(line), str::to_owned)
}
