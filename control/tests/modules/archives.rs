//! Archives for tests: a tar of text files, without a library.

use http::{Request, header};
use serde_json::Value;

use crate::rig::{Reply, Rig, principal};

/// A tar in the form of POSIX, with these files.
pub(crate) fn tar(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (path, text) in files {
        let mut head = [0u8; 512];
        head[..path.len()].copy_from_slice(path.as_bytes());
        head[100..108].copy_from_slice(b"0000644\0");
        head[124..136].copy_from_slice(format!("{:011o}\0", text.len()).as_bytes());
        head[136..148].copy_from_slice(b"00000000000\0");
        head[148..156].copy_from_slice(b"        ");
        head[156] = b'0';
        head[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = head.iter().map(|it| u32::from(*it)).sum();
        head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        tar.extend_from_slice(&head);
        tar.extend_from_slice(text.as_bytes());
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1024, 0);
    tar
}

/// Uploads an archive for a tenant.
pub(crate) async fn upload(
    rig: &Rig,
    who: &fairlead_seam::Caller,
    tenant: &str,
    archive: Vec<u8>,
) -> Reply {
    let request = Request::post(format!("/v1/artifacts?tenant={tenant}"))
        .header(header::CONTENT_TYPE, "application/x-tar")
        .body(axum::body::Body::from(archive))
        .unwrap();
    let people = rig.user_routes();
    let people = people.layer(axum::Extension(principal(who)));
    Rig::send(people, request).await
}

/// Uploads text files for a tenant; returns the name of the content.
pub(crate) async fn uploaded(rig: &Rig, tenant: &str, files: &[(&str, &str)]) -> Value {
    let reply = upload(rig, &crate::rig::admin(), tenant, tar(files)).await;
    reply.good()["id"].clone()
}
