//! Settings of the InfluxDB that receives facts.

use std::path::PathBuf;

use fairlead_api::Failure;
use fairlead_client::files;
use fairlead_facts::{InfluxConfig, InfluxLogin};
use fairlead_runtime::config::{MemorySize, Reader};

use crate::settings::read_secret;

/// Default size of the spool for an unavailable InfluxDB, in bytes.
const DEFAULT_SPOOL_BYTES: usize = 256 << 20;

/// Reads the settings; `None` without `influx-url`.
pub(super) fn read(reader: &mut Reader) -> Option<InfluxConfig> {
    let url = reader.optional("influx-url");
    let database = reader.or("influx-database", "fairlead".to_owned());
    let user: Option<String> = reader.optional("influx-user");
    let password = read_secret(reader, "influx-password", "influx-password-file");
    let token = read_secret(reader, "influx-token", "influx-token-file");
    let login = match (user, password, token) {
        (None, None, None) => InfluxLogin::Nobody,
        (Some(user), Some(password), None) => InfluxLogin::Password { user, password },
        (None, None, Some(token)) => InfluxLogin::Token(token),
        _ => {
            reader.mistake("InfluxDB takes influx-user with influx-password-file, or influx-token-file, and not both");
            InfluxLogin::Nobody
        }
    };
    let ca: Option<PathBuf> = reader.optional("influx-ca-file");
    let ca_pem = ca.and_then(|file| match files::read(&file) {
        Ok(pem) => Some(pem),
        Err(error) => {
            reader.mistake(Failure::from(error).cause);
            None
        }
    });
    let spool = reader.or("influx-spool", MemorySize(DEFAULT_SPOOL_BYTES)).0;
    let answers = reader.or("influx-query", false);
    if answers && url.is_none() {
        reader.mistake("influx-query needs influx-url");
    }
    Some(InfluxConfig {
        url: url?,
        database,
        login,
        ca_pem,
        spool: u64::try_from(spool).unwrap_or(u64::MAX),
        answers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_from(settings: &[(&str, &str)]) -> (Option<InfluxConfig>, Option<String>) {
        let environment = settings.iter().map(|(key, value)| {
            let key = key.replace('-', "_").to_uppercase();
            (format!("FAIRLEAD_INFLUX_{key}"), (*value).to_owned())
        });
        let mut reader = Reader::new("server", [], environment);
        let config = read(&mut reader);
        let mistakes = reader.finish().err();
        (config, mistakes.map(|failure| failure.cause))
    }

    #[test]
    fn url_alone_is_sufficient() {
        let (none, mistakes) = read_from(&[]);
        assert!(none.is_none() && mistakes.is_none());
        let (config, mistakes) = read_from(&[("url", "http://influx:8086")]);
        let config = config.unwrap();
        assert_eq!(mistakes, None);
        assert_eq!(config.database, "fairlead");
        assert!(matches!(config.login, InfluxLogin::Nobody));
        assert_eq!((config.spool, config.answers), (256 << 20, false));
    }

    #[test]
    fn conflicting_settings_are_reported_without_secrets() {
        for settings in [
            &[("url", "http://me:secret@influx")][..],
            &[("url", "http://influx"), ("password", "secret")],
            &[("url", "http://influx"), ("user", "me")],
            &[
                ("url", "http://influx"),
                ("user", "me"),
                ("password", "x"),
                ("token", "secret"),
            ],
            &[("query", "true")],
        ] {
            let (_, mistakes) = read_from(settings);
            let mistakes = mistakes.unwrap();
            assert!(
                mistakes.to_lowercase().contains("influx") && !mistakes.contains("secret"),
                "{mistakes}"
            );
        }
        let all = [
            ("url", "https://influx"),
            ("user", "me"),
            ("password", "secret"),
            ("query", "true"),
        ];
        let (config, mistakes) = read_from(&all);
        assert_eq!(mistakes, None);
        let config = config.unwrap();
        assert!(config.answers && !format!("{config:?}").contains("secret"));
    }
}
