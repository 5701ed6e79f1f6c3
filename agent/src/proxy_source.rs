//! Proxy to the hub: from the environment, or from a file that is read again for each dial.

use std::path::PathBuf;

use fairlead_api::{Code, Failure, HubUrl};
use fairlead_dialer::ProxyRules;

/// Limit of the file, in bytes.
const MAX_PROXY_FILE_BYTES: usize = 4096;
const CHECK_PROXY_FILE: &str = "Check the path of `--proxy-file` (FAIRLEAD_PROXY_FILE), and that it has one URL like http://user:password@host:port.";

/// Source of the proxy rules.
#[derive(Debug, Clone)]
pub(crate) enum ProxySource {
    Fixed(ProxyRules),
    /// File with the URL of the proxy, such as a mounted Secret.
    File {
        path: PathBuf,
        no_proxy: Option<String>,
    },
}

impl ProxySource {
    /// Source of these settings. A file replaces HTTPS_PROXY.
    ///
    /// # Errors
    ///
    /// `FL-4101` for a mistake in HTTPS_PROXY. A file is not read yet.
    pub(crate) fn new(
        file: Option<PathBuf>,
        https_proxy: Option<&str>,
        no_proxy: Option<String>,
    ) -> Result<Self, Failure> {
        if let Some(path) = file {
            return Ok(ProxySource::File { path, no_proxy });
        }
        let rules = ProxyRules::parse(https_proxy, no_proxy.as_deref());
        let rules = rules.map_err(|mistake| Failure::because(Code::BadConfig, mistake))?;
        Ok(ProxySource::Fixed(rules))
    }

    /// Rules for the next dial.
    ///
    /// # Errors
    ///
    /// `FL-4119` if the file cannot be read, `FL-4101` if it has no URL of a proxy.
    pub(crate) async fn rules(&self) -> Result<ProxyRules, Failure> {
        let (path, no_proxy) = match self {
            ProxySource::Fixed(rules) => return Ok(rules.clone()),
            ProxySource::File { path, no_proxy } => (path, no_proxy),
        };
        let text = tokio::fs::read_to_string(path).await.map_err(|error| {
            let detail = format_args!("{}: {error}", path.display());
            Failure::because(Code::CannotRead, detail).next(CHECK_PROXY_FILE)
        })?;
        let bad = |detail: &str| {
            let detail = format_args!("{}: {detail}", path.display());
            Failure::because(Code::BadConfig, detail).next(CHECK_PROXY_FILE)
        };
        let url = text.trim();
        // Without a proxy a packet would go beside it.
        if url.is_empty() {
            return Err(bad("it is empty"));
        }
        if url.len() > MAX_PROXY_FILE_BYTES || url.lines().count() > 1 {
            return Err(bad("more than one line"));
        }
        ProxyRules::parse(Some(url), no_proxy.as_deref()).map_err(|mistake| bad(&mistake))
    }

    /// Describes the path to this hub, without credentials.
    pub(crate) async fn explain(&self, hub: &HubUrl) -> String {
        match self.rules().await {
            Ok(rules) => match self {
                ProxySource::Fixed(_) => rules.explain(hub),
                ProxySource::File { path, .. } => {
                    let place = path.display().to_string();
                    rules.explain(hub).replace("HTTPS_PROXY", &place)
                }
            },
            Err(failure) => failure.cause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn file_is_read_for_each_dial() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("proxy");
        let source = ProxySource::new(Some(path.clone()), Some("http://old:1"), None).unwrap();
        let hub: HubUrl = "https://hub.example".parse().unwrap();
        assert_eq!(source.rules().await.unwrap_err().code, Code::CannotRead);
        for place in ["http://one:3128", "https://two:8443"] {
            let url = place.replace("//", "//user:secret@");
            std::fs::write(&path, format!("{url}\n")).unwrap();
            let shown = source.explain(&hub).await;
            let expected = format!("through {place}, from {}", path.display());
            assert_eq!(shown, expected);
        }
        for wrong in ["", "ftp://user:secret@host", "http://a:1\nhttp://b:2"] {
            std::fs::write(&path, wrong).unwrap();
            let failure = source.rules().await.unwrap_err();
            assert_eq!(failure.code, Code::BadConfig);
            assert!(!failure.cause.contains("secret"), "{failure}");
        }
    }
}
