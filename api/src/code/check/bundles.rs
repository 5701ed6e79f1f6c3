//! Content of deliveries, bundles and plans.

use super::MISSING;
use crate::Code;

/// Content, bundles and plans.
pub(super) const fn content(code: Code) -> &'static str {
    match code {
        Code::NoSuchArtifact => {
            "`fairlead bundle get BUNDLE -o yaml` shows the contents of the last generations of a bundle. The hub keeps an upload that no bundle uses for an hour."
        }
        Code::ArchiveRefused => {
            "List the archive: `tar -tvf ARCHIVE`. Links, devices, absolute paths and two entries of one path are refused; the cause names the first of them."
        }
        Code::BadBundleFile => {
            "The cause names the line and the field of the file. /docs of the hub describes each field under `BundleFields`."
        }
        Code::WrongDigest => {
            "The cause has the expected digest. `fairlead store check --data DIR` reads the whole store of a hub on a file; its disk is the most frequent cause."
        }
        Code::RemovalNotConfirmed => {
            "`POST /v1/bundles/BUNDLE/plan` with the same document shows all clusters before and after the change. Compare the labels: `fairlead cluster get CLUSTER -o yaml`."
        }
        Code::NoSuchGeneration => {
            "`fairlead bundle get BUNDLE` lists the kept generations with time and author. The hub keeps the last ten."
        }
        Code::BundleDeleting => {
            "`fairlead bundle get BUNDLE` lists the clusters without a report. `fairlead cluster describe CLUSTER` shows whether the agent of one is connected."
        }
        Code::ChartNotFetched => {
            "On the hub's machine: `helm pull NAME --repo URL --version VERSION`, with the fields of `chart` in `fairlead.yaml`."
        }
        Code::DependencyCycle => {
            "The cause lists the bundles in the order of their dependencies. `fairlead bundle list -o yaml` shows `dependsOn` of each."
        }
        Code::BadBundle => {
            "The cause lists each field with its path, like `targets[1].patches[0].json`. A dry run (`dryRun=true`) checks the document without a change."
        }
        Code::CatalogBundle => {
            "`fairlead cluster catalog get CLUSTER` shows the objects, and `fairlead deployment get CLUSTER catalog` their state. Names of bundles do not begin with `catalog-`."
        }
        Code::ToolBundle => {
            "`fairlead cluster agent get CLUSTER` shows the settings, and `fairlead deployment get CLUSTER gitops` the state of the installation. Names of bundles do not begin with `gitops-`."
        }
        Code::TooManyTransfers => {
            "The hub reads 64 uploads at once, and those of one tenant share a memory budget. Look for a client in a loop in the hub's log of requests."
        }
        _ => MISSING,
    }
}
