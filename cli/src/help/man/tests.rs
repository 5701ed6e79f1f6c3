//! Manual pages: every command and flag is in them, and `man` finds nothing to complain about.

use std::process::Command;

use super::super::page::pages;
use super::*;
use crate::args;

const DATE: &str = "1700000000";

fn written() -> (tempfile::TempDir, Vec<HelpPage>) {
    let folder = tempfile::tempdir().unwrap();
    let pages = pages(args::command());
    write(
        &pages,
        folder.path(),
        &Environment::of(&[(DATE_VARIABLE, DATE)]),
    )
    .unwrap();
    (folder, pages)
}

/// The page as `man` prints it, without the marks of bold text.
fn shown(file: &Path) -> String {
    let mut man = Command::new("man");
    man.args(["--warnings=w", "--local-file"]).arg(file);
    man.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "100");
    let output = man.env("MAN_KEEP_FORMATTING", "").output().unwrap();
    let (page, warnings) = (output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && warnings.is_empty(),
        "{}: {warnings}",
        file.display()
    );
    String::from_utf8(page).unwrap()
}

#[test]
fn each_command_has_a_page_with_each_of_its_flags() {
    let (folder, pages) = written();
    assert_eq!(
        folder.path().read_dir().unwrap().count(),
        pages.len(),
        "two commands share a file"
    );
    for page in &pages {
        let text =
            std::fs::read_to_string(folder.path().join(format!("{}.1", name(&page.path)))).unwrap();
        assert!(text.is_ascii(), "{}", page.path);
        for (_, entries) in page
            .sections()
            .filter(|(heading, _)| *heading != "Commands")
        {
            for entry in entries {
                assert!(text.contains(&format!(".TP\n{}\n", spec(&entry.spec))));
            }
        }
    }
}

#[test]
fn server_and_agent_read_well() {
    let (folder, _) = written();
    let page = std::fs::read_to_string(folder.path().join("fairlead-agent.1")).unwrap();
    let first = format!(
        ".TH \"FAIRLEAD\\-AGENT\" \"1\" \"2023-11-14\" \"Fairlead {VERSION}\" \"Fairlead\"\n"
    );
    assert!(page.starts_with(&first), "{page}");
    for part in [
        "\\fBfairlead agent\\fR [OPTIONS]\n",
        ".TP\n\\fB\\-\\-kubeconfig\\fR \\fI<FILE>\\fR\n",
        ".TP\n\\fBfairlead\\-agent\\-uninstall\\fR(1)\n",
        ".SH SETTINGS\n",
        ".SH EXAMPLES\n.EX\nfairlead agent \\-\\-join @join.txt \\-\\-kubeconfig \\(ti/.kube/config\n",
        ".EE\n.SH SEE ALSO\n\\fBfairlead\\fR(1),\n\\fBfairlead\\-explain\\fR(1)\n",
    ] {
        assert!(page.contains(part), "{part} is missing:\n{page}");
    }
}

#[test]
fn man_prints_all_pages_without_a_warning() {
    if Command::new("man").arg("--version").output().is_err() {
        eprintln!("SKIPPED: this machine has no man");
        return;
    }
    let (folder, pages) = written();
    // The long ones; `make hosts` checks all of them.
    for path in ["fairlead", "fairlead server", "fairlead agent"] {
        let page = pages.iter().find(|page| page.path == path).unwrap();
        let text = shown(&folder.path().join(format!("{}.1", name(path))));
        let options = page.sections().filter(|(heading, _)| *heading == "Options");
        for entry in options.flat_map(|(_, entries)| entries) {
            let flag = entry.spec.split(' ').next().unwrap();
            assert!(text.contains(flag), "{path}: {flag} is missing:\n{text}");
        }
        for example in page.epilogue.lines().filter(|line| line.starts_with("  ")) {
            assert!(text.contains(example.trim()), "{example}:\n{text}");
        }
    }
}

#[test]
fn characters_of_roff_are_escaped() {
    assert_eq!(escaped(".a"), "\\&.a");
    assert_eq!(escaped("a\\-'b'…"), "a\\e\\-\\(aqb\\(aq\\[u2026]");
}

#[test]
fn date_must_be_seconds() {
    let failure = date(&Environment::of(&[(DATE_VARIABLE, "today")])).unwrap_err();
    assert_eq!(failure.code, Code::BadConfig);
}
