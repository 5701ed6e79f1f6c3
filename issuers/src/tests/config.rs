//! The configuration file, and the reports of mistakes in it.

use super::*;

fn read(text: &str) -> Result<Issuers, fairlead_api::Failure> {
    Issuers::read(std::path::Path::new("issuers.toml"), text)
}

#[test]
fn all_mistakes_are_reported_at_once_with_file_line_and_table() {
    let text = r#"
[issuer.corp]
url = "http://idp.example"
audience = []
keys_file = "/nowhere/keys.json"
roles = [
  { claim = "sub", value = "x", role = "root" },
  { claim = "sub", role = "tenant", tenat = "t-x" },
]
typo = 1

[review.old]
url = 7
token_file = "/nowhere/token"

[issuers.late]
"#;
    let failure = read(text).err().unwrap();
    assert_eq!(failure.code, Code::BadConfig);
    for mistake in [
        "issuers.toml: line 3: [issuer.corp] url: expected https",
        "issuers.toml: line 4: [issuer.corp] audience is empty",
        "issuers.toml: line 5: [issuer.corp] keys_file: /nowhere/keys.json",
        "issuers.toml: line 7: [issuer.corp] roles[1] role",
        "issuers.toml: line 8: [issuer.corp] roles[2] value is missing",
        "issuers.toml: line 8: [issuer.corp] roles[2] unknown field \"tenat\"",
        "issuers.toml: line 10: [issuer.corp] unknown field \"typo\"",
        "issuers.toml: line 12: [review.old] roles is missing",
        "issuers.toml: line 13: [review.old] url",
        "issuers.toml: line 14: [review.old] token_file: /nowhere/token",
        "issuers.toml: line 16: unknown field \"issuers\"",
    ] {
        assert!(failure.cause.contains(mistake), "{mistake}: {failure}");
    }
}

#[test]
fn each_mistake_is_reported_with_its_table() {
    let issuer = |more: &str| {
        format!("[issuer.corp]\nurl = \"https://idp.example\"\naudience = [\"fairlead\"]\n{more}\n")
    };
    let role = "roles = [{ claim = \"sub\", value = \"x\", role = \"admin\" }]";
    assert!(read(&issuer(role)).is_ok());
    assert!(read("").is_ok());
    for (text, expected) in [
        ("[issuer.corp]\nurl = 1".to_owned(), "string"),
        (issuer(""), "roles"),
        (
            issuer(&format!("device = true\n{role}")),
            "device: needs client_id",
        ),
        (
            issuer(&format!("client_id = \"a\"\nscopes = []\n{role}")),
            "\"openid\" is missing",
        ),
        (
            issuer(&format!(
                "client_id = \"a\"\nredirect_host = \"evil\"\n{role}"
            )),
            "redirect_host",
        ),
        (
            issuer(&format!("prefix = \"\"\n{role}")),
            "may be empty only",
        ),
        (
            issuer(&format!("prefix = \"A:\"\n{role}")),
            "expected at most",
        ),
        (
            format!(
                "{}[issuer.two]\nurl = \"https://two.example\"\naudience = [\"fairlead\"]\nprefix = \"corp.x\"\n{role}\n",
                issuer(role)
            ),
            "two people with one name",
        ),
        (issuer("roles = []"), "no caller would be admitted"),
        (issuer(role).replace("https", "http"), "url"),
        (issuer(role).replace("[\"fairlead\"]", "[]"), "audience"),
        (
            issuer(&format!("{role}\nalgorithms = [\"HS256\"]")),
            "HS256",
        ),
        (issuer(&format!("{role}\nleeway = \"1h\"")), "leeway"),
        (issuer(&format!("{role}\ntypo = 1")), "typo"),
        (issuer(&role.replace("\"admin\"", "\"root\"")), "role"),
        (issuer(&role.replace("\"admin\"", "\"cluster\"")), "cluster"),
        (issuer(&role.replace("\"admin\"", "\"tenant\"")), "tenant"),
        (
            issuer(&role.replace("\"admin\"", "\"cluster\", cluster = \"*\"")),
            "star",
        ),
        (
            issuer(&role.replace("\"admin\"", "\"admin\", tenant = \"x\"")),
            "tenant",
        ),
        (
            issuer(role) + &issuer(role).replace("corp", "corp2"),
            "[issuer.corp]",
        ),
        (
            issuer(&format!("{role}\nca_file = \"/nowhere/ca.pem\"")),
            "/nowhere/ca.pem",
        ),
    ] {
        let failure = read(&text).err().unwrap_or_else(|| panic!("{text}"));
        assert_eq!(failure.code, Code::BadConfig, "{text}");
        assert!(failure.cause.contains(expected), "{expected}: {failure}");
    }
}

/// Only public-key algorithms are allowed.
#[test]
fn no_algorithm_with_a_shared_secret_can_be_configured() {
    for hmac in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
        let text = format!(
            "[issuer.a]\nurl = \"https://a.example\"\naudience = [\"b\"]\nalgorithms = [\"{hmac:?}\"]\nroles = [{{ claim = \"sub\", value = \"x\", role = \"viewer\" }}]"
        );
        assert!(read(&text).is_err(), "{hmac:?}");
    }
}

#[test]
fn scopes_that_no_role_has_are_mistakes() {
    let issuer = |more: &str| {
        format!("[issuer.corp]\nurl = \"https://idp.example\"\naudience = [\"fairlead\"]\n{more}\n")
    };
    let role = "roles = [{ claim = \"sub\", value = \"x\", role = \"admin\" }]";
    for (text, expected) in [
        (
            issuer(&role.replace("\"admin\"", "\"compile\", cluster = \"c-a\"")),
            "cluster",
        ),
        (
            issuer(&role.replace("\"admin\"", "\"admin\", namespaces = [\"shop\"]")),
            "operator and viewer only",
        ),
        (
            issuer(&role.replace("\"admin\"", "\"viewer\", namespaces = []")),
            "1 to 16 names",
        ),
        (
            issuer(&role.replace("\"admin\"", "\"viewer\", namespaces = [\"kube-system\"]")),
            "reserved",
        ),
        (
            issuer(&role.replace("\"admin\"", "\"viewer\", break_glass = \"tenant\"")),
            "break_glass",
        ),
    ] {
        let failure = read(&text).err().unwrap_or_else(|| panic!("{text}"));
        assert!(failure.cause.contains(expected), "{expected}: {failure}");
    }
}
