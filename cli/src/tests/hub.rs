//! A `fairlead dev` on a thread of this process, and commands of its user.

use std::{
    fs,
    path::Path,
    sync::mpsc,
    thread::{self, JoinHandle},
};

use clap::FromArgMatches;
use fairlead_client::Environment;
use fairlead_commands::output::streams;
use fairlead_runtime::{Process, config::Reader, workers};
use fairlead_testkit::wait::{TEST_DEADLINE, eventually};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    args::{self, Args},
    dispatch,
    hub::{audit::AuditSlot, serve, settings},
    outcome::{exit_code, failure_text, usage_text},
};

/// A hub on free ports of loopback. Its folder is the home directory of its user.
pub(super) struct TestHub {
    folder: TempDir,
    ready: Value,
    process: Process,
    thread: Option<JoinHandle<()>>,
}

/// Result of a command.
#[derive(Debug)]
pub(super) struct Ran {
    /// Exit code.
    pub(super) code: u8,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Ran {
    /// Standard output of a success.
    pub(super) fn success(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }

    /// Asserts exit code and shape of a failure.
    pub(super) fn failed(&self, code: u8, stable: &str) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        assert!(self.stderr.contains("\nnext:  "), "{self:?}");
        assert!(
            self.stderr.ends_with(&format!("\ncode:  {stable}\n")),
            "{stable}: {self:?}"
        );
    }
}

impl TestHub {
    pub(super) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let environment = home(folder.path());
        let file = folder.path().join("ready.json");
        let flag = |name: &str, value: &str| (name.to_owned(), vec![value.to_owned()]);
        let flags = [
            flag("listen", "127.0.0.1:0"),
            flag("admin", "127.0.0.1:0"),
            flag("ready-file", file.to_str().unwrap()),
        ];
        let mut reader = Reader::new("dev", flags, environment.all());
        let data = folder.path().join("data");
        let settings = settings::read_dev(&mut reader, data, &environment);
        reader.finish().unwrap();
        let (sender, started) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = workers::single().unwrap();
            runtime.block_on(async {
                let process = Process::new();
                sender.send(process.clone()).unwrap();
                serve(settings, process, &AuditSlot::default())
                    .await
                    .unwrap();
            });
        });
        let ready = eventually(TEST_DEADLINE, "the ready file", async || {
            fs::read(&file).ok()
        });
        let ready = workers::single().unwrap().block_on(ready).unwrap();
        TestHub {
            folder,
            ready: serde_json::from_slice(&ready).unwrap(),
            process: started.recv().unwrap(),
            thread: Some(thread),
        }
    }

    /// Folder for files of the test.
    pub(super) fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// A value of its ready file.
    pub(super) fn ready(&self, key: &str) -> &str {
        self.ready[key].as_str().unwrap()
    }

    /// Token of its first admin.
    pub(super) fn token(&self) -> String {
        let token = fs::read_to_string(self.ready("token_file")).unwrap();
        token.trim().to_owned()
    }

    /// Writes a file into its folder and returns its path.
    pub(super) fn file(&self, name: &str, text: &str) -> String {
        let path = self.dir().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Runs `fairlead WORDS` as the user who started the hub.
    pub(super) fn run(&self, words: &[&str]) -> Ran {
        run(words, &home(self.dir()))
    }

    /// Standard output of a successful command.
    pub(super) fn said(&self, words: &[&str]) -> String {
        self.run(words).success()
    }

    /// A successful command with `-o json`.
    pub(super) fn json(&self, words: &[&str]) -> Value {
        let text = self.said(&[words, &["-o", "json"]].concat());
        serde_json::from_str(&text).unwrap()
    }

    /// `cluster apply` with these words.
    pub(super) fn apply(&self, words: &[&str]) -> Ran {
        self.run(&[&["cluster", "apply"], words].concat())
    }

    /// Applies this text.
    pub(super) fn applied(&self, text: &str) {
        let file = self.file("applied.yaml", text);
        self.apply(&["-f", &file, "--yes"]).success();
    }
}

impl Drop for TestHub {
    fn drop(&mut self) {
        self.process.start_drain();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn home(folder: &Path) -> Environment {
    Environment::of(&[("HOME", folder.to_str().unwrap())])
}

/// Runs `fairlead WORDS` with these variables.
pub(super) fn run(words: &[&str], environment: &Environment) -> Ran {
    streams::capture();
    let all = || [&["fairlead"], words].concat();
    let parsed = args::command().try_get_matches_from(all());
    let parsed = parsed.and_then(|matches| Ok((Args::from_arg_matches(&matches)?, matches)));
    let (code, failure) = match parsed {
        Err(error) => {
            let words = all().into_iter().map(str::to_owned);
            (2, usage_text(&error.to_string(), words))
        }
        Ok((args, matches)) => match dispatch(args.command, &matches, environment) {
            Ok(()) => (0, String::new()),
            Err(failure) => (exit_code(failure.code), failure_text(&failure)),
        },
    };
    let written = streams::take();
    Ran {
        code,
        stdout: written.stdout,
        stderr: written.stderr + &failure,
    }
}
