//! A hub without a front in a temporary directory, with a clock of the test.

use fairlead_api::resources::{CreateToken, Role};
use fairlead_control::{AccessSettings, Config, Control, EnrollSettings, repositories::GitServers};
use fairlead_registry::RegistrySettings;
use fairlead_store::Clock;
use fairlead_testkit::wall_clock::WallClock;
use secrecy::SecretString;
use tempfile::TempDir;
use time::{Duration, OffsetDateTime};

/// An open hub. Nothing of its background work runs.
pub(crate) struct OpenHub {
    pub(crate) control: Control,
    pub(crate) dir: TempDir,
    clock: WallClock,
}

impl OpenHub {
    /// Opens a new hub at this time with a changed configuration.
    pub(crate) async fn with(start: OffsetDateTime, change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(&dir);
        change(&mut config);
        Self::open(config, dir, WallClock::at(start)).await
    }

    /// Opens a hub with this configuration; its directory is the caller's.
    pub(crate) async fn opened(config: Config, start: OffsetDateTime) -> Self {
        let unused = tempfile::tempdir().unwrap();
        Self::open(config, unused, WallClock::at(start)).await
    }

    async fn open(config: Config, dir: TempDir, clock: WallClock) -> Self {
        let control = Control::open_at(config, Clock::new(clock.reader())).await;
        OpenHub {
            control: control.unwrap(),
            dir,
            clock,
        }
    }

    /// Closes the hub and returns its directory.
    pub(crate) async fn close(self) -> TempDir {
        self.control.close().await;
        self.dir
    }

    /// Closes the hub and opens it again in the same directory, with the usual configuration.
    pub(crate) async fn restart(self) -> Self {
        let clock = self.clock.clone();
        let dir = self.close().await;
        Self::open(config(&dir), dir, clock).await
    }

    pub(crate) fn now(&self) -> OffsetDateTime {
        self.clock.now()
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Makes an API token.
    pub(crate) async fn mint(
        &self,
        name: &str,
        role: Role,
        tenant: Option<&str>,
        cluster: Option<&str>,
    ) -> SecretString {
        let create = CreateToken {
            name: name.to_owned(),
            role,
            tenant: tenant.map(|it| it.parse().unwrap()),
            cluster: cluster.map(|it| it.parse().unwrap()),
            ttl_seconds: None,
        };
        self.control.mint_token(create).await.unwrap().token
    }
}

/// The usual configuration.
pub(crate) fn config(dir: &TempDir) -> Config {
    Config {
        data_dir: dir.path().join("data"),
        public_url: "https://hub.example:8443".parse().unwrap(),
        hub_address: "https://127.0.0.1:8443".parse().unwrap(),
        agent_address: Default::default(),
        install_base: None,
        cluster_domain: "clusters.hub.example".to_owned(),
        front_files: None,
        store: None,
        store_key: None,
        influx: None,
        accept_data_loss: false,
        issuers: None,
        registry: RegistrySettings {
            metric_facts: vec!["distribution".to_owned()],
            ..RegistrySettings::default()
        },
        access: AccessSettings::default(),
        enroll: EnrollSettings {
            adoption: None,
            renew_grace: std::time::Duration::from_hours(48),
            version: "0.1.0".to_owned(),
            image: "registry.example/fairlead:0.1.0".to_owned(),
            steward_image: "registry.example/steward:1".to_owned(),
        },
        delivery_credentials: None,
        program_proxy: Default::default(),
        helm: None,
        git_proxy: Default::default(),
        services: fairlead_control::ServiceSettings {
            ports: Some(Default::default()),
            domain: Some("apps.example".to_owned()),
        },
        git_servers: GitServers::default(),
        vault: None,
        gitops_manifests: None,
    }
}
