//! `kubernetesVersion`: the API server's answer at `/version`. `minor` keeps its digits only: some servers
//! return `20+`.

use serde_json::{Map, Value};

use crate::facts::{
    bounded::short,
    collector::{CollectedFact, Collector},
    source::CollectorSource,
};

#[derive(Default)]
pub(super) struct ServerVersion(Map<String, Value>);

impl Collector for ServerVersion {
    fn sources(&self) -> Vec<CollectorSource> {
        vec![CollectorSource::object("/version", "get /version")]
    }

    fn take(&mut self, _: usize, object: &[u8]) -> Result<(), serde_json::Error> {
        let version: Map<String, Value> = serde_json::from_slice(object)?;
        for (key, value) in version.into_iter().take(32) {
            let Value::String(text) = value else { continue };
            let text = match key.as_str() {
                "major" | "minor" => digits(&text),
                _ => short(&text),
            };
            self.0.insert(short(&key), text.into());
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<CollectedFact> {
        match self.0.is_empty() {
            true => Vec::new(),
            false => vec![CollectedFact::whole("kubernetesVersion", self.0)],
        }
    }
}

/// Leading digits.
fn digits(text: &str) -> String {
    text.chars().take_while(char::is_ascii_digit).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::facts::collectors::facts_of;

    #[test]
    fn plus_sign_of_the_minor_is_dropped() {
        let version =
            json!({ "major": "1", "minor": "20+", "gitVersion": "v1.20.4-eks-1", "odd": 7 });
        assert_eq!(
            facts_of(Box::new(ServerVersion::default()), &[(0, version)]),
            json!({ "kubernetesVersion": { "major": "1", "minor": "20", "gitVersion": "v1.20.4-eks-1" } })
        );
        assert_eq!(facts_of(Box::new(ServerVersion::default()), &[]), json!({}));
    }
}
