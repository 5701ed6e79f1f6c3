//! A real Dex, an OpenID Connect provider, and people who sign in through it. The test plays the browser with curl.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use fairlead_testkit::process::{Launch, Process};
use fairlead_testkit::tls::TestCa;
use fairlead_testkit::wait::eventually;
use serde_json::json;

use crate::fleet::{Hub, fairlead};
use crate::kube::Cluster;
use crate::kubectl::{Kubectl, Output};

const STEP_DEADLINE: Duration = Duration::from_secs(30);

/// A running Dex with two people.
#[derive(Debug)]
pub struct Dex {
    folder: tempfile::TempDir,
    url: String,
    program: PathBuf,
    /// Current process; a restart replaces it.
    pub process: Process,
}

impl Dex {
    /// Builds and starts it with additional flags; Jane is in the group `platform`.
    ///
    /// # Errors
    /// It cannot be built, or does not get ready.
    pub async fn start(flags: &[&str]) -> anyhow::Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("dex/build");
        let built = Command::new(script).stderr(Stdio::inherit()).output()?;
        ensure!(built.status.success(), "dex/build failed");
        let program = PathBuf::from(String::from_utf8(built.stdout)?.trim());
        let folder = tempfile::tempdir()?;
        let ca = TestCa::new("dex")?;
        let leaf = ca.leaf(&["127.0.0.1"])?;
        fs::write(folder.path().join("ca.pem"), ca.pem())?;
        fs::write(folder.path().join("cert.pem"), leaf.pem())?;
        fs::write(folder.path().join("key.pem"), leaf.key_pem())?;
        let (process, url) = launch(&program, folder.path(), "127.0.0.1:0", flags).await?;
        let dex = Dex {
            folder,
            url,
            program,
            process,
        };
        dex.set_people(&["platform"])?;
        Ok(dex)
    }

    /// Its URL, which is the issuer's name.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Starts it again at the same address after it has ended, with new keys.
    ///
    /// # Errors
    /// It does not get ready.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        let listen = self.url.trim_start_matches("https://").to_owned();
        (self.process, _) = launch(&self.program, self.folder.path(), &listen, &[]).await?;
        Ok(())
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Jane with these groups, and Guest without any.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_people(&self, groups: &[&str]) -> anyhow::Result<()> {
        self.set_groups(groups, &[])
    }

    /// Jane and Guest with these groups.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_groups(&self, jane: &[&str], guest: &[&str]) -> anyhow::Result<()> {
        let person = |id: &str, name: &str, groups: &[&str]| json!({ "id": id, "name": name, "email": format!("{name}@corp.example"), "verified": true, "password": "secret", "groups": groups });
        let people = json!([person("08a8", "jane", jane), person("08a9", "guest", guest)]);
        // Replaced whole: Dex reads it at each sign-in and refresh.
        let mut draft = tempfile::NamedTempFile::new_in(self.folder.path())?;
        draft.write_all(people.to_string().as_bytes())?;
        draft.persist(self.file("people.json"))?;
        Ok(())
    }

    /// Configuration file of a hub that trusts this Dex.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn issuers_file(&self) -> anyhow::Result<String> {
        self.issuers_file_with(&[])
    }

    /// As [`Dex::issuers_file`], with further rules for roles.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn issuers_file_with(&self, rules: &[&str]) -> anyhow::Result<String> {
        let rules: String = rules.iter().map(|rule| format!(",\n{rule}")).collect();
        let issuers = format!(
            "[issuer.corp]\nurl = \"{}\"\naudience = [\"fairlead\"]\nca_file = \"{}\"\nclient_id = \"fairlead\"\n\
             scopes = [\"openid\", \"email\", \"groups\", \"offline_access\"]\ndevice = true\n\
             redirect_host = \"localhost\"\nname_claim = \"email\"\nexchange = true\nroles = [\n\
             {{ claim = \"groups\", value = \"platform\", role = \"admin\" }},\n\
             {{ claim = \"groups\", value = \"readers\", role = \"viewer\" }}{rules} ]\n",
            self.url,
            self.file("ca.pem"),
        );
        let file = self.file("issuers.toml");
        fs::write(&file, issuers)?;
        Ok(file)
    }

    /// Starts a hub that trusts this Dex.
    ///
    /// # Errors
    /// It does not get ready.
    pub async fn hub(&self) -> anyhow::Result<Hub> {
        let hub = Hub::start_server(&["--issuers", &self.issuers_file()?]).await?;
        hub.log_in().await?;
        Ok(hub)
    }

    /// Requests a page with curl, and follows redirects; returns the page and its address.
    ///
    /// # Errors
    /// The request fails.
    pub async fn browse(
        &self,
        url: &str,
        form: &[(&str, &str)],
    ) -> anyhow::Result<(String, String)> {
        let mut command = tokio::process::Command::new("curl");
        command.args(["-sS", "-L", "--cacert", &self.file("ca.pem")]);
        command.args(["-w", "\n%{url_effective}", "--max-time", "20"]);
        for (name, value) in form {
            command.args(["--data-urlencode", &format!("{name}={value}")]);
        }
        let output = command.arg(url).output().await.context("curl")?;
        let text = String::from_utf8(output.stdout)?;
        let error = String::from_utf8_lossy(&output.stderr);
        let (page, last) = text.rsplit_once('\n').context("no page")?;
        ensure!(output.status.success(), "{url}: {error}\n{page}");
        Ok((page.to_owned(), last.to_owned()))
    }

    /// Enters name and password where the address of the authorization leads; returns the last page.
    ///
    /// # Errors
    /// There is no login form.
    pub async fn enter(
        &self,
        url: &str,
        form: &[(&str, &str)],
        name: &str,
    ) -> anyhow::Result<String> {
        let (_, login) = self.browse(url, form).await?;
        ensure!(login.contains("/login"), "no login form at {login}");
        let person = [("login", name), ("password", "secret")];
        Ok(self.browse(&login, &person).await?.0)
    }
}

async fn launch(
    program: &Path,
    folder: &Path,
    listen: &str,
    flags: &[&str],
) -> anyhow::Result<(Process, String)> {
    let file = |name: &str| folder.join(name).display().to_string();
    let (cert, key, people) = (file("cert.pem"), file("key.pem"), file("people.json"));
    let process = Launch::new(program)
        .args([
            "-listen", listen, "-cert", &cert, "-key", &key, "-people", &people,
        ])
        .args(flags)
        .spawn(folder.join("dex.log"))?;
    let url = eventually(STEP_DEADLINE, "dex listens", async || {
        let log = process.own_log().ok()?;
        let line = log.lines().find(|line| line.starts_with("https://"))?;
        Some(line.to_owned())
    })
    .await?;
    Ok((process, url))
}

/// A person's machine: a home folder without any login.
#[derive(Debug)]
pub struct Person {
    home: tempfile::TempDir,
    hub_ca: String,
}

impl Person {
    /// A person who trusts this hub.
    ///
    /// # Errors
    /// No folder can be made.
    pub fn new(hub: &Hub) -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        let hub_ca = hub.data().join("front-ca.pem").display().to_string();
        Ok(Person { home, hub_ca })
    }

    /// Home folder.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// File with the CA of the hub.
    #[must_use]
    pub fn hub_ca(&self) -> &str {
        &self.hub_ca
    }

    /// Writes a kubeconfig for a cluster; kubectl gets its tokens from the exec plugin.
    ///
    /// # Errors
    /// The person is not signed in.
    pub async fn kubectl(&self, cluster: &Cluster, name: &str) -> anyhow::Result<Kubectl> {
        let config = self.home.path().join("fl.yaml").display().to_string();
        self.run(&["kubeconfig", "--cluster", name, "--output", &config])
            .await?
            .success()?;
        let text = fs::read_to_string(&config)?;
        ensure!(text.contains("exec:") && !text.contains("token:"), "{text}");
        // kubectl finds the plugin by its name.
        let mut path = Vec::new();
        for program in [Launch::fairlead()?.program(), cluster.kubectl().program()] {
            let folder = program.parent().context("no folder")?;
            path.push(folder.display().to_string());
        }
        let path = format!("{}:/usr/bin:/bin", path.join(":"));
        let kubectl = cluster.kubectl().kubeconfig(&config);
        Ok(kubectl.env("HOME", self.home.path()).env("PATH", &path))
    }

    /// The program `fairlead` under test, for its use as a plugin.
    ///
    /// # Errors
    /// It was not built.
    pub fn program(&self) -> anyhow::Result<PathBuf> {
        Ok(Launch::fairlead()?.program().to_owned())
    }

    /// Runs `fairlead ARGS`.
    ///
    /// # Errors
    /// It cannot be started, or does not end in time.
    pub async fn run(&self, args: &[&str]) -> anyhow::Result<Output> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        fairlead(self.home.path(), &args, &[]).await
    }

    /// Begins a login; the second value is the first address in its messages.
    ///
    /// # Errors
    /// It prints no address.
    pub async fn begin(&self, hub: &Hub, flags: &[&str]) -> anyhow::Result<(Process, String)> {
        let log = self.home.path().join("login.log");
        // A log is continued; the address of an earlier login must not be found.
        let _ = fs::remove_file(&log);
        let process = Launch::fairlead()?
            .env("HOME", self.home.path())
            .args(["login", &hub.ready().url, "--ca-file", &self.hub_ca])
            .args(flags)
            .spawn(log)?;
        let url = eventually(STEP_DEADLINE, "the address", async || {
            let log = process.log().ok()?;
            let mut words = log.split_whitespace();
            words
                .find(|it| it.starts_with("https://"))
                .map(str::to_owned)
        })
        .await?;
        Ok((process, url))
    }

    /// Signs in with the browser flow; returns the outcome's text.
    ///
    /// # Errors
    /// The flow does not end.
    pub async fn sign_in(&self, dex: &Dex, hub: &Hub, name: &str) -> anyhow::Result<String> {
        let (mut login, url) = self.begin(hub, &["--no-browser"]).await?;
        let page = dex.enter(&url, &[], name).await?;
        ensure!(page.contains("Return to the terminal"), "{page}");
        ended(&mut login).await
    }

    /// Runs the client with client-go on the kubeconfig that [`Person::kubectl`] has written; returns its output.
    ///
    /// # Errors
    /// It cannot be built, or fails.
    pub async fn client_go(&self, args: &[&str]) -> anyhow::Result<String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("client-go/build");
        let built = Command::new(script).stderr(Stdio::inherit()).output()?;
        ensure!(built.status.success(), "client-go/build failed");
        let launch = Launch::fairlead()?;
        let plugin = launch.program().parent().context("no folder")?;
        let output = tokio::process::Command::new(String::from_utf8(built.stdout)?.trim())
            .args(args)
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", format!("{}:/usr/bin:/bin", plugin.display()))
            .env("KUBECONFIG", self.home.path().join("fl.yaml"))
            .output()
            .await?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "client-go: {error}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// File of the stored sign-in, and its text.
    ///
    /// # Errors
    /// There is none.
    pub fn stored(&self) -> anyhow::Result<(PathBuf, String)> {
        let folder = self.home.path().join(".config/fairlead/sign-ins");
        let mut files = fs::read_dir(folder)?
            .filter_map(Result::ok)
            .map(|it| it.path());
        let file = files.find(|it| it.extension().is_some_and(|it| it == "toml"));
        let file = file.context("no stored sign-in")?;
        let text = fs::read_to_string(&file)?;
        Ok((file, text))
    }
}

/// Waits for the end of a login; returns its messages.
///
/// # Errors
/// It does not end in time.
pub async fn ended(process: &mut Process) -> anyhow::Result<String> {
    eventually(STEP_DEADLINE, "the login ends", async || {
        process.ended().ok()?.map(|_| ())
    })
    .await?;
    process.log()
}
