//! Deliveries that the hub desires.

use tokio::sync::watch;

/// ETag of the desired deliveries, as the last probe named it.
pub(crate) struct DesiredDeliveries {
    wanted: watch::Sender<Option<String>>,
}

/// Maximum length of an ETag in bytes; longer ones are ignored.
const MAX_ETAG_BYTES: usize = 128;

impl Default for DesiredDeliveries {
    fn default() -> Self {
        Self {
            wanted: watch::Sender::new(None),
        }
    }
}

impl DesiredDeliveries {
    /// Follows the ETag; `None` before the first probe.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<String>> {
        self.wanted.subscribe()
    }

    /// Notes the ETag of a probe.
    pub(crate) fn set(&self, etag: &str) {
        let etag = etag.trim_matches('"');
        if etag.is_empty() || etag.len() > MAX_ETAG_BYTES {
            return;
        }
        self.wanted.send_if_modified(|wanted| {
            let is_new = wanted.as_deref() != Some(etag);
            if is_new {
                *wanted = Some(etag.to_owned());
            }
            is_new
        });
    }
}
