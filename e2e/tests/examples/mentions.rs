//! Commands within a sentence, such as `fairlead cluster get --watch`: the command and its flags must exist.

use std::collections::BTreeMap;

use crate::collect::{all_help, texts};

/// One line per mention of a command or flag that does not exist.
pub(crate) async fn wrong() -> anyhow::Result<Vec<String>> {
    let helps: BTreeMap<Vec<String>, String> = all_help().await?.into_iter().collect();
    let mut wrong = Vec::new();
    for (name, text) in texts()? {
        for code in inline_code(&text) {
            let Some(rest) = code.strip_prefix("fairlead ") else {
                continue;
            };
            if let Err(mistake) = check(&helps, rest) {
                wrong.push(format!("{name}: `{code}`: {mistake}"));
            }
        }
    }
    Ok(wrong)
}

fn check(helps: &BTreeMap<Vec<String>, String>, rest: &str) -> Result<(), String> {
    let mut words: Vec<String> = Vec::new();
    let mut given = rest.split_whitespace().peekable();
    while let Some(word) = given.peek() {
        // The first of several alternatives, such as `tenant|cluster`, represents all of them.
        let first = word.split('|').next().unwrap_or_default();
        let longer = [words.clone(), vec![first.to_owned()]].concat();
        if !helps.contains_key(&longer) {
            break;
        }
        words = longer;
        given.next();
    }
    if words.is_empty() && !rest.starts_with(['-', '.']) && !rest.starts_with("help") {
        return Err("there is no such command".to_owned());
    }
    let help = helps.get(&words).map_or("", String::as_str);
    for flag in given.filter(|word| word.starts_with("--")) {
        let flag = flag.split(['=', ',', '.', ']']).next().unwrap_or_default();
        let is_there = help
            .split([' ', ',', '[', '=', '\n'])
            .any(|word| word == flag);
        if !is_there && flag != "--help" {
            return Err(format!("`fairlead {}` has no {flag}", words.join(" ")));
        }
    }
    Ok(())
}

/// Text between single backquotes, outside of fences.
fn inline_code(text: &str) -> Vec<&str> {
    let mut outside = true;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            outside = !outside;
        } else if outside {
            found.extend(line.split('`').skip(1).step_by(2));
        }
    }
    found
}
