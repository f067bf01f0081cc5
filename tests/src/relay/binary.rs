//! Where the relay binary is, and how it comes to be there. Starting it does not belong here.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The relay binary: the one `HOLDFAST_BIN` names, or the one cargo builds beside the running test.
///
/// Without the variable cargo is asked once per test process. It builds only what is out of date, so that a test never runs
/// against yesterday's relay.
///
/// # Panics
/// If cargo cannot build it.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("HOLDFAST_BIN") {
        Some(path) => path.into(),
        None => build(),
    })
}

fn build() -> PathBuf {
    let test = std::env::current_exe().expect("a running test knows its path");
    // A test lies in TARGET/PROFILE/deps/, another program of this crate in TARGET/PROFILE/.
    let profile_dir = test
        .ancestors()
        .skip(1)
        .find(|dir| !dir.ends_with("deps"))
        .expect("cargo puts programs into a folder named after the profile");
    let target_dir = profile_dir
        .parent()
        .expect("the folder of a profile lies in a target folder");
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{} is no folder of a profile", profile_dir.display()),
    };
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "build",
            "--quiet",
            "--package",
            "holdfast-relay",
            "--bin",
            "holdfast",
        ])
        .args(["--profile", profile, "--target-dir"])
        .arg(target_dir)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo can be run; HOLDFAST_BIN names a binary where it cannot");
    assert!(
        status.success(),
        "cargo could not build the relay: {status}"
    );
    profile_dir.join(format!("holdfast{}", std::env::consts::EXE_SUFFIX))
}
