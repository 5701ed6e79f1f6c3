//! The one place where the process environment is read.

use std::{collections::BTreeMap, path::PathBuf};

use fairlead_api::{Code, Failure};
use fairlead_dialer::ProxyRules;

/// Variables as they were at start.
#[derive(Clone, Default)]
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    pub(crate) fn of_process() -> Self {
        let text = |(key, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((key.into_string().ok()?, value.into_string().ok()?))
        };
        Environment(std::env::vars_os().filter_map(text).collect())
    }

    #[cfg(test)]
    pub(crate) fn of(variables: &[(&str, &str)]) -> Self {
        Environment(
            variables
                .iter()
                .map(|&(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// A variable that is set and not empty.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0
            .get(key)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// The first of several spellings.
    fn first(&self, keys: &[&str]) -> Option<&str> {
        keys.iter().find_map(|key| self.get(key))
    }

    /// HTTPS_PROXY and NO_PROXY, in either spelling.
    pub(crate) fn proxy_variables(&self) -> (Option<&str>, Option<&str>) {
        (
            self.first(&["HTTPS_PROXY", "https_proxy"]),
            self.first(&["NO_PROXY", "no_proxy"]),
        )
    }

    /// Which way to a hub.
    pub(crate) fn proxy(&self) -> Result<ProxyRules, Failure> {
        let (proxy, exceptions) = self.proxy_variables();
        ProxyRules::parse(proxy, exceptions)
            .map_err(|mistake| Failure::because(Code::BadConfig, mistake))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.0
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
    }

    /// Where logins are remembered: `$XDG_CONFIG_HOME/fairlead`, `~/.config/fairlead`.
    pub(crate) fn config_dir(&self) -> PathBuf {
        self.dir("XDG_CONFIG_HOME", ".config")
    }

    /// Where data is kept that nobody named a folder for: `$XDG_DATA_HOME/fairlead`, `~/.local/share/fairlead`.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir("XDG_DATA_HOME", ".local/share")
    }

    fn dir(&self, variable: &str, below_home: &str) -> PathBuf {
        let base = self.get(variable).map(PathBuf::from);
        base.unwrap_or_else(|| PathBuf::from(self.get("HOME").unwrap_or("/")).join(below_home))
            .join("fairlead")
    }
}
