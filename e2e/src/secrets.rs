//! Search for the secrets of a rig in everything that a run has left: files, command lines, environments, pages.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use aho_corasick::AhoCorasick;
use anyhow::{bail, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::JoinString;
use fairlead_testkit::process::children;

/// Variables of Fairlead's programs that the documents name as places of secrets.
const DOCUMENTED_VARIABLES: [&str; 8] = [
    "FAIRLEAD_INFLUX_PASSWORD",
    "FAIRLEAD_INFLUX_TOKEN",
    "FAIRLEAD_ISSUER_TOKEN",
    "FAIRLEAD_JOIN",
    "FAIRLEAD_STORE_PASSWORD",
    "FAIRLEAD_TOKEN",
    "HTTPS_PROXY",
    "https_proxy",
];
/// A shorter secret would be found by chance.
const MIN_SECRET_BYTES: usize = 6;

/// Secrets of a rig, by name.
#[derive(Debug, Clone, Default)]
pub struct KnownSecrets(Vec<(String, String)>);

impl KnownSecrets {
    /// Adds a secret, and its base64 form.
    ///
    /// # Panics
    /// It is so short that other text contains it by chance.
    pub fn add(&mut self, name: &str, secret: &str) {
        let secret = secret.trim();
        assert!(secret.len() >= MIN_SECRET_BYTES, "{name} is too short");
        self.0.push((name.to_owned(), secret.to_owned()));
        // Without its end, which depends on the bytes that follow.
        let encoded = STANDARD.encode(secret);
        let whole = encoded.get(..secret.len() / 3 * 4).unwrap_or_default();
        self.0
            .push((format!("{name}, in base64"), whole.to_owned()));
    }

    /// Adds a join string and its bootstrap token.
    ///
    /// # Errors
    /// It is no join string.
    pub fn add_join(&mut self, name: &str, join: &str) -> anyhow::Result<()> {
        let parsed: JoinString = join.parse()?;
        self.add(name, join);
        // The token's `Debug` hides it, its serialized form does not.
        let request = fairlead_api::enroll::CheckRequest {
            token: Some(parsed.token),
            key: None,
        };
        let json = serde_json::to_value(request)?;
        let token = json.pointer("/token").and_then(|it| it.as_str());
        self.add(&format!("token of {name}"), token.unwrap_or_default());
        Ok(())
    }

    /// Adds name and password for a proxy: the password as it is and percent-encoded, and the Basic header.
    pub fn add_proxy_password(&mut self, name: &str, password: &str) {
        self.add("password for a proxy", password);
        let encoded: String = password
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    char::from(byte).to_string()
                }
                other => format!("%{other:02X}"),
            })
            .collect();
        self.add("password for a proxy, percent-encoded", &encoded);
        let pair = format!("{name}:{password}");
        self.add("Basic header", &STANDARD.encode(pair));
    }

    /// Adds the lines of all private keys (PEM) in a text, which may be JSON.
    pub fn add_keys(&mut self, name: &str, text: &str) {
        let text = text.replace("\\n", "\n");
        let mut is_key = false;
        for line in text.lines() {
            if line.contains("-----") {
                is_key = line.contains("PRIVATE KEY-----") && line.contains("BEGIN");
            } else if is_key && line.len() >= MIN_SECRET_BYTES {
                self.add(name, line);
            }
        }
    }

    /// Number of texts that are searched for.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Names of the secrets in these bytes.
    ///
    /// # Errors
    /// There are too many secrets for one search.
    pub fn found_in(&self, bytes: &[u8]) -> anyhow::Result<BTreeSet<&str>> {
        let search = AhoCorasick::new(self.0.iter().map(|(_, secret)| secret))?;
        let found = search.find_overlapping_iter(bytes);
        let found = found.filter_map(|it| self.0.get(it.pattern().as_usize()));
        Ok(found.map(|(name, _)| name.as_str()).collect())
    }

    /// Checks a page, such as metrics or Events.
    ///
    /// # Errors
    /// It has secrets. The error names them and quotes none.
    pub fn absent_from(&self, place: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let found = Vec::from_iter(self.found_in(bytes)?);
        ensure!(found.is_empty(), "{place} has: {}", found.join("; "));
        Ok(())
    }

    /// Checks all files of a folder and of its folders. Returns their number.
    ///
    /// # Errors
    /// A file has secrets, or cannot be read.
    pub fn absent_from_files(&self, folder: &Path) -> anyhow::Result<usize> {
        let mut count = 0;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                count += self.absent_from_files(&path)?;
            } else if path.is_file() {
                self.absent_from(&path.display().to_string(), &fs::read(&path)?)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Checks command lines and environments of all processes that this one has started, and of theirs. A documented
    /// variable may have secrets. Returns the number of processes.
    ///
    /// # Errors
    /// A process has secrets there.
    pub fn absent_from_processes(&self) -> anyhow::Result<usize> {
        let mut count = 0;
        let mut waiting = children(std::process::id())?;
        while let Some(pid) = waiting.pop() {
            waiting.extend(children(pid)?);
            let own = Path::new("/proc").join(pid.to_string());
            // A process may end meanwhile.
            let Ok(line) = fs::read(own.join("cmdline")) else {
                continue;
            };
            let name = line.split(|byte| *byte == 0).next().unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            self.absent_from(&format!("command line of {name}"), &line)?;
            for variable in fs::read(own.join("environ"))
                .unwrap_or_default()
                .split(|byte| *byte == 0)
            {
                let text = String::from_utf8_lossy(variable);
                let (variable_name, value) = text.split_once('=').unwrap_or_default();
                if DOCUMENTED_VARIABLES.contains(&variable_name) {
                    continue;
                }
                self.absent_from(&format!("{variable_name} of {name}"), value.as_bytes())?;
            }
            count += 1;
        }
        Ok(count)
    }

    /// Text of all secrets, one in a line, for a file of the rig.
    #[must_use]
    pub fn to_lines(&self) -> String {
        let lines = self
            .0
            .iter()
            .map(|(name, secret)| format!("{name}\t{secret}\n"));
        lines.collect()
    }

    /// Adds the secrets of [`KnownSecrets::to_lines`].
    ///
    /// # Errors
    /// A line has another form.
    pub fn add_lines(&mut self, lines: &str) -> anyhow::Result<()> {
        for line in lines.lines() {
            let Some((name, secret)) = line.split_once('\t') else {
                bail!("a line without a name");
            };
            let known = (name.to_owned(), secret.to_owned());
            if !self.0.contains(&known) {
                self.0.push(known);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn secret_is_found_in_each_of_its_forms() {
        let mut known = KnownSecrets::default();
        known.add_proxy_password("robot", "s3cret/&word");
        for text in [
            "http://robot:s3cret/&word@proxy".to_owned(),
            "http://robot:s3cret%2F%26word@proxy".to_owned(),
            format!("data: {}", STANDARD.encode("s3cret/&word and more")),
            format!("Basic {}", STANDARD.encode("robot:s3cret/&word")),
        ] {
            assert!(
                !known.found_in(text.as_bytes()).unwrap().is_empty(),
                "{text}"
            );
            let error = known.absent_from("a log", text.as_bytes()).unwrap_err();
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
        assert!(known.found_in(b"http://***@proxy").unwrap().is_empty());
        let mut again = KnownSecrets::default();
        again.add_lines(&known.to_lines()).unwrap();
        assert_eq!(again.count(), known.count());
    }

    #[test]
    fn lines_of_keys_alone_are_secrets() {
        let mut known = KnownSecrets::default();
        let json = r#"{"hub": "https://hub.example",
            "key": "-----BEGIN PRIVATE KEY-----\nbGluZS1vbmU\nbGluZS10d28\n-----END PRIVATE KEY-----\n",
            "chain": "-----BEGIN CERTIFICATE-----\nY2VydGlmaWNhdGU\n-----END CERTIFICATE-----\n"}"#;
        known.add_keys("identity", json);
        let found = |text: &str| !known.found_in(text.as_bytes()).unwrap().is_empty();
        assert!(found("x bGluZS1vbmU") && found("x bGluZS10d28"));
        assert!(!found("https://hub.example") && !found("Y2VydGlmaWNhdGU"));
    }

    #[test]
    fn folders_and_processes_are_searched() {
        let mut known = KnownSecrets::default();
        let secret = format!("a-secret-of-{}", std::process::id());
        known.add("a secret", &secret);
        let mut child = std::process::Command::new("cat");
        let child = child.env("A_VARIABLE", &secret);
        let child = child.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        // `spawn` returns before the kernel has set the environment of the new program. Its echo comes after that.
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        input.write_all(b"x").unwrap();
        output.read_exact(&mut [0]).unwrap();
        let found = known.absent_from_processes();
        drop(input);
        child.wait().unwrap();
        let error = found.unwrap_err().to_string();
        assert!(error.contains("A_VARIABLE of cat"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("deep")).unwrap();
        fs::write(folder.path().join("deep/log"), "nothing\n").unwrap();
        assert_eq!(known.absent_from_files(folder.path()).unwrap(), 1);
        fs::write(folder.path().join("deep/other"), &secret).unwrap();
        let error = known.absent_from_files(folder.path()).unwrap_err();
        assert!(
            error.to_string().contains("deep/other has: a secret"),
            "{error}"
        );
    }
}
