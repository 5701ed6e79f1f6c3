//! Settings from three layers: flags, then `FAIRLEAD_*`, then one table of a TOML file.
//!
//! The first layer with a setting wins. Mistakes are collected and reported together. An unknown key in the file is a
//! mistake.

use std::{
    collections::BTreeMap,
    fmt::Display,
    net::{Ipv4Addr, SocketAddr, ToSocketAddrs},
    str::FromStr,
};

use fairlead_api::{Code, Failure};
use toml::{Table, Value};

/// A setting with its values, which may be secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveSetting {
    /// Name of the setting.
    pub key: &'static str,
    /// Layer: `flag`, `environment` or `file`.
    pub source: &'static str,
    /// Values as texts.
    pub values: Vec<String>,
}

/// Reads the settings of one command.
pub struct Reader {
    command: &'static str,
    flags: BTreeMap<String, Vec<String>>,
    environment: BTreeMap<String, String>,
    file: Table,
    file_name: String,
    known_keys: Vec<&'static str>,
    mistakes: Vec<String>,
}

impl Reader {
    /// A reader of flags and environment. `flags` are the given ones, by their long names.
    #[must_use]
    pub fn new(
        command: &'static str,
        flags: impl IntoIterator<Item = (String, Vec<String>)>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        Reader {
            command,
            flags: flags.into_iter().collect(),
            environment: environment
                .into_iter()
                .filter(|(key, _)| key.starts_with("FAIRLEAD_"))
                .collect(),
            file: Table::new(),
            file_name: String::new(),
            known_keys: Vec::new(),
            mistakes: Vec::new(),
        }
    }

    /// Adds the lowest layer: the table of this TOML text with the command's name.
    ///
    /// Tables of the other `commands` may be there too.
    pub fn add_file(&mut self, name: &str, text: &str, commands: &[&str]) {
        name.clone_into(&mut self.file_name);
        let mut tables: Table = match text.parse() {
            Ok(tables) => tables,
            Err(error) => return self.mistake(format!("{name}: {}", error.to_string().trim())),
        };
        match tables.remove(self.command) {
            Some(Value::Table(table)) => self.file = table,
            Some(_) => self.mistake(format!(
                "{name}: {} is a table, [{}]",
                self.command, self.command
            )),
            None => {}
        }
        for key in tables
            .keys()
            .filter(|key| !commands.contains(&key.as_str()))
        {
            self.mistakes
                .push(format!("{name}: unknown table or key {key:?}"));
        }
    }

    /// The path from `--config` or `FAIRLEAD_CONFIG`.
    #[must_use]
    pub fn config_file(&self) -> Option<String> {
        let flag = self.flags.get("config").and_then(|values| values.first());
        flag.or_else(|| self.environment.get("FAIRLEAD_CONFIG"))
            .cloned()
    }

    /// Reads an optional setting.
    pub fn optional<T>(&mut self, key: &'static str) -> Option<T>
    where
        T: FromStr<Err: Display>,
    {
        let (source, text) = self.texts(key, None)?.into_iter().next_back()?;
        self.parse(&source, &text)
    }

    /// Reads a required setting; `hint` describes it in the mistake. An invalid value is one mistake, not two.
    pub fn required<T>(&mut self, key: &'static str, hint: &str) -> Option<T>
    where
        T: FromStr<Err: Display>,
    {
        let before = self.mistakes.len();
        let found = self.optional(key);
        if found.is_none() && self.mistakes.len() == before {
            self.mistake(format!("{key} is missing: {hint}"));
        }
        found
    }

    /// Reads a setting with a default.
    pub fn or<T>(&mut self, key: &'static str, default: T) -> T
    where
        T: FromStr<Err: Display>,
    {
        self.optional(key).unwrap_or(default)
    }

    /// Reads a repeatable setting: repeated flags, commas in the environment, an array in the file.
    pub fn list<T>(&mut self, key: &'static str) -> Vec<T>
    where
        T: FromStr<Err: Display>,
    {
        let texts = self.texts(key, Some(',')).unwrap_or_default();
        texts
            .into_iter()
            .filter_map(|(source, text)| self.parse(&source, &text))
            .collect()
    }

    /// Settings that were read and that a layer has, with their source.
    #[must_use]
    pub fn effective(&self) -> Vec<EffectiveSetting> {
        let mut keys = self.known_keys.clone();
        keys.sort_unstable();
        keys.dedup();
        let found = keys.into_iter().filter_map(|key| {
            let (source, values) = self.layer_of(key)?;
            Some(EffectiveSetting {
                key,
                source,
                values,
            })
        });
        found.collect()
    }

    fn layer_of(&self, key: &'static str) -> Option<(&'static str, Vec<String>)> {
        if let Some(values) = self.flags.get(key) {
            return Some(("flag", values.clone()));
        }
        let variable = format!("FAIRLEAD_{}", key.replace('-', "_").to_uppercase());
        if let Some(value) = self.environment.get(&variable) {
            return Some(("environment", vec![value.clone()]));
        }
        let value = self.file.get(key)?;
        Some(("file", vec![value.to_string()]))
    }

    /// Adds a mistake that only the caller can detect, such as settings that exclude each other.
    pub fn mistake(&mut self, text: impl Into<String>) {
        self.mistakes.push(text.into());
    }

    /// Reports all mistakes together.
    ///
    /// # Errors
    /// `FL-4101`, one line for each mistake.
    pub fn finish(mut self) -> Result<(), Failure> {
        for key in self
            .file
            .keys()
            .filter(|key| !self.known_keys.contains(&key.as_str()))
        {
            self.mistakes.push(format!(
                "{}: [{}] has no key {key:?}",
                self.file_name, self.command
            ));
        }
        if self.mistakes.is_empty() {
            return Ok(());
        }
        // Two parts of a process may read one setting.
        let mut listed: Vec<String> = Vec::new();
        for mistake in self.mistakes {
            if !listed.contains(&mistake) {
                listed.push(mistake);
            }
        }
        Err(Failure::because(
            Code::BadConfig,
            format_args!("\n  {}", listed.join("\n  ")),
        ))
    }

    fn texts(
        &mut self,
        key: &'static str,
        separator: Option<char>,
    ) -> Option<Vec<(String, String)>> {
        self.known_keys.push(key);
        if let Some(values) = self.flags.get(key) {
            return Some(
                values
                    .iter()
                    .map(|value| (format!("--{key}"), value.clone()))
                    .collect(),
            );
        }
        let variable = format!("FAIRLEAD_{}", key.replace('-', "_").to_uppercase());
        if let Some(value) = self.environment.get(&variable) {
            let parts: Vec<&str> = match separator {
                Some(separator) => value.split(separator).map(str::trim).collect(),
                None => vec![value],
            };
            return Some(
                parts
                    .into_iter()
                    .map(|part| (variable.clone(), part.to_owned()))
                    .collect(),
            );
        }
        let source = format!("{}: {key}", self.file_name);
        let scalar = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => Some(value.to_string()),
            _ => None,
        };
        let texts = match self.file.get(key)? {
            Value::Array(values) => values.iter().map(scalar).collect::<Option<Vec<_>>>(),
            value => scalar(value).map(|text| vec![text]),
        };
        if texts.is_none() {
            self.mistakes
                .push(format!("{source} is a text, a number or a list of them"));
        }
        Some(
            texts?
                .into_iter()
                .map(|text| (source.clone(), text))
                .collect(),
        )
    }

    fn parse<T>(&mut self, source: &str, text: &str) -> Option<T>
    where
        T: FromStr<Err: Display>,
    {
        match text.parse() {
            Ok(value) => Some(value),
            // Without the value: it may be a secret in the wrong place.
            Err(error) => {
                self.mistakes.push(format!("{source}: {error}"));
                None
            }
        }
    }
}

/// An address to listen on: `127.0.0.1:8443`, `[::1]:8443`, `localhost:8443`, or `:8443` for all addresses.
///
/// Other names are resolved once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress(pub SocketAddr);

impl FromStr for ListenAddress {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(ListenAddress(address));
        }
        let wrong = || {
            "an address to listen on is HOST:PORT, like 127.0.0.1:8443, localhost:8443 or :8443"
                .to_owned()
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port: u16 = port.parse().map_err(|_| wrong())?;
        match host {
            "" => Ok(ListenAddress((Ipv4Addr::UNSPECIFIED, port).into())),
            "localhost" => Ok(ListenAddress((Ipv4Addr::LOCALHOST, port).into())),
            host if host.contains([':', '[', ' ']) => Err(wrong()),
            host => {
                let found = (host, port).to_socket_addrs();
                let found = found.ok().and_then(|mut all| all.next());
                found
                    .map(ListenAddress)
                    .ok_or_else(|| format!("the name {host} has no address here"))
            }
        }
    }
}

/// A memory size with a unit: `64KiB`, `512MiB`, `2GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemorySize(pub usize);

impl FromStr for MemorySize {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "a size is a number with KiB, MiB or GiB behind it, like 512MiB";
        let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
        let found = units
            .iter()
            .find_map(|&(unit, bits)| Some((text.strip_suffix(unit)?, bits)));
        let (digits, bits) = found.ok_or(wrong)?;
        let number: usize = digits.parse().map_err(|_| wrong)?;
        number.checked_mul(1 << bits).map(MemorySize).ok_or(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(flags: &[(&'static str, &str)], environment: &[(&str, &str)], file: &str) -> Reader {
        let flags = flags
            .iter()
            .map(|&(key, value)| (key.to_owned(), vec![value.to_owned()]));
        let environment = environment
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()));
        let mut reader = Reader::new("server", flags, environment);
        reader.add_file("f.toml", file, &["agent"]);
        reader
    }

    #[test]
    fn flags_win_over_environment_over_file() {
        let file = "[server]\nlisten = \"127.0.0.1:3\"\nadmin = \"127.0.0.1:3\"\ndata = \"file\"\n[agent]\nx = 1";
        let env = [
            ("FAIRLEAD_LISTEN", "127.0.0.1:2"),
            ("FAIRLEAD_ADMIN", "127.0.0.1:2"),
            ("HOME", "/"),
        ];
        let mut reader = reader(&[("listen", "127.0.0.1:1")], &env, file);
        let port = |address: Option<SocketAddr>| address.unwrap().port();
        assert_eq!(port(reader.optional("listen")), 1);
        assert_eq!(port(reader.optional("admin")), 2);
        assert_eq!(reader.or("data", String::new()), "file");
        assert_eq!(reader.or("grace", 7), 7);
        let effective = reader.effective();
        let sources: Vec<_> = effective.iter().map(|it| (it.key, it.source)).collect();
        let expected = [
            ("admin", "environment"),
            ("data", "file"),
            ("listen", "flag"),
        ];
        assert_eq!(sources, expected);
        reader.finish().unwrap();
    }

    #[test]
    fn all_mistakes_are_reported_together() {
        let file = "lost = 1\n[server]\ntypo = 1\nlist = [{}]";
        let mut reader = reader(&[("listen", "nowhere")], &[("FAIRLEAD_ADMIN", "x")], file);
        let _ = reader.optional::<SocketAddr>("listen");
        let _ = reader.optional::<SocketAddr>("admin");
        let _ = reader.list::<String>("list");
        let failure = reader.finish().unwrap_err();
        assert_eq!(failure.code, Code::BadConfig);
        for part in [
            "--listen",
            "FAIRLEAD_ADMIN",
            "\"typo\"",
            "\"lost\"",
            "f.toml: list",
        ] {
            assert!(
                failure.cause.contains(part),
                "{part} is missing in: {failure}"
            );
        }
    }

    #[test]
    fn mistake_of_a_setting_that_two_parts_read_is_reported_once() {
        let mut reader = reader(&[("port", "many")], &[], "");
        for _ in 0..2 {
            let _ = reader.optional::<u16>("port");
        }
        let cause = reader.finish().unwrap_err().cause;
        assert_eq!(cause.matches("--port").count(), 1, "{cause}");
    }

    #[test]
    fn required_setting_is_one_mistake_whether_missing_or_wrong() {
        for (flags, cause) in [
            (&[][..], "port is missing: where to listen"),
            (&[("port", "x")], "--port: invalid digit"),
        ] {
            let mut reader = reader(flags, &[], "");
            assert_eq!(reader.required::<u16>("port", "where to listen"), None);
            let failure = reader.finish().unwrap_err();
            assert!(failure.cause.contains(cause), "{failure}");
            assert_eq!(failure.cause.matches("port").count(), 1, "{failure}");
        }
    }

    #[test]
    fn listen_addresses_have_all_usual_forms() {
        for (text, address) in [
            ("127.0.0.1:8443", "127.0.0.1:8443"),
            ("[::1]:8443", "[::1]:8443"),
            ("localhost:8443", "127.0.0.1:8443"),
            (":8443", "0.0.0.0:8443"),
            (":0", "0.0.0.0:0"),
        ] {
            assert_eq!(
                text.parse(),
                Ok(ListenAddress(address.parse().unwrap())),
                "{text}"
            );
        }
        for bad in ["", "8443", "localhost", ":x", "::1:8443", "a b:1", ":70000"] {
            assert!(bad.parse::<ListenAddress>().is_err(), "{bad}");
        }
    }

    #[test]
    fn lists_come_from_every_layer() {
        let mut from_file = reader(&[], &[], "[server]\nhub = [\"a\", \"b\"]");
        assert_eq!(from_file.list::<String>("hub"), ["a", "b"]);
        let mut from_environment = reader(&[], &[("FAIRLEAD_HUB", "a, b")], "");
        assert_eq!(from_environment.list::<String>("hub"), ["a", "b"]);
    }

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!("512MiB".parse(), Ok(MemorySize(512 << 20)));
        for bad in [
            "",
            "512",
            "MiB",
            "-1KiB",
            "1TiB",
            "1 GiB",
            "99999999999999999999GiB",
        ] {
            assert!(bad.parse::<MemorySize>().is_err(), "{bad}");
        }
    }
}
