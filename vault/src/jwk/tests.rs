use serde_json::json;

use super::*;

/// Keys of this test alone, as OpenSSL prints them.
const RSA_PEM: &str = "-----BEGIN PUBLIC KEY-----\n\
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEApkE8jvWO0HWXQ9Wz8RjX\n\
0qKu+u0ZyLJdgaYIgPEgB+FIekhgpEJvLruzq4hJlima8oMEb6RQUDQVi07l1sNc\n\
OBvZ/AydlRfygRZDX7bTMNigSluArV+JCEC3IB2QC6YrsS3Q5OdZPe0qQp+F91Ph\n\
VJSlIz9sUkeZho/gW/UvpTdgmdZrWAxw2LaW/FrP9CYWEHGLuB/kPc4b1gzL80gc\n\
2vVUuz7tO/gxWdDGSysCHmf3rvLrLZF6w2zrAmFzwzeZ6kA1WIH0LYBJhlvf4SFr\n\
D2UyS4WNFWMKGEcYn+t1jEnWIebDAYaxaAbQ+NlI/WynOY2o5n9oNzP2o8I6sZhc\n\
3QIDAQAB\n\
-----END PUBLIC KEY-----";
const P256_PEM: &str = "-----BEGIN PUBLIC KEY-----\n\
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAElljvV+r8jPtgJ9+38koGGoad6GeT\n\
mtje2x6OsImRsTHLOjX3g3GswWE6cek0KOCnO+l37kIoq6jIfJ6JMBCl8w==\n\
-----END PUBLIC KEY-----";
const P521_PEM: &str = "-----BEGIN PUBLIC KEY-----\n\
MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQB9zhP9mdcAHMGIzxGt9DbLT9P9dco\n\
6L4qvkWfojo1m3F8HY2BZCgUjX8UgTiBWPIkLkFmgtbuClH1BIjC+9CZVpsA2n1Y\n\
2Vctr4ZwBG4sK1F4OPoBvtyFwK9Ft524Rprp/10pUru5FuCRMrCa9qZwNzDO4pt9\n\
DpDN23FISC42eSq0+mc=\n\
-----END PUBLIC KEY-----";
const RSA_N: &str = "pkE8jvWO0HWXQ9Wz8RjX0qKu-u0ZyLJdgaYIgPEgB-FIekhgpEJvLruzq4hJlima8oMEb6RQUDQVi07l1sNcOBvZ_AydlRfygRZDX7bTMNigSluArV-JCEC3IB2QC6YrsS3Q5OdZPe0qQp-F91PhVJSlIz9sUkeZho_gW_UvpTdgmdZrWAxw2LaW_FrP9CYWEHGLuB_kPc4b1gzL80gc2vVUuz7tO_gxWdDGSysCHmf3rvLrLZF6w2zrAmFzwzeZ6kA1WIH0LYBJhlvf4SFrD2UyS4WNFWMKGEcYn-t1jEnWIebDAYaxaAbQ-NlI_WynOY2o5n9oNzP2o8I6sZhc3Q";

fn reported(keys: &[Value]) -> Value {
    json!({ "issuer": "https://kubernetes.default.svc", "keys": keys })
}

fn pem(key: &Value) -> Result<Vec<String>, KeysError> {
    read(&reported(std::slice::from_ref(key))).map(|keys| keys.pem)
}

#[test]
fn keys_of_each_kind_have_the_form_of_openssl() {
    let rsa = json!({ "kty": "RSA", "alg": "RS256", "kid": "one", "n": RSA_N, "e": "AQAB" });
    let p256 = json!({
        "kty": "EC", "crv": "P-256",
        "x": "lljvV-r8jPtgJ9-38koGGoad6GeTmtje2x6OsImRsTE",
        "y": "yzo194NxrMFhOnHpNCjgpzvpd-5CKKuoyHyeiTAQpfM",
    });
    let p521 = json!({
        "kty": "EC", "crv": "P-521",
        "x": "Afc4T_ZnXABzBiM8RrfQ2y0_T_XXKOi-Kr5Fn6I6NZtxfB2NgWQoFI1_FIE4gVjyJC5BZoLW7gpR9QSIwvvQmVab",
        "y": "ANp9WNlXLa-GcARuLCtReDj6Ab7chcCvRbeduEaa6f9dKVK7uRbgkTKwmvamcDcwzuKbfQ6QzdtxSEguNnkqtPpn",
    });
    for (key, expected) in [(&rsa, RSA_PEM), (&p256, P256_PEM), (&p521, P521_PEM)] {
        assert_eq!(pem(key).unwrap(), [expected]);
    }
}

#[test]
fn unusable_keys_are_left_out_and_never_alone_accepted() {
    let rsa = json!({ "kty": "RSA", "n": RSA_N, "e": "AQAB" });
    let octets = json!({ "kty": "OKP", "crv": "Ed25519", "x": "AAAA" });
    let short = json!({ "kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA" });
    let zero = json!({ "kty": "RSA", "n": "AAAA", "e": "AQAB" });
    let keys = read(&reported(&[octets.clone(), rsa.clone(), rsa])).unwrap();
    assert_eq!(keys.pem.len(), 1, "two equal keys are one");
    for key in [octets, short, zero] {
        assert_eq!(pem(&key), Err(KeysError::None), "{key}");
    }
    for value in [
        json!(7),
        json!({ "keys": [] }),
        json!({ "issuer": "", "keys": [] }),
    ] {
        assert_eq!(read(&value), Err(KeysError::Form), "{value}");
    }
}
