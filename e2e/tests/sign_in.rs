//! Sign-in of people through a real Dex: browser, device, exec plugin of kubectl, refresh, rotation of keys, outage.
//! The test plays the browser with curl.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Launch, Output, Process, Site, eventually, fleet::fairlead};
use fairlead_testkit::tls::TestCa;
use serde_json::{Value, json};

const STEP_DEADLINE: Duration = Duration::from_secs(30);

/// A running Dex with two people.
struct Dex {
    folder: tempfile::TempDir,
    url: String,
    program: PathBuf,
    process: Process,
}

impl Dex {
    async fn start(flags: &[&str]) -> anyhow::Result<Self> {
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

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Jane with these groups, and Guest without any.
    fn set_people(&self, groups: &[&str]) -> anyhow::Result<()> {
        let person = |id: &str, name: &str, groups: &[&str]| json!({ "id": id, "name": name, "email": format!("{name}@corp.example"), "verified": true, "password": "secret", "groups": groups });
        let people = json!([person("08a8", "jane", groups), person("08a9", "guest", &[])]);
        Ok(fs::write(self.file("people.json"), people.to_string())?)
    }

    /// A hub that trusts this Dex.
    async fn hub(&self) -> anyhow::Result<Hub> {
        let issuers = format!(
            "[issuer.corp]\nurl = \"{}\"\naudience = [\"fairlead\"]\nca_file = \"{}\"\nclient_id = \"fairlead\"\n\
             scopes = [\"openid\", \"email\", \"groups\", \"offline_access\"]\ndevice = true\n\
             redirect_host = \"localhost\"\nname_claim = \"email\"\nroles = [\n\
             {{ claim = \"groups\", value = \"platform\", role = \"admin\" }},\n\
             {{ claim = \"groups\", value = \"readers\", role = \"viewer\" }} ]\n",
            self.url,
            self.file("ca.pem"),
        );
        let file = self.file("issuers.toml");
        fs::write(&file, issuers)?;
        let hub = Hub::start_server(&["--issuers", &file]).await?;
        hub.log_in().await?;
        Ok(hub)
    }

    /// Requests a page with curl, and follows redirects.
    async fn browse(&self, url: &str, form: &[(&str, &str)]) -> anyhow::Result<(String, String)> {
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

    /// Enters name and password where the address of the authorization leads.
    async fn enter(&self, url: &str, form: &[(&str, &str)], name: &str) -> anyhow::Result<String> {
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
        let log = process.log().ok()?;
        let line = log.lines().find(|line| line.starts_with("https://"))?;
        Some(line.to_owned())
    })
    .await?;
    Ok((process, url))
}

/// A person's machine: a home folder without any login.
struct Person {
    home: tempfile::TempDir,
    hub_ca: String,
}

impl Person {
    fn new(hub: &Hub) -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        let hub_ca = hub.data().join("front-ca.pem").display().to_string();
        Ok(Person { home, hub_ca })
    }

    async fn run(&self, args: &[&str]) -> anyhow::Result<Output> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        fairlead(self.home.path(), &args, &[]).await
    }

    /// Begins a login; its second value is the first address in its messages.
    async fn begin(&self, hub: &Hub, flags: &[&str]) -> anyhow::Result<(Process, String)> {
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

    /// Signs in with the browser flow; the outcome's text.
    async fn sign_in(&self, dex: &Dex, hub: &Hub, name: &str) -> anyhow::Result<String> {
        let (mut login, url) = self.begin(hub, &["--no-browser"]).await?;
        let page = dex.enter(&url, &[], name).await?;
        ensure!(page.contains("Return to the terminal"), "{page}");
        ended(&mut login).await
    }

    fn stored(&self) -> anyhow::Result<(PathBuf, String)> {
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

async fn ended(process: &mut Process) -> anyhow::Result<String> {
    eventually(STEP_DEADLINE, "the login ends", async || {
        process.ended().ok()?.map(|_| ())
    })
    .await?;
    process.log()
}

#[tokio::test]
async fn browser_sign_in_serves_kubectl_through_the_exec_plugin() -> anyhow::Result<()> {
    // Tokens are refreshed after 16 s, and keys rotate faster than that.
    let dex = Dex::start(&["-valid", "20s", "-rotate", "10s"]).await?;
    let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), dex.hub())?;
    let joining = hub.create_cluster("demo").await?;
    let _site = Site::start(&hub, &cluster, &joining).await?;
    let jane = Person::new(&hub)?;
    let said = jane.sign_in(&dex, &hub, "jane").await?;
    ensure!(said.contains("as corp.jane@corp.example"), "{said}");
    let (file, first) = jane.stored()?;
    ensure!(fs::metadata(&file)?.mode() & 0o777 == 0o600);
    let hubs = fs::read_to_string(jane.home.path().join(".config/fairlead/hubs.toml"))?;
    ensure!(!hubs.contains("token"), "{hubs}");

    let config = jane.home.path().join("fl.yaml").display().to_string();
    jane.run(&["kubeconfig", "--cluster", "demo", "--output", &config])
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
    let kubectl = || {
        let kubectl = cluster.kubectl().kubeconfig(&config);
        kubectl.env("HOME", jane.home.path()).env("PATH", &path)
    };
    let whoami = kubectl()
        .args(["auth", "whoami", "-o", "json"])
        .run()
        .await?
        .success()?;
    let whoami: Value = serde_json::from_str(&whoami)?;
    let user = &whoami["status"]["userInfo"];
    ensure!(
        user["username"] == "fairlead:corp.jane@corp.example",
        "{user}"
    );

    // The plugin refreshes by itself, with a key that the hub has not seen before.
    eventually(Duration::from_secs(60), "a refreshed token", async || {
        let nodes = kubectl().args(["get", "namespaces"]).run().await.ok()?;
        nodes.success().ok()?;
        (jane.stored().ok()?.1 != first).then_some(())
    })
    .await?;

    // A removed group ends the right with the next token, and another group gives another role.
    dex.set_people(&["readers"])?;
    eventually(
        Duration::from_secs(60),
        "the role of the other group",
        async || {
            let whoami = jane
                .run(&["whoami", "-o", "json"])
                .await
                .ok()?
                .success()
                .ok()?;
            whoami.contains("viewer").then_some(())
        },
    )
    .await?;
    let denied = kubectl().args(["create", "namespace", "x"]).run().await?;
    ensure!(denied.stderr.contains("forbidden"), "{denied:?}");
    dex.set_people(&[])?;
    eventually(Duration::from_secs(60), "no role", async || {
        let refused = jane.run(&["whoami"]).await.ok()?;
        refused.stderr.contains("FL-1106").then_some(())
    })
    .await?;
    let out = jane.run(&["logout"]).await?.success()?;
    ensure!(out.contains("Signed out"), "{out}");
    ensure!(!file.exists());
    let ended = kubectl().args(["get", "namespaces"]).run().await?;
    ensure!(ended.stderr.contains("FL-4106"), "{ended:?}");
    Ok(())
}

#[tokio::test]
async fn device_sign_in_and_its_failures() -> anyhow::Result<()> {
    let mut dex = Dex::start(&[]).await?;
    let hub = dex.hub().await?;
    let jane = Person::new(&hub)?;
    let (mut login, url) = jane.begin(&hub, &["--device"]).await?;
    let (_, code) = url
        .split_once("user_code=")
        .context("no code in the address")?;
    let verify = format!("{}/device/auth/verify_code", dex.url);
    let page = dex.enter(&verify, &[("user_code", code)], "jane").await?;
    ensure!(page.contains("Login Successful"), "{page}");
    let said = ended(&mut login).await?;
    ensure!(said.contains("as corp.jane@corp.example"), "{said}");

    // No rule for the person: nothing is stored.
    let guest = Person::new(&hub)?;
    let said = guest.sign_in(&dex, &hub, "guest").await?;
    ensure!(
        said.contains("FL-1106") && guest.stored().is_err(),
        "{said}"
    );

    // A redirect of another request ends the wait.
    let (mut login, url) = guest.begin(&hub, &["--no-browser"]).await?;
    let (_, redirect) = url.split_once("redirect_uri=").context("no redirect")?;
    let port = redirect
        .split("%3A")
        .nth(2)
        .and_then(|it| it.split("%2F").next());
    let forged = format!(
        "http://localhost:{}/callback?state=x&code=y",
        port.context("no port")?
    );
    dex.browse(&forged, &[]).await?;
    let said = ended(&mut login).await?;
    ensure!(said.contains("FL-4135"), "{said}");

    // An outage: the token stays valid, and a new sign-in fails with the issuer's name.
    dex.process.kill_9()?;
    jane.run(&["whoami"]).await?.success()?;
    let url = hub.ready().url.clone();
    let away = guest
        .run(&["login", &url, "--ca-file", &guest.hub_ca])
        .await?;
    ensure!(
        away.stderr.contains("FL-4133") && away.stderr.contains(&dex.url),
        "{away:?}"
    );
    let listen = dex.url.trim_start_matches("https://").to_owned();
    (dex.process, _) = launch(&dex.program, dex.folder.path(), &listen, &[]).await?;
    // The new Dex has new keys, and the hub fetches unknown ones every 10 s at most.
    eventually(STEP_DEADLINE, "a sign-in with the new keys", async || {
        let said = guest.sign_in(&dex, &hub, "jane").await.ok()?;
        said.contains("as corp.jane").then_some(())
    })
    .await?;
    Ok(())
}
