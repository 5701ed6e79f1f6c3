//! The last step of `make net`: no secret of any test is in anything that the tests have left.

use anyhow::ensure;
use fairlead_e2e_net::left;

#[test]
#[ignore = "reads what the tests before it have left: the last step of `make net`"]
fn nothing_that_a_run_leaves_has_a_secret() -> anyhow::Result<()> {
    let (files, secrets) = left::check_all()?;
    ensure!(files > 0 && secrets > 0, "{files} files, {secrets} secrets");
    eprintln!("{secrets} texts of secrets are in none of {files} files");
    Ok(())
}
