//! Prompt for a secret on the terminal, without echo.

use std::io::{self, IsTerminal, Write};

use fairlead_api::{Code, Failure};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use secrecy::SecretString;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

/// Reads one line, typed or pasted. Ctrl-C cancels the prompt and restores the terminal.
///
/// # Errors
/// `FL-4117` without a terminal, `FL-4118` for an empty line.
pub(super) async fn secret(question: &str) -> Result<SecretString, Failure> {
    if !io::stdin().is_terminal() {
        let detail = "no token was given, and there is no terminal for a prompt";
        let failure = Failure::because(Code::Usage, detail);
        let step = "Name a file with `--token-file F`, or `--token-file -` for standard input.";
        return Err(failure.next(step));
    }
    let asked = prompt(question).await.map_err(|error| {
        Failure::because(
            Code::Usage,
            format_args!("the terminal cannot be read: {error}"),
        )
    })?;
    let typed = asked.as_deref().map(str::trim).unwrap_or_default();
    match typed {
        "" => Err(
            Failure::with_cause(Code::NotConfirmed, "no token was typed")
                .next("Run it again and paste the token."),
        ),
        token => Ok(token.into()),
    }
}

/// Prompts and reads a line; `None` after Ctrl-C.
async fn prompt(question: &str) -> io::Result<Option<String>> {
    // Before the prompt: a signal without a handler ends the process and leaves the terminal without echo.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let hidden = Hidden::begin()?;
    let mut screen = io::stderr();
    write!(screen, "{question}")?;
    screen.flush()?;
    let (send, line) = oneshot::channel();
    // A separate thread: a blocking read would keep the runtime from shutting down.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin().read_line(&mut line);
        // The receiver is gone after Ctrl-C.
        let _ = send.send(read.map(|_| line));
    });
    let typed = tokio::select! {
        line = line => match line {
            Ok(line) => Some(line?),
            Err(_) => None,
        },
        _ = interrupt.recv() => None,
    };
    drop(hidden);
    // The return key was not echoed.
    writeln!(screen)?;
    Ok(typed)
}

/// The terminal on standard input without echo, until this is dropped.
struct Hidden {
    before: Termios,
}

impl Hidden {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &modes)?;
        Ok(Hidden { before })
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // An error means that the terminal is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
