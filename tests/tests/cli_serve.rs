//! `holdfast serve` as an operator meets it: settings and their order, the first start, refusals of one line, exit codes, and
//! what may never be printed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use holdfast_tests::build::{event, fresh_key, key};
use holdfast_tests::client::Client;
use holdfast_tests::http::info;
use holdfast_tests::raw::Raw;
use holdfast_tests::relay::{Launch, Profile, RelayProcess, StartError, binary};
use serde_json::json;
use tempfile::TempDir;

/// Runs the binary to its end without any `HOLDFAST_*` variable but these.
fn run(args: &[&str], envs: &[(&str, &str)]) -> Output {
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HOLDFAST_") {
            command.env_remove(name);
        }
    }
    command
        .args(args)
        .envs(envs.iter().copied())
        .output()
        .expect("the binary runs")
}

/// The command must end with this code and exactly one line on standard error, which holds this text.
fn refused(args: &[&str], envs: &[(&str, &str)], code: i32, text: &str) {
    let output = run(args, envs);
    let line = String::from_utf8(output.stderr).expect("messages are UTF-8");
    assert_eq!(output.status.code(), Some(code), "{args:?}: {line}");
    assert_eq!(line.matches('\n').count(), 1, "{args:?}: {line}");
    assert!(line.starts_with("holdfast: "), "{line}");
    assert!(line.contains(text), "{args:?}: {line}");
    assert!(output.stdout.is_empty(), "{args:?}");
}

fn scratch() -> TempDir {
    TempDir::with_prefix("holdfast-").expect("a directory can be made")
}

fn path(dir: &TempDir, name: &str) -> String {
    let path = dir.path().join(name);
    path.to_str().expect("a temporary path is UTF-8").to_owned()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it exists").permissions().mode() & 0o777
}

#[tokio::test]
async fn the_first_start_makes_a_key_that_stays() {
    binary();
    let dir = scratch();
    let data = dir.path().join("new/inner");
    let mut relay = Launch::new(Profile::Open).data_dir(&data).start();
    let self_key = info(&relay.endpoint()).await["self"].clone();
    assert_eq!(relay.output(), format!("listening on {}", relay.url()));
    assert_eq!(mode(&data.join("relay.key")), 0o600);
    assert_eq!(relay.terminate().code(), Some(0));
    relay.restart();
    assert_eq!(info(&relay.endpoint()).await["self"], self_key);
}

#[tokio::test]
async fn a_first_start_is_ready_within_a_second() {
    binary();
    let mut times = Vec::new();
    // A machine that is busy with something else may be slow once.
    for _ in 0..5 {
        let begun = Instant::now();
        let relay = RelayProcess::start(Profile::Open, &[]);
        Client::open(&relay.endpoint()).await;
        times.push(begun.elapsed());
    }
    let best = times.iter().min().expect("five");
    assert!(*best < Duration::from_secs(1), "{times:?}");
}

#[tokio::test]
async fn a_port_in_use_is_a_conflict_and_leaves_no_data() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let dir = scratch();
    let data = path(&dir, "data");
    let address = relay.endpoint().addr.to_string();
    let args = ["serve", "--listen", &address, "--data-dir", &data];
    refused(&args, &[], 4, &format!("cannot listen on {address}: "));
    assert!(!Path::new(&data).exists());
}

#[tokio::test]
async fn a_second_process_on_a_data_directory_is_refused_and_the_first_one_unharmed() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let data = relay.data_dir().to_str().expect("UTF-8").to_owned();
    let args = ["serve", "--listen", "127.0.0.1:0", "--data-dir", &data];
    refused(&args, &[], 4, &format!("process {}", relay.pid()));
    let mut client = Client::open(&relay.endpoint()).await;
    client.accept(event(&fresh_key(), 1, Vec::new(), "x")).await;
}

#[test]
fn a_data_directory_that_cannot_be_used_is_named() {
    let dir = scratch();
    let file = path(&dir, "file");
    fs::write(&file, "x").expect("it can be written");
    let inside = format!("{file}/data");
    for data in [&file, &inside] {
        let args = ["serve", "--listen", "127.0.0.1:0", "--data-dir", data];
        refused(&args, &[], 3, data);
    }
}

#[test]
fn wrong_settings_are_refused_in_one_line_that_names_them() {
    let wildcard = "--relay-url is needed when --listen is a wildcard address";
    let cases: [(&[&str], &str); 15] = [
        (&["--bogus"], "--bogus"),
        (&["--listen", "nowhere"], "--listen"),
        (&["--listen", "0.0.0.0:0"], wildcard),
        (&["--listen", "[::]:0"], wildcard),
        (&["--relay-url", "http://relay.example"], "--relay-url"),
        (&["--relay-url", "relay.example"], "--relay-url"),
        (&["--profile", "closed"], "--profile"),
        (&["--auth-timeout-ms", "soon"], "--auth-timeout-ms"),
        (&["--auth-timeout-ms", "0"], "--auth-timeout-ms"),
        (
            &["--send-queue-bytes", "1000"],
            "--send-queue-bytes must be at least ",
        ),
        (&["--community-host", "a/b"], "--community-host a/b"),
        (
            &["--community-host", "a,a"],
            "--community-host a is given twice",
        ),
        (&["--relay-secret-key", "abc"], "--relay-secret-key"),
        (
            &["--relay-secret-key-file", "/nonexistent/key"],
            "/nonexistent/key",
        ),
        (&["--config", "/nonexistent/config"], "/nonexistent/config"),
    ];
    for (args, text) in cases {
        let all = [&["serve"], args].concat();
        let code = if text.starts_with("/nonexistent") {
            3
        } else {
            2
        };
        refused(&all, &[], code, text);
    }
}

#[test]
fn the_host_of_the_relay_itself_is_no_further_host() {
    let dir = scratch();
    let data = path(&dir, "data");
    let args = ["serve", "--listen", "127.0.0.1:0", "--data-dir", &data];
    let hosts = [
        "--relay-url",
        "ws://a.example",
        "--community-host",
        "A.example",
    ];
    refused(
        &[&args[..], &hosts].concat(),
        &[],
        2,
        "is the host of the relay itself",
    );
}

#[test]
fn settings_of_parts_that_are_not_there_are_refused_by_name_and_what_asks_for_nothing_is_not() {
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);
    let cases: [Case<'_>; 6] = [
        (&["--database-url", "postgres://x"], &[], "--database-url"),
        (&["--redis-url=redis://x"], &[], "--redis-url"),
        (&["--require-membership"], &[], "--require-membership"),
        (
            &[],
            &[("HOLDFAST_DATABASE_URL", "postgres://x")],
            "HOLDFAST_DATABASE_URL",
        ),
        (
            &[],
            &[("HOLDFAST_ARTIFACT_INCREMENTAL_ENABLED", "true")],
            "HOLDFAST_ARTIFACT_INCREMENTAL_ENABLED",
        ),
        (
            &[],
            &[("HOLDFAST_MEMBERSHIP_SNAPSHOT_ENABLED", "yes")],
            "HOLDFAST_MEMBERSHIP_SNAPSHOT_ENABLED",
        ),
    ];
    for (args, envs, name) in cases {
        let all = [&["serve", "--listen", "127.0.0.1:0"], args].concat();
        refused(
            &all,
            envs,
            2,
            &format!("{name} is for a part that this version does not have"),
        );
    }
    Launch::new(Profile::Open)
        .args(["--quota", "off"])
        .env("HOLDFAST_ARTIFACT_INCREMENTAL_ENABLED", "0")
        .env("HOLDFAST_MEMBERSHIP_PUBLIC_ENABLED", "false")
        .start();
}

#[test]
fn settings_of_syncs_keep_their_bounds() {
    for (args, text) in [
        (["--sync-max-events", "0"], "--sync-max-events must be"),
        (["--sync-max-events", "1000001"], "at most 1000000"),
        (
            ["--sync-snapshot-budget-ms", "0"],
            "--sync-snapshot-budget-ms must be",
        ),
        (["--sync-snapshot-budget-ms", "120001"], "at most 120000"),
        (["--sweep-interval-ms", "off"], "--sweep-interval-ms"),
        (
            ["--artifact-sync-enabled", "maybe"],
            "--artifact-sync-enabled",
        ),
    ] {
        refused(&[&["serve"], &args[..]].concat(), &[], 2, text);
    }
}

#[tokio::test]
async fn syncs_are_set_by_flag_variable_and_file() {
    let dir = scratch();
    let config = path(&dir, "holdfast.toml");
    let text = "artifact-sync-enabled = false\nsync-max-events = 5\nsweep-interval-ms = 0\n\
                sync-snapshot-budget-ms = 1000\n";
    fs::write(&config, text).expect("it can be written");
    let shown = async |launch: Launch| {
        let relay = launch.start();
        info(&relay.endpoint()).await["artifacts"]["sync"]["max_events"].clone()
    };
    let from_file = || Launch::new(Profile::Open).args(["--config", &config]);
    assert_eq!(shown(from_file()).await, json!(null));
    let on = || from_file().env("HOLDFAST_ARTIFACT_SYNC_ENABLED", "on");
    assert_eq!(shown(on()).await, json!(5));
    let more = on().env("HOLDFAST_SYNC_MAX_EVENTS", "6");
    assert_eq!(shown(more).await, json!(6));
    let most = on()
        .env("HOLDFAST_SYNC_MAX_EVENTS", "6")
        .args(["--sync-max-events", "7"]);
    assert_eq!(shown(most).await, json!(7));
    let flag = from_file().arg("--artifact-sync-enabled");
    assert_eq!(shown(flag).await, json!(5));
}

#[tokio::test]
async fn flags_go_before_variables_and_variables_before_the_file() {
    let dir = scratch();
    let config = path(&dir, "holdfast.toml");
    let hosts = r#"community-host = ["file.example"]"#;
    fs::write(&config, format!("auth-timeout-ms = 60000\n{hosts}\n")).expect("it can be written");
    let closes = async |launch: Launch| {
        let relay = launch.start();
        let mut silent = Raw::open(&relay.endpoint(), &[]).await;
        let until_end = tokio::time::timeout(Duration::from_millis(1_500), silent.until_end());
        until_end.await.is_ok()
    };
    let from_file = || Launch::new(Profile::Workspace).args(["--config", &config]);
    assert!(!closes(from_file()).await);
    assert!(closes(from_file().env("HOLDFAST_AUTH_TIMEOUT_MS", "200")).await);
    let flag = from_file()
        .env("HOLDFAST_AUTH_TIMEOUT_MS", "200")
        .args(["--auth-timeout-ms", "60000"]);
    assert!(!closes(flag).await);
    assert!(
        closes(
            Launch::new(Profile::Workspace)
                .env("HOLDFAST_CONFIG", &config)
                .env("HOLDFAST_AUTH_TIMEOUT_MS", "200")
        )
        .await
    );

    let relay = from_file().start();
    Client::open(&relay.endpoint().with_host("file.example")).await;
    let relay = from_file()
        .args(["--community-host", "flag.example"])
        .start();
    Client::open(&relay.endpoint().with_host("flag.example")).await;
    let nobody = Raw::open(&relay.endpoint().with_host("file.example"), &[]).await;
    assert!(nobody.head.starts_with("HTTP/1.1 404 "));
}

#[test]
fn a_file_with_a_wrong_setting_is_refused_without_repeating_it() {
    let dir = scratch();
    let config = path(&dir, "holdfast.toml");
    let secret = key(77).reveal_hex();
    for text in [
        "listn = \"127.0.0.1:0\"\n".to_owned(),
        "listen = 7\n".to_owned(),
        format!("relay-secret-key = [\"{secret}\"]\n"),
        format!("relay-secret-key = \"{secret}\n"),
    ] {
        fs::write(&config, text).expect("it can be written");
        refused(&["serve", "--config", &config], &[], 2, &config);
        let output = run(&["serve", "--config", &config], &[]);
        assert!(!String::from_utf8_lossy(&output.stderr).contains(&secret[..16]));
    }
}

#[tokio::test]
async fn the_relay_key_can_be_given_and_belongs_to_its_database() {
    let dir = scratch();
    let key_file = path(&dir, "given.key");
    fs::write(&key_file, format!("{}\n", key(5).reveal_hex())).expect("it can be written");
    let launch = Launch::new(Profile::Open).args(["--relay-secret-key-file", &key_file]);
    let mut relay = launch.start();
    assert_eq!(
        info(&relay.endpoint()).await["self"],
        json!(key(5).public_key())
    );
    assert!(
        !relay.data_dir().join("relay.key").exists(),
        "a given key is not copied"
    );
    relay.terminate();
    let other = Launch::new(Profile::Open)
        .data_dir(relay.data_dir())
        .env("HOLDFAST_RELAY_SECRET_KEY", key(6).reveal_hex());
    match other.try_start() {
        Err(StartError::Exited { status, output }) => {
            assert_eq!(status.code(), Some(4), "{output}");
            assert!(
                output.contains(&key(5).public_key().to_string()),
                "{output}"
            );
            assert!(!output.contains(&key(6).reveal_hex()), "{output}");
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("another key must be refused"),
    }
    let both = ["serve", "--relay-secret-key-file", &key_file];
    let secret = key(6).reveal_hex();
    refused(
        &both,
        &[("HOLDFAST_RELAY_SECRET_KEY", &secret)],
        2,
        "not both",
    );
}

#[tokio::test]
async fn no_secret_is_ever_printed() {
    let secret = key(88).reveal_hex();
    let mut relay = Launch::new(Profile::Workspace)
        .env("HOLDFAST_RELAY_SECRET_KEY", &secret)
        .env("HOLDFAST_LOG", "trace")
        .start();
    let member = fresh_key();
    let mut client = Client::login(&relay.endpoint(), &member).await;
    assert_eq!(client.count(&json!({})).await, Ok(0));
    relay.terminate();
    let output = relay.output();
    assert!(output.contains("Authenticated"), "the log is on: {output}");
    assert!(!output.contains(&secret) && !output.contains(&member.reveal_hex()));
    let help = run(
        &["serve", "--help"],
        &[("HOLDFAST_RELAY_SECRET_KEY", &secret)],
    );
    let help = String::from_utf8(help.stdout).expect("help is UTF-8");
    assert!(help.contains("--relay-secret-key"));
    assert!(!help.contains(&secret));
}

#[test]
fn help_names_every_setting_its_variable_its_default_and_the_exit_codes() {
    let output = run(&["serve", "--help"], &[]);
    assert_eq!(output.status.code(), Some(0));
    let help = String::from_utf8(output.stdout).expect("help is UTF-8");
    for name in [
        "config",
        "listen",
        "relay-url",
        "data-dir",
        "relay-secret-key",
        "relay-secret-key-file",
        "profile",
        "community-host",
        "auth-timeout-ms",
        "send-queue-bytes",
        "artifact-sync-enabled",
        "sync-max-events",
        "sync-snapshot-budget-ms",
        "sweep-interval-ms",
    ] {
        let variable = format!("HOLDFAST_{}", name.to_uppercase().replace('-', "_"));
        assert!(help.contains(&format!("--{name} ")), "{name}: {help}");
        assert!(
            help.contains(&format!("[env: {variable}")),
            "{variable}: {help}"
        );
    }
    for default in [
        "127.0.0.1:7447",
        "./holdfast-data",
        "10000",
        "4194304",
        "workspace",
        "true",
        "4096",
        "30000",
        "2000",
    ] {
        assert!(
            help.contains(&format!("[default: {default}]")),
            "{default}: {help}"
        );
    }
    for command in ["serve", "keygen", "publish", "query"] {
        let output = run(&[command, "--help"], &[]);
        let help = String::from_utf8(output.stdout).expect("help is UTF-8");
        assert!(help.contains(
            "Exit codes: 0 done, 1 refused, 2 wrong usage, 3 unreachable or missing, 4 conflict."
        ));
    }
    assert_eq!(run(&[], &[]).status.code(), Some(2));
    let version = run(&["--version"], &[]);
    assert_eq!(
        version.stdout,
        format!("holdfast {}\n", env!("CARGO_PKG_VERSION")).into_bytes()
    );
}

#[tokio::test]
async fn a_peer_that_neither_reads_nor_closes_does_not_hold_a_stop_up_for_long() {
    let mut relay = RelayProcess::start(Profile::Open, &[]);
    let endpoint = relay.endpoint();
    let _silent = Raw::open(&endpoint, &[]).await;
    let _idle = tokio::net::TcpStream::connect(endpoint.addr)
        .await
        .expect("it listens");
    let begun = Instant::now();
    assert_eq!(relay.terminate().code(), Some(0));
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
}
