//! Reference of a chart's values, from its `values.yaml`: a comment describes the key below it.

use anyhow::bail;

const SPACES_PER_LEVEL: usize = 2;

/// Table with path, default and description of each value.
///
/// # Errors
/// A line is not in the form of the charts' files: comments, `key:` and `key: value`, indented by two spaces.
pub(crate) fn table(yaml: &str) -> anyhow::Result<String> {
    let mut table = "| value | default | meaning |\n|---|---|---|\n".to_owned();
    let mut path: Vec<&str> = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for line in yaml.lines() {
        let text = line.trim_start();
        if text.is_empty() {
            comment.clear();
            continue;
        }
        if let Some(words) = text.strip_prefix('#') {
            comment.push(words.trim());
            continue;
        }
        let Some((key, default)) = text.split_once(':') else {
            bail!("no key in {line:?}");
        };
        let spaces = line.len() - text.len();
        let level = spaces / SPACES_PER_LEVEL;
        if spaces % SPACES_PER_LEVEL != 0 || level > path.len() {
            bail!("wrong indentation of {line:?}");
        }
        path.truncate(level);
        path.push(key);
        let (default, meaning) = (default.trim(), comment.join(" "));
        comment.clear();
        // A map without a description of its own shows its keys only.
        if default.is_empty() && meaning.is_empty() {
            continue;
        }
        let name = path.join(".");
        let shown = match default {
            "" => String::new(),
            default => format!("`{default}`"),
        };
        table += &format!("| `{name}` | {shown} | {} |\n", meaning.replace('|', "\\|"));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_path_default_and_comment() {
        let yaml = "# A | b.\n# Second line.\na: \"\"\n\nmap:\n  # Inner.\n  key: {}\nproxy:\n  url: \"\"\n# Last.\nz:\n  y: [1]\n";
        let expected = "| value | default | meaning |\n|---|---|---|\n\
            | `a` | `\"\"` | A \\| b. Second line. |\n\
            | `map.key` | `{}` | Inner. |\n\
            | `proxy.url` | `\"\"` |  |\n\
            | `z` |  | Last. |\n\
            | `z.y` | `[1]` |  |\n";
        assert_eq!(table(yaml).unwrap(), expected);
        assert!(table("a:\n   b: 1\n").is_err());
        assert!(table("- a\n").is_err());
    }

    #[test]
    fn charts_of_the_repository_are_read() {
        for chart in ["fairlead-hub", "fairlead-agent"] {
            let folder = env!("CARGO_MANIFEST_DIR");
            let file = format!("{folder}/../deploy/charts/{chart}/values.yaml");
            let page = table(&std::fs::read_to_string(file).unwrap()).unwrap();
            assert!(page.contains("| `replicas` |"), "{page}");
        }
    }
}
