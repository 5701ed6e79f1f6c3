//! Files of a tenant's repository, as Commodore expects them: `common.yml`, and one class file for
//! each cluster. Source: Lieutenant's operator, which makes the same.

use std::collections::BTreeMap;

use fairlead_api::ClusterId;
use fairlead_repositories::DesiredFile;
use fairlead_store::model::{TemplateFile, Tenant};

const COMMON_FILE: &str = "common.yml";
/// Content of a new `common.yml`; Lieutenant's is empty.
const COMMON_CONTENT: &str = "";

/// Files of a tenant's repository. Those that people declare win.
pub(super) fn tenant_files<'a>(
    tenant: &Tenant,
    template_files: &BTreeMap<String, TemplateFile>,
    clusters: impl Iterator<Item = &'a ClusterId>,
) -> BTreeMap<String, DesiredFile> {
    let class = format!("classes:\n- {}.common\n", tenant.id);
    let former = tenant.former_clusters.iter().map(|cluster| {
        let earlier = vec![class.clone()];
        (file_of(cluster), DesiredFile::Absent { earlier })
    });
    let mut files: BTreeMap<_, _> = former.collect();
    let content = |content: &str| DesiredFile::Content {
        content: content.to_owned(),
        earlier: Vec::new(),
    };
    files.insert(COMMON_FILE.to_owned(), content(COMMON_CONTENT));
    // A cluster that came back replaces its former self.
    files.extend(clusters.map(|cluster| (file_of(cluster), content(&class))));
    files.extend(declared(template_files));
    files
}

/// Files as people declare them.
pub(super) fn declared(files: &BTreeMap<String, TemplateFile>) -> BTreeMap<String, DesiredFile> {
    let files = files.iter().map(|(path, file)| {
        let file = match file {
            TemplateFile::Content(content) => DesiredFile::Declared(content.clone()),
            TemplateFile::Deleted(_) => DesiredFile::Deleted,
        };
        (path.clone(), file)
    });
    files.collect()
}

/// True if the file of a former cluster is removed, or belongs to people.
pub(super) fn is_removed(files: &BTreeMap<String, DesiredFile>, cluster: &ClusterId) -> bool {
    let file = files.get(&file_of(cluster));
    file.is_some_and(|it| !matches!(it, DesiredFile::Content { .. }))
}

fn file_of(cluster: &ClusterId) -> String {
    format!("{cluster}.yml")
}
