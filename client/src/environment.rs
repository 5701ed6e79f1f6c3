//! Environment variables. No other module reads the process environment.

use std::{collections::BTreeMap, path::PathBuf};

use fairlead_api::{Code, Failure};
use fairlead_dialer::ProxyRules;

/// Variables at the start of the process.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Variables of this process; those that are not UTF-8 are omitted.
    #[must_use]
    pub fn of_process() -> Self {
        let text = |(key, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((key.into_string().ok()?, value.into_string().ok()?))
        };
        Environment(std::env::vars_os().filter_map(text).collect())
    }

    /// Environment with these variables only.
    #[must_use]
    pub fn of(variables: &[(&str, &str)]) -> Self {
        Environment(
            variables
                .iter()
                .map(|&(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// Value of a variable that is set and not empty.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .get(key)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// First variable that is set, of several spellings.
    fn first(&self, keys: &[&str]) -> Option<&str> {
        keys.iter().find_map(|key| self.get(key))
    }

    /// Values of HTTPS_PROXY and NO_PROXY, in upper or lower case.
    #[must_use]
    pub fn proxy_variables(&self) -> (Option<&str>, Option<&str>) {
        (
            self.first(&["HTTPS_PROXY", "https_proxy"]),
            self.first(&["NO_PROXY", "no_proxy"]),
        )
    }

    /// Proxy rules for connections to a hub.
    ///
    /// # Errors
    /// `FL-4101` if a variable is invalid.
    pub fn proxy(&self) -> Result<ProxyRules, Failure> {
        let (proxy, exceptions) = self.proxy_variables();
        ProxyRules::parse(proxy, exceptions)
            .map_err(|mistake| Failure::because(Code::BadConfig, mistake))
    }

    /// All variables, by name.
    pub fn all(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.0
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
    }

    /// Folder of the logins: `$XDG_CONFIG_HOME/fairlead`, else `~/.config/fairlead`.
    ///
    /// # Errors
    /// `FL-4101` if neither variable is set.
    pub fn config_dir(&self) -> Result<PathBuf, Failure> {
        self.dir("XDG_CONFIG_HOME", ".config")
    }

    /// Default folder for data: `$XDG_DATA_HOME/fairlead`, else `~/.local/share/fairlead`.
    ///
    /// # Errors
    /// `FL-4101` if neither variable is set.
    pub fn data_dir(&self) -> Result<PathBuf, Failure> {
        self.dir("XDG_DATA_HOME", ".local/share")
    }

    fn dir(&self, variable: &str, below_home: &str) -> Result<PathBuf, Failure> {
        let base = self.get(variable).map(PathBuf::from);
        let home = || Some(PathBuf::from(self.get("HOME")?).join(below_home));
        let base = base.or_else(home).ok_or_else(|| {
            let cause = format!("neither HOME nor {variable} is set, so there is no folder to use");
            Failure::with_cause(Code::BadConfig, cause).next(format!(
                "Set HOME or {variable}, or name the folder where there is a flag for it."
            ))
        })?;
        Ok(base.join("fairlead"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_below_home() {
        let home = Environment::of(&[("HOME", "/home/ann")]);
        let config = home.config_dir().unwrap();
        assert_eq!(config, PathBuf::from("/home/ann/.config/fairlead"));
        let data = Environment::of(&[("XDG_DATA_HOME", "/data"), ("HOME", "")]);
        assert_eq!(data.data_dir().unwrap(), PathBuf::from("/data/fairlead"));
        let failure = data.config_dir().unwrap_err();
        assert_eq!(failure.code, Code::BadConfig);
        assert!(failure.cause.contains("HOME"), "{failure}");
    }
}
