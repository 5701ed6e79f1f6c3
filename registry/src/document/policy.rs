//! Fields beyond Lieutenant's documents: policies, and a cluster's API server.

use fairlead_api::HubUrl;
use fairlead_routes::{InvalidValue, invalid};
use fairlead_store::model::{CreationPolicy, Credentials, DeletionPolicy, KubeApi};

use crate::document::fields::Fields;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Policies {
    pub(crate) kube_api: Option<KubeApi>,
    pub(crate) creation: Option<CreationPolicy>,
    pub(crate) deletion: Option<DeletionPolicy>,
    pub(crate) delete_protection: Option<bool>,
}

impl Policies {
    /// Parses the policies.
    ///
    /// # Errors
    /// `FL-4109`
    pub(super) fn read(given: &mut Fields) -> Result<Self, InvalidValue> {
        Ok(Policies {
            kube_api: given.object("kubeApi")?.map(kube_api).transpose()?,
            creation: given.word("creationPolicy", "\"Create\" or \"Adopt\"")?,
            deletion: given.word("deletionPolicy", "\"Delete\", \"Retain\" or \"Archive\"")?,
            delete_protection: given.boolean("deleteProtection")?,
        })
    }
}

fn kube_api(mut given: Fields) -> Result<KubeApi, InvalidValue> {
    let endpoint = given.text("endpoint")?;
    let endpoint = endpoint.ok_or_else(|| invalid("property \"kubeApi.endpoint\" is missing"))?;
    let url: Result<HubUrl, _> = endpoint.parse();
    if url.is_err() {
        return Err(invalid("kubeApi.endpoint: expected https://host[:port]"));
    }
    let credentials = reference(&mut given, "credentials", "kubeApi.")?;
    given.reject_rest()?;
    Ok(KubeApi {
        endpoint,
        credentials,
    })
}

/// A reference to stored credentials; `at` is the path of the field.
///
/// # Errors
/// `FL-4109`
pub(super) fn reference(
    given: &mut Fields,
    field: &str,
    at: &str,
) -> Result<Option<Credentials>, InvalidValue> {
    let Some(mut reference) = given.object(field)? else {
        return Ok(None);
    };
    let name = reference.text("name")?;
    let missing = || invalid(format_args!("property \"{at}{field}.name\" is missing"));
    let name = name.ok_or_else(missing)?;
    let namespace = reference.text("namespace")?;
    // Rejects credential values under any name.
    reference.reject_rest()?;
    Ok(Some(Credentials { name, namespace }))
}
