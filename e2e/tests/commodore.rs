//! Unmodified Commodore against a fresh hub: its lists, and a catalog that is compiled and pushed with
//! repositories of this machine.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{Hub, setting};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

/// Deadline for Commodore to fetch, compile and push; it takes some seconds.
const RUN_DEADLINE: Duration = Duration::from_secs(180);
const RIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients");

/// A user with Commodore and a token of the role `compile`.
struct Compiler {
    hub: Hub,
    bin: PathBuf,
    token: String,
}

/// Output of a program, and its success.
struct CommodoreOutput {
    good: bool,
    out: String,
    err: String,
}

impl Compiler {
    async fn new() -> anyhow::Result<Self> {
        let built = Command::new(format!("{RIG}/build"))
            .arg("commodore")
            .stderr(Stdio::inherit())
            .output()
            .await?;
        ensure!(built.status.success(), "there is no Commodore to test with");
        let hub = Hub::start().await?;
        let token = hub
            .cli(["token", "create", "ci", "--role", "compile", "-o", "json"])
            .await?;
        let token: Value = serde_json::from_str(&token.success()?)?;
        Ok(Self {
            hub,
            bin: String::from_utf8(built.stdout)?.trim_end().into(),
            token: token["token"].as_str().context("no token")?.to_owned(),
        })
    }

    /// Runs a program with an empty environment.
    async fn run(
        &self,
        at: &Path,
        program: &Path,
        args: &[&str],
        token: Option<&str>,
    ) -> anyhow::Result<CommodoreOutput> {
        let path = setting("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(at)
            .env_clear()
            .env("HOME", self.hub.dir())
            .env("PATH", format!("{}:{path}", self.bin.display()))
            .env("COMMODORE_API_URL", &self.hub.ready().url)
            .env("REQUESTS_CA_BUNDLE", &self.hub.ready().ca_file)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Ada");
            command.env(format!("GIT_{who}_EMAIL"), "ada@example.org");
        }
        if let Some(token) = token {
            command.env("COMMODORE_API_TOKEN", token);
        }
        let ended = timeout(RUN_DEADLINE, command.output()).await;
        let ended =
            ended.with_context(|| format!("{args:?} has not ended within {RUN_DEADLINE:?}"))??;
        Ok(CommodoreOutput {
            good: ended.status.success(),
            out: String::from_utf8(ended.stdout)?,
            err: String::from_utf8(ended.stderr)?,
        })
    }

    async fn git(&self, at: &Path, args: &[&str]) -> anyhow::Result<String> {
        let said = self.run(at, Path::new("git"), args, None).await?;
        ensure!(said.good, "git {args:?}: {}", said.err);
        Ok(said.out)
    }

    async fn commodore(&self, args: &[&str]) -> anyhow::Result<CommodoreOutput> {
        let program = self.bin.join("commodore");
        self.run(self.hub.dir(), &program, args, Some(&self.token))
            .await
    }

    async fn good(&self, args: &[&str]) -> anyhow::Result<String> {
        let said = self.commodore(args).await?;
        ensure!(said.good, "commodore {args:?}: {}{}", said.out, said.err);
        Ok(said.out)
    }

    /// Creates a bare repository with these files in one commit, optionally with a tag.
    async fn repository(
        &self,
        name: &str,
        files: &[(&str, &str)],
        tag: Option<&str>,
    ) -> anyhow::Result<String> {
        let bare = self.hub.dir().join("git").join(format!("{name}.git"));
        let work = self.hub.dir().join("work").join(name);
        fs::create_dir_all(&bare)?;
        fs::create_dir_all(&work)?;
        let url = format!("file://{}", bare.display());
        self.git(&bare, &["init", "--bare", "--initial-branch=master"])
            .await?;
        if files.is_empty() {
            return Ok(url);
        }
        for (path, text) in files {
            let path = work.join(path);
            fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
            fs::write(path, text)?;
        }
        self.git(&work, &["init", "--initial-branch=master"])
            .await?;
        self.git(&work, &["add", "--all"]).await?;
        self.git(&work, &["commit", "--message", "first"]).await?;
        if let Some(tag) = tag {
            self.git(&work, &["tag", tag]).await?;
        }
        self.git(&work, &["remote", "add", "origin", &url]).await?;
        let refs = ["push", "origin", "master"];
        self.git(&work, &[refs.as_slice(), tag.as_slice()].concat())
            .await?;
        Ok(url)
    }

    /// Sends a POST as the first admin.
    async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.hub.token()?,
            body.len()
        );
        let answer = self.hub.front()?.send(request).await?;
        ensure!(answer.status == 201, "{path}: {}", answer.text());
        Ok(serde_json::from_slice(&answer.body)?)
    }

    async fn register(&self, catalog: &str, tenant: &str, global: &str) -> anyhow::Result<()> {
        let acme = json!({
            "id": "t-acme", "displayName": "Acme", "globalGitRepoURL": global,
            "gitRepo": { "url": tenant, "type": "unmanaged" },
        });
        self.post("/tenants", &acme).await?;
        let other = json!({ "id": "t-zoo", "gitRepo": { "type": "unmanaged" } });
        self.post("/tenants", &other).await?;
        for (id, tenant, name) in [
            ("c-one", "t-zoo", "Alpha"),
            ("c-two", "t-acme", "Zulu"),
            ("c-three", "t-acme", "Mike"),
        ] {
            let mut cluster = json!({
                "id": id, "tenant": tenant, "displayName": name,
                "facts": { "cloud": "cloudscale", "distribution": "k3s" },
            });
            if id == "c-two" {
                cluster["gitRepo"] = json!({ "url": catalog, "type": "unmanaged" });
            }
            self.post("/clusters", &cluster).await?;
        }
        Ok(())
    }
}

const CLASS: &str = "
parameters:
  kapitan:
    compile:
      - input_paths: ['${_base_directory}/component/main.jsonnet']
        input_type: jsonnet
        output_path: hello/
";
const DEFAULTS: &str = "
parameters:
  hello:
    =_metadata: { multi_instance: false }
    namespace: hello
    greeting: hello
";
const MAIN: &str = "
local inv = (import 'lib/kapitan.libjsonnet').inventory();
local params = inv.parameters.hello;
{
  greeting: {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'greeting', namespace: params.namespace },
    data: { said: params.greeting, cluster: inv.parameters.cluster.name, cloud: inv.parameters.facts.cloud },
  },
}
";
const HIERARCHY: &str = "
classes:
  - global.common
  - ${cluster:tenant}.${cluster:name}
";

#[tokio::test]
async fn its_lists_have_every_order_filter_and_form() -> anyhow::Result<()> {
    let compiler = Compiler::new().await?;
    let nowhere = "ssh://git@git.example/acme/catalog.git";
    compiler.register(nowhere, nowhere, nowhere).await?;
    let list = ["catalog", "list"];
    for (options, ids) in [
        (&[][..], "c-one c-three c-two"),
        (&["--sort-by", "id"], "c-one c-three c-two"),
        (&["--sort-by", "displayName"], "c-one c-three c-two"),
        (&["--sort-by", "tenant"], "c-three c-two c-one"),
        (&["--tenant", "t-acme"], "c-three c-two"),
        (
            &["-t", "t-acme", "--sort-by", "displayName"],
            "c-three c-two",
        ),
        (&["-t", "t-none"], ""),
    ] {
        let said = compiler
            .good(&[&list, options, &["-o", "id"]].concat())
            .await?;
        ensure!(
            said.split_whitespace().collect::<Vec<_>>().join(" ") == ids,
            "{options:?}: {said}"
        );
    }
    let table = compiler.good(&list).await?;
    ensure!(
        table.contains("DISPLAY NAME") && table.contains("Mike"),
        "{table}"
    );
    let text = compiler.good(&["catalog", "list", "--out", "json"]).await?;
    let all: Value = serde_json::from_str(&text)?;
    ensure!(
        all[1]["id"] == "c-three" && all[1]["tenant"] == "t-acme",
        "{all}"
    );
    let yaml = compiler.good(&["catalog", "list", "--out", "yaml"]).await?;
    ensure!(yaml.contains("displayName: Zulu"), "{yaml}");

    let wrong = compiler
        .commodore(&[&list[..], &["--sort-by", "age"]].concat())
        .await?;
    ensure!(
        !wrong.good && wrong.err.contains("API returned 400: sort_by"),
        "{}",
        wrong.err
    );
    let program = compiler.bin.join("commodore");
    let stranger = compiler
        .run(compiler.hub.dir(), &program, &list, Some("wrong"))
        .await?;
    ensure!(
        !stranger.good && stranger.err.contains("API returned 401"),
        "{}",
        stranger.err
    );
    // Without a token Commodore sends the word None.
    let nobody = compiler
        .run(compiler.hub.dir(), &program, &list, None)
        .await?;
    ensure!(
        !nobody.good && nobody.err.contains("API returned 401"),
        "{}",
        nobody.err
    );
    Ok(())
}

#[tokio::test]
async fn catalog_is_compiled_and_pushed_and_recorded_at_the_hub() -> anyhow::Result<()> {
    let compiler = Compiler::new().await?;
    let files = [
        ("class/hello.yml", CLASS),
        ("class/defaults.yml", DEFAULTS),
        ("component/main.jsonnet", MAIN),
    ];
    let component = compiler.repository("hello", &files, Some("v1.2.3")).await?;
    let alone = compiler.hub.dir().join("alone");
    let alone = alone.to_str().context("its path is no text")?;
    let source = compiler.hub.dir().join("work/hello");
    let source = source.to_str().context("its path is no text")?;
    let compile = [
        "-d",
        alone,
        "component",
        "compile",
        source,
        "-o",
        alone,
        "-n",
        "hello",
    ];
    compiler.good(&compile).await?;
    let greeting = fs::read_to_string(Path::new(alone).join("compiled/hello/hello/greeting.yaml"))?;
    ensure!(greeting.contains("said: hello"), "{greeting}");

    let common = format!(
        "applications: [hello]\nparameters:\n  components:\n    hello: {{ url: '{component}', version: v1.2.3 }}\n  \
         kapitan: {{ secrets: {{ vaultkv: {{ VAULT_ADDR: 'https://vault.example' }} }} }}\n"
    );
    let files = [("commodore.yml", HIERARCHY), ("common.yml", &common)];
    let global = compiler.repository("global", &files, None).await?;
    let files = [(
        "c-two.yml",
        "parameters: { hello: { greeting: bonjour } }\n",
    )];
    let tenant = compiler.repository("acme", &files, None).await?;
    let catalog = compiler.repository("catalog", &[], None).await?;
    compiler.register(&catalog, &tenant, &global).await?;

    let place = compiler.hub.dir().join("compile");
    fs::create_dir(&place)?;
    let place = place.to_str().context("its path is no text")?;
    let compile = ["-d", place, "catalog", "compile", "c-two", "--push"];
    let said = compiler.good(&compile).await?;
    ensure!(said.contains("Pushing catalog"), "{said}");
    let bare = compiler.hub.dir().join("git/catalog.git");
    let pushed = compiler
        .git(&bare, &["show", "master:manifests/hello/greeting.yaml"])
        .await?;
    for line in ["said: bonjour", "cluster: c-two", "cloud: cloudscale"] {
        ensure!(pushed.contains(line), "{pushed}");
    }

    let shown = compiler.hub.cluster("c-two").await?;
    let meta = &shown["compileMeta"];
    for (pointer, expected) in [
        ("/instances/hello/component", "hello"),
        ("/instances/hello/version", "v1.2.3"),
        ("/instances/hello/url", component.as_str()),
        ("/global/url", &global),
        ("/tenant/url", &tenant),
    ] {
        let told = meta.pointer(pointer);
        ensure!(told == Some(&json!(expected)), "{pointer}: {meta}");
    }
    let last = meta["lastCompile"].as_str().context("no lastCompile")?;
    ensure!(last.ends_with('Z'), "{last} is not in UTC");

    // The second time there is nothing to push.
    let said = compiler.good(&compile).await?;
    ensure!(said.contains("No changes"), "{said}");
    let again = compiler.hub.cluster("c-two").await?;
    ensure!(again["compileMeta"] == *meta, "{again}");
    Ok(())
}
