use std::fs;

use base64::{Engine, engine::general_purpose::STANDARD};

use super::*;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Script that prints the file `prints` and records each run.
    fn plugin(&self, name: &str, prints: &str) {
        let dir = self.0.path().display();
        let script = format!(
            "#!/bin/sh\necho run >>{dir}/ran\necho \"$KUBERNETES_EXEC_INFO $EXTRA\" >{dir}/received\ncat {dir}/{prints}\n"
        );
        let source = self.write(&format!("{name}.source"), &script);
        // Copied by another process: a program that this one has open for writing cannot be started.
        let mut install = std::process::Command::new("install");
        install.args(["-m", "700"]).arg(source);
        let installed = install.arg(self.0.path().join(name)).status();
        assert!(installed.unwrap().success());
    }

    fn kubeconfig(&self, cluster: &str, user: &str) -> ApiCredentials {
        let ca = STANDARD.encode(ca());
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: one\nclusters:\n- name: c\n  cluster: {{certificate-authority-data: {ca}, {cluster}}}\n\
             contexts:\n- name: one\n  context: {{cluster: c, user: u}}\n- name: nobody\n  context: {{cluster: c}}\n- name: lost\n  context: {{cluster: x, user: u}}\n\
             users:\n- name: u\n  user: {user}\n"
        );
        self.credentials(self.write("config", &text), None)
    }

    fn credentials(&self, path: PathBuf, context: Option<&str>) -> ApiCredentials {
        ApiCredentials::new(&ApiServerConfig::Kubeconfig {
            path,
            context: context.map(str::to_owned),
        })
    }
}

fn ca() -> String {
    certificate().0
}

fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

const SERVER: &str = "server: 'https://127.0.0.1:6443'";

async fn authorization(credentials: &ApiCredentials) -> Option<String> {
    let access = credentials.access().await.unwrap();
    let value = access.authorization.clone()?;
    assert!(value.is_sensitive());
    Some(value.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn kubeconfig_authenticates_by_token_file_password_or_certificate() {
    let folder = Folder::new();
    folder.write("token", "from-file\n");
    let (chain, key) = certificate();
    folder.write("client.crt", &chain);
    folder.write("client.key", &key);
    let data = format!(
        "{{client-certificate-data: {}, client-key-data: {}}}",
        STANDARD.encode(&chain),
        STANDARD.encode(&key)
    );
    for (user, expected) in [
        ("{token: inline}", Some("Bearer inline")),
        ("{token: inline, tokenFile: token}", Some("Bearer inline")),
        ("{tokenFile: token}", Some("Bearer from-file")),
        (
            "{username: ann, password: secret}",
            Some("Basic YW5uOnNlY3JldA=="),
        ),
        (
            "{client-certificate: client.crt, client-key: client.key}",
            None,
        ),
        (data.as_str(), None),
        ("{}", None),
        ("", None),
    ] {
        let credentials = folder.kubeconfig(SERVER, user);
        assert_eq!(
            authorization(&credentials).await.as_deref(),
            expected,
            "{user}"
        );
    }
}

#[tokio::test]
async fn endpoint_has_the_servers_address_path_and_name() {
    let folder = Folder::new();
    for (cluster, host, base, name) in [
        (
            SERVER,
            "127.0.0.1:6443",
            "",
            "IpAddress(V4(Ipv4Addr([127, 0, 0, 1])))",
        ),
        (
            "server: 'https://api.test/'",
            "api.test",
            "",
            "DnsName(\"api.test\")",
        ),
        (
            "server: 'https://r.test/k8s/clusters/c1/', tls-server-name: x.test",
            "r.test",
            "/k8s/clusters/c1",
            "DnsName(\"x.test\")",
        ),
        (
            "server: 'https://[::1]:6443'",
            "[::1]:6443",
            "",
            "IpAddress(V6(Ipv6Addr([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])))",
        ),
    ] {
        let access = folder
            .kubeconfig(cluster, "{token: t}")
            .access()
            .await
            .unwrap();
        let endpoint = &access.endpoint;
        assert_eq!(
            (endpoint.host.to_str().unwrap(), endpoint.base_path.as_str()),
            (host, base)
        );
        assert_eq!(format!("{:?}", endpoint.server_name), name);
        assert!(endpoint.tls.is_some());
    }
    let plain = folder
        .kubeconfig("server: 'http://127.0.0.1:8001'", "{}")
        .access()
        .await
        .unwrap();
    assert!(plain.endpoint.tls.is_none());
    assert_eq!(plain.endpoint.uri, "http://127.0.0.1:8001/");
}

#[tokio::test]
async fn unusable_kubeconfig_is_explained_without_quoting_it() {
    let folder = Folder::new();
    for (cluster, user, why) in [
        (
            "server: 'https://a.test', insecure-skip-tls-verify: true",
            "{token: hush}",
            "insecure-skip-tls-verify",
        ),
        (
            "server: 'https://a.test', proxy-url: 'http://hush@p'",
            "{token: hush}",
            "proxy-url",
        ),
        (
            SERVER,
            "{auth-provider: {name: gcp, config: {hush: hush}}}",
            "auth-provider",
        ),
        (
            SERVER,
            "{client-certificate-data: hush, client-key-data: hush}",
            "client-certificate-data",
        ),
        (SERVER, "{tokenFile: missing}", "missing"),
        (
            SERVER,
            "{token: [hush}",
            "does not read as a kubeconfig (line ",
        ),
        (
            SERVER,
            "{token: \"hush\\n\"hush}",
            "does not read as a kubeconfig (line ",
        ),
        ("server: 'ftp://a.test'", "{}", "neither https nor http"),
        ("server: 'https://u:hush@a.test'", "{}", "credentials"),
    ] {
        let error = folder
            .kubeconfig(cluster, user)
            .access()
            .await
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains(why) && !error.contains("hush"), "{error}");
    }
    folder.kubeconfig(SERVER, "{token: t}");
    for (context, why) in [
        ("none", "no context \"none\""),
        ("lost", "no cluster \"x\""),
    ] {
        let credentials = folder.credentials(folder.0.path().join("config"), Some(context));
        let error = credentials.access().await.err().unwrap().to_string();
        assert!(error.contains(why), "{error}");
    }
    let nobody = folder.credentials(folder.0.path().join("config"), Some("nobody"));
    assert_eq!(authorization(&nobody).await, None);
}

#[tokio::test(start_paused = true)]
async fn changed_file_is_reloaded_and_a_broken_one_ignored() {
    let folder = Folder::new();
    folder.write("token", "one");
    let credentials = folder.kubeconfig(SERVER, "{tokenFile: token}");
    let first = credentials.access().await.unwrap();
    let same = credentials.access().await.unwrap();
    assert!(Arc::ptr_eq(&first, &same));
    folder.write("token", "second");
    assert_eq!(
        authorization(&credentials).await.unwrap(),
        "Bearer one",
        "not checked yet"
    );
    tokio::time::advance(FILE_POLL_INTERVAL).await;
    assert_eq!(authorization(&credentials).await.unwrap(), "Bearer second");
    let second = credentials.access().await.unwrap();
    assert!(
        Arc::ptr_eq(&first.endpoint, &second.endpoint),
        "connections stay in use"
    );

    fs::remove_file(folder.0.path().join("token")).unwrap();
    tokio::time::advance(FILE_POLL_INTERVAL).await;
    assert_eq!(authorization(&credentials).await.unwrap(), "Bearer second");
    folder.write("token", "third");
    tokio::time::advance(RELOAD_RETRY_INTERVAL).await;
    assert_eq!(authorization(&credentials).await.unwrap(), "Bearer third");

    folder.kubeconfig("server: 'https://127.0.0.1:7443'", "{tokenFile: token}");
    tokio::time::advance(FILE_POLL_INTERVAL).await;
    let moved = credentials.access().await.unwrap();
    assert!(
        !Arc::ptr_eq(&second.endpoint, &moved.endpoint),
        "another address is another endpoint"
    );
}

#[tokio::test]
async fn plugin_is_run_as_by_client_go() {
    let folder = Folder::new();
    folder.plugin("plugin", "credential");
    folder.write(
        "credential",
        r#"{"kind":"ExecCredential","status":{"token":"from-plugin"}}"#,
    );
    let user = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, args: null, \
        env: [{name: EXTRA, value: extra}], interactiveMode: Never, provideClusterInfo: true}}";
    let credentials = folder.kubeconfig(SERVER, user);
    assert_eq!(
        authorization(&credentials).await.unwrap(),
        "Bearer from-plugin"
    );
    assert_eq!(
        authorization(&credentials).await.unwrap(),
        "Bearer from-plugin"
    );
    assert_eq!(
        fs::read_to_string(folder.0.path().join("ran")).unwrap(),
        "run\n",
        "once is enough"
    );
    let received = fs::read_to_string(folder.0.path().join("received")).unwrap();
    assert!(
        received.contains(r#""apiVersion":"client.authentication.k8s.io/v1""#),
        "{received}"
    );
    assert!(
        received.contains(r#""server":"https://127.0.0.1:6443""#) && received.ends_with(" extra\n"),
        "{received}"
    );
}

#[tokio::test]
async fn plugin_runs_again_before_expiry_and_after_a_401() {
    let folder = Folder::new();
    folder.plugin("plugin", "credential");
    let soon = (OffsetDateTime::now_utc() + time::Duration::seconds(30)).unix_timestamp();
    let soon = OffsetDateTime::from_unix_timestamp(soon).unwrap();
    let soon = soon
        .format(&time::format_description::well_known::Rfc3339)
        .unwrap();
    folder.write(
        "credential",
        &format!(r#"{{"status":{{"token":"short","expirationTimestamp":"{soon}"}}}}"#),
    );
    let credentials = folder.kubeconfig(SERVER, "{exec: {command: ./plugin}}");
    assert_eq!(authorization(&credentials).await.unwrap(), "Bearer short");
    folder.write("credential", r#"{"status":{"token":"long"}}"#);
    // A plugin is a process: a paused clock does not pause it.
    while authorization(&credentials).await.unwrap() == "Bearer short" {
        tokio::task::yield_now().await;
    }
    assert_eq!(authorization(&credentials).await.unwrap(), "Bearer long");
    folder.write("credential", r#"{"status":{"token":"new"}}"#);
    let used = credentials.access().await.unwrap();
    credentials.report_unauthorized(&used).await;
    // From here on no plugin runs, however slow this machine is.
    tokio::time::pause();
    assert_eq!(authorization(&credentials).await.unwrap(), "Bearer new");
    folder.write("credential", r#"{"status":{"token":"newer"}}"#);
    let used = credentials.access().await.unwrap();
    credentials.report_unauthorized(&used).await;
    assert_eq!(
        authorization(&credentials).await.unwrap(),
        "Bearer new",
        "no plugin is run at every 401"
    );
}

#[tokio::test]
async fn failed_plugin_is_explained_without_quoting_its_output() {
    let folder = Folder::new();
    folder.plugin("plugin", "credential");
    for (prints, why) in [
        ("hush", "not an ExecCredential"),
        (r#"{"hush": 1}"#, "no status"),
        (r#"{"status":{}}"#, "neither a token"),
        (r#"{"status":{"token":"hush\n\nhush"}}"#, "cannot be used"),
        (
            r#"{"status":{"clientCertificateData":"hush"}}"#,
            "without a key",
        ),
        (
            r#"{"status":{"token":"hush","expirationTimestamp":"hush"}}"#,
            "not a time",
        ),
    ] {
        folder.write("credential", prints);
        let error = folder
            .kubeconfig(SERVER, "{exec: {command: ./plugin}}")
            .access()
            .await;
        let error = error.err().unwrap().to_string();
        assert!(error.contains(why) && !error.contains("hush"), "{error}");
    }
    let missing = folder
        .kubeconfig(SERVER, "{exec: {command: ./nothing}}")
        .access()
        .await;
    assert!(missing.err().unwrap().to_string().contains("./nothing"));
}
