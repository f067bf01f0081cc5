//! Two client libraries that know nothing of this relay, installed from the lock files in `stock/` into a temporary folder,
//! drive the real binary in both profiles. The checks are scripts in the languages of the libraries; here is only what
//! surrounds them: installing, starting, and the verdict.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Output};

use holdfast_tests::relay::{Profile, RelayProcess};
use tempfile::TempDir;

/// Checks each script has to run per profile. They stand here as well, so that a script cannot lose some unseen.
const NOSTR_TOOLS_CHECKS: [(Profile, u32); 2] = [(Profile::Workspace, 30), (Profile::Open, 22)];
const NOSTR_SDK_CHECKS: [(Profile, u32); 2] = [(Profile::Workspace, 29), (Profile::Open, 21)];

#[test]
fn nostr_tools_drives_both_profiles() {
    let folder = stage();
    let npm_ci = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    run(Command::new("npm").args(npm_ci).current_dir(folder.path()));
    for (profile, checks) in NOSTR_TOOLS_CHECKS {
        drive(
            Command::new("node").arg(folder.path().join("nostr_tools.mjs")),
            profile,
            checks,
        );
    }
}

#[test]
fn nostr_sdk_drives_both_profiles() {
    let folder = stage();
    let venv = folder.path().join("venv");
    let python = venv.join("bin/python");
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv));
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--disable-pip-version-check"])
        .args(["--require-hashes", "--only-binary", ":all:", "-r"])
        .arg(folder.path().join("requirements.txt")));
    for (profile, checks) in NOSTR_SDK_CHECKS {
        drive(
            Command::new(&python).arg(folder.path().join("nostr_sdk.py")),
            profile,
            checks,
        );
    }
}

/// A copy of `stock/` in a temporary folder, because both languages look for libraries beside the script.
fn stage() -> TempDir {
    let folder = TempDir::with_prefix("holdfast-stock-").expect("a temporary folder can be made");
    let stock = Path::new(env!("CARGO_MANIFEST_DIR")).join("stock");
    copy(&stock, folder.path()).expect("the scripts can be copied");
    folder
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), target)?;
        } else if entry.file_name() != "node_modules" {
            fs::create_dir(&target)?;
            copy(&entry.path(), &target)?;
        }
    }
    Ok(())
}

fn drive(script: &mut Command, profile: Profile, checks: u32) {
    let relay = RelayProcess::start(profile, &[]);
    let output = run(script.args([relay.url(), profile.name()]));
    let output = String::from_utf8(output.stdout).expect("a script prints UTF-8");
    let verdict = format!("{checks} passed, 0 failed");
    assert_eq!(output.lines().last(), Some(verdict.as_str()));
    let passed = output.lines().filter(|line| line.starts_with("ok "));
    assert_eq!(passed.count(), checks as usize);
}

/// Runs a command to its end, shows what it printed, and expects success.
#[track_caller]
fn run(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    println!("{}", String::from_utf8_lossy(&output.stdout));
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}", output.status);
    output
}
