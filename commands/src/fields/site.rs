//! Flags for the network of sites, of a cluster or of a tenant's template.

use fairlead_api::Failure;
use fairlead_client::files;
use serde_json::Value;

use super::Fields;

/// Heading in the help. It is set for each flag, because the heading of a group would also hold for the flags after it.
const HEADING: &str = "Network of the site";

/// Flags for the network of sites.
#[derive(Default, clap::Args)]
pub(crate) struct SiteFields {
    /// Proxy on the path to the hub, without credentials, like http://proxy:3128; none against the tenant's; "" for no setting
    #[arg(long, help_heading = HEADING, value_name = "URL")]
    pub(crate) site_proxy: Option<String>,
    /// Secret in the agent's namespace with the proxy's URL in HTTPS_PROXY, for a proxy with credentials; "" for no setting
    #[arg(long, help_heading = HEADING, value_name = "NAME")]
    pub(crate) site_proxy_secret: Option<String>,
    /// Hosts and networks without the proxy, separated by commas; "" for no setting
    #[arg(long, help_heading = HEADING, value_name = "HOST|NETWORK,...")]
    pub(crate) site_no_proxy: Option<String>,
    /// File with further CAs for the hub's public certificate, PEM; "" for no setting
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    pub(crate) site_ca_file: Option<String>,
    /// Further addresses of the hub, separated by commas; "" for no setting
    #[arg(long, help_heading = HEADING, value_name = "URL,...")]
    pub(crate) site_hubs: Option<String>,
}

/// Writes the given flags below `at`. An empty value removes a setting.
///
/// # Errors
/// The file cannot be read.
pub(super) fn put(fields: &mut Fields, at: &[&str], given: SiteFields) -> Result<(), Failure> {
    let mut put = |path: &[&str], value: Option<Value>| {
        fields.put(&[at, &["site"], path].concat(), value);
    };
    let text = |given: Option<String>| {
        given.map(|text| match text.is_empty() {
            true => Value::Null,
            false => text.into(),
        })
    };
    put(&["proxy", "url"], text(given.site_proxy));
    put(&["proxy", "secret"], text(given.site_proxy_secret));
    put(&["proxy", "noProxy"], text(given.site_no_proxy));
    let ca = given.site_ca_file.map(|file| match file.as_str() {
        "" => Ok(Value::Null),
        file => files::read(file.as_ref()).map(Value::from),
    });
    put(&["ca"], ca.transpose()?);
    let hubs = given.site_hubs.map(|list| match list.is_empty() {
        true => Value::Null,
        false => list.split(',').map(str::trim).collect(),
    });
    put(&["hubs"], hubs);
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Args {
        #[command(flatten)]
        site: SiteFields,
    }

    fn fields(at: &[&str], flags: &[&str]) -> Result<Value, Failure> {
        let args = Args::try_parse_from([&["x"], flags].concat()).unwrap();
        let mut fields = Fields::default();
        put(&mut fields, at, args.site)?;
        Ok(Value::Object(fields.0))
    }

    #[test]
    fn flags_become_settings_of_the_site() {
        assert_eq!(fields(&[], &[]).unwrap(), json!({}));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "PEM").unwrap();
        let path = file.path().display().to_string();
        let flags = [
            "--site-proxy",
            "http://proxy:3128",
            "--site-no-proxy",
            "",
            "--site-ca-file",
            &path,
            "--site-hubs",
            "https://two.example, https://three.example",
        ];
        let site = json!({
            "proxy": { "url": "http://proxy:3128", "noProxy": null },
            "ca": "PEM",
            "hubs": ["https://two.example", "https://three.example"],
        });
        assert_eq!(fields(&[], &flags).unwrap(), json!({ "site": site }));
        let of_tenant = json!({ "clusterTemplate": { "site": site } });
        assert_eq!(fields(&["clusterTemplate"], &flags).unwrap(), of_tenant);
        let removed = fields(&[], &["--site-ca-file", "", "--site-hubs", ""]);
        let nothing = json!({ "site": { "ca": null, "hubs": null } });
        assert_eq!(removed.unwrap(), nothing);
        assert!(fields(&[], &["--site-ca-file", "/nowhere/ca.pem"]).is_err());
    }
}
