//! Program of the tests: a guard, a runner, or a fake Helm, by its first argument.
//!
//! The fake Helm follows the lines of its file of values.

use std::{
    ffi::OsString,
    io::{self, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Duration,
};

use fairlead_runner::{Config, Guarded, Limits, guard, serve};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let result = match (args.get(1).and_then(|it| it.to_str()), runtime) {
        (_, Err(error)) => Err(error),
        (Some("guard"), runtime) => {
            drop(runtime);
            run_guard(&args)
        }
        (Some("runner"), Ok(runtime)) => runtime.block_on(run_runner(&args)),
        (_, Ok(runtime)) => runtime.block_on(fake_helm(&args)),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // The error has no other way out.
            let _ = writeln!(io::stderr(), "rig: {error}");
            ExitCode::from(99)
        }
    }
}

fn value(args: &[OsString], name: &str) -> Option<String> {
    let mut args = args.iter().filter_map(|it| it.to_str());
    while let Some(arg) = args.next() {
        if arg == name {
            return args.next().map(str::to_owned);
        }
        if let Some(value) = arg
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('='))
        {
            return Some(value.to_owned());
        }
    }
    None
}

fn number(args: &[OsString], name: &str) -> Option<u64> {
    value(args, name)?.parse().ok()
}

fn run_guard(args: &[OsString]) -> io::Result<u8> {
    let parent = number(args, "--parent").and_then(|it| u32::try_from(it).ok());
    let program = args.iter().skip_while(|it| *it != "--").skip(1);
    let mut program = program.cloned();
    let guarded = Guarded {
        parent: parent.unwrap_or_default(),
        program: program.next().unwrap_or_default(),
        args: program.collect(),
    };
    match guard(&guarded)? {}
}

async fn run_runner(args: &[OsString]) -> io::Result<u8> {
    let program = std::env::current_exe()?;
    let path = |name| PathBuf::from(value(args, name).unwrap_or_default());
    let mut limits = Limits::default();
    if let Some(ms) = number(args, "--absence-ms") {
        limits.agent_absence = Duration::from_millis(ms);
    }
    if let Some(ms) = number(args, "--kill-delay-ms") {
        limits.kill_delay = Duration::from_millis(ms);
    }
    let config = Config {
        socket: path("--socket"),
        work: path("--work"),
        helm: path("--helm"),
        guard: vec![program.clone().into(), "guard".into()],
        program,
        version: "test".into(),
        end_without_agent: args.iter().any(|it| it == "--end-without-agent"),
        limits,
    };
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let stop = async {
        term.recv().await;
    };
    serve(config, stop).await?;
    Ok(0)
}

async fn fake_helm(args: &[OsString]) -> io::Result<u8> {
    let mut out = io::stdout();
    let Some(values) = value(args, "--values") else {
        for arg in args.iter().skip(1) {
            writeln!(out, "{}", arg.to_string_lossy())?;
        }
        writeln!(io::stderr(), "warning on stderr")?;
        return Ok(0);
    };
    let mut signals = Vec::new();
    for line in std::fs::read_to_string(values)?.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let amount = rest.parse::<u64>().unwrap_or_default();
        match word {
            "echo" => writeln!(out, "{rest}")?,
            // One write: the other output may come between two.
            "err" => io::stderr().write_all(format!("{rest}\n").as_bytes())?,
            "exit" => return Ok(u8::try_from(amount).unwrap_or(98)),
            "sleep" => tokio::time::sleep(Duration::from_millis(amount)).await,
            "wait-for" => wait_for(rest).await,
            "print" => print(amount)?,
            "environment" => {
                for (name, value) in std::env::vars_os() {
                    writeln!(
                        out,
                        "{}={}",
                        name.to_string_lossy(),
                        value.to_string_lossy()
                    )?;
                }
            }
            // A program gets the descriptors that its parent got, and none of the parent's own.
            "descriptors" => {
                Command::new("/bin/ls")
                    .args(["-l", "/proc/self/fd"])
                    .status()?;
            }
            "read" => writeln!(out, "{}", std::fs::read_to_string(rest)?)?,
            "ignore-term" => {
                let kind = tokio::signal::unix::SignalKind::terminate();
                signals.push(tokio::signal::unix::signal(kind)?);
            }
            // A grandchild in the group, and one that leaves it and keeps the pipes open.
            "child" => writeln!(
                out,
                "pid {}",
                Command::new("/bin/sleep").arg("600").spawn()?.id()
            )?,
            "stray" => {
                let child = Command::new("/bin/sleep")
                    .arg("600")
                    .process_group(0)
                    .spawn()?;
                writeln!(out, "pid {}", child.id())?;
            }
            "pid" => writeln!(out, "pid {}", std::process::id())?,
            _ => writeln!(out, "unknown line {line:?}")?,
        }
        out.flush()?;
    }
    Ok(0)
}

/// Waits until a file exists.
async fn wait_for(file: &str) {
    while !Path::new(file).exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn print(bytes: u64) -> io::Result<()> {
    let line = format!("{}\n", "x".repeat(1023));
    let mut out = io::stdout().lock();
    for _ in 0..bytes / 1024 {
        out.write_all(line.as_bytes())?;
    }
    out.write_all(b"last line\n")
}
