//! The client commands as people and scripts meet them: what they print in a pipe, and how they exit.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use holdfast_core::ids::ChannelId;
use holdfast_core::nostr::{Event, PubKey, SecretKey};
use holdfast_tests::build::{self, fresh_channel};
use holdfast_tests::relay::{Profile, RelayProcess, binary};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory with a key file, and a relay to talk to.
struct Desk {
    relay: RelayProcess,
    dir: TempDir,
}

impl Desk {
    fn new(profile: Profile) -> Desk {
        let desk = Desk {
            relay: RelayProcess::start(profile, &[]),
            dir: TempDir::with_prefix("holdfast-").expect("a directory can be made"),
        };
        let made = desk.run(&["keygen", "--out", &desk.path("me.key")], "");
        assert_eq!(made.status.code(), Some(0));
        desk
    }

    fn path(&self, name: &str) -> String {
        let path = self.dir.path().join(name);
        path.to_str().expect("a temporary path is UTF-8").to_owned()
    }

    fn key(&self) -> SecretKey {
        let text = fs::read_to_string(self.path("me.key")).expect("it was made");
        text.trim().parse().expect("a key")
    }

    /// Runs the binary with the relay and the key file in the environment.
    fn run(&self, args: &[&str], stdin: &str) -> Output {
        let mut child = Command::new(binary())
            .args(args)
            .env("HOLDFAST_RELAY", self.relay.url())
            .env("HOLDFAST_KEY_FILE", self.path("me.key"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut input = child.stdin.take().expect("it is piped");
        // A command that reads nothing may have ended.
        let _ = input.write_all(stdin.as_bytes());
        drop(input);
        child.wait_with_output().expect("it ends")
    }

    /// A command that must succeed; its lines as JSON.
    fn lines(&self, args: &[&str], stdin: &str) -> Vec<Value> {
        let output = self.run(args, stdin);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {errors}");
        assert!(errors.is_empty(), "{errors}");
        let text = String::from_utf8(output.stdout).expect("answers are UTF-8");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("a pipe gets JSON lines"))
            .collect()
    }

    /// A command that must fail with this code and one line that holds this text.
    fn fails(&self, args: &[&str], code: i32, text: &str) {
        let output = self.run(args, "");
        let line = String::from_utf8(output.stderr).expect("messages are UTF-8");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {line}");
        assert!(
            line.starts_with("holdfast: ") && line.contains(text),
            "{args:?}: {line}"
        );
        assert_eq!(line.matches('\n').count(), 1, "{args:?}: {line}");
    }

    fn channel(&self) -> ChannelId {
        let channel = fresh_channel();
        let create = build::create_channel(&self.key(), channel, &[]);
        self.lines(&["publish", &create.to_json()], "");
        channel
    }
}

#[test]
fn a_new_key_is_readable_by_its_owner_only_and_overwrites_nothing() {
    let desk = Desk::new(Profile::Open);
    let path = desk.path("other.key");
    let made = desk.run(&["keygen", "--out", &path], "");
    let mode = fs::metadata(&path)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let key: SecretKey = fs::read_to_string(&path)
        .expect("text")
        .trim()
        .parse()
        .expect("a key");
    let printed = String::from_utf8(made.stdout).expect("UTF-8");
    assert_eq!(printed, format!("public {}\n", key.public_key()));
    desk.fails(&["keygen", "--out", &path], 4, &path);
    desk.fails(
        &["keygen", "--out", "/nonexistent/key"],
        3,
        "/nonexistent/key",
    );

    let shown = String::from_utf8(desk.run(&["keygen"], "").stdout).expect("UTF-8");
    let lines: Vec<&str> = shown.lines().collect();
    let [secret, public] = lines[..] else {
        panic!("two lines: {shown}");
    };
    let secret: SecretKey = secret
        .strip_prefix("secret ")
        .expect("first")
        .parse()
        .expect("a key");
    let public: PubKey = public
        .strip_prefix("public ")
        .expect("second")
        .parse()
        .expect("a key");
    assert_eq!(secret.public_key(), public);
}

#[test]
fn what_is_published_is_found_again() {
    let desk = Desk::new(Profile::Open);
    let said = desk.lines(
        &[
            "publish",
            "--kind",
            "1",
            "--content",
            "hello",
            "--tag",
            "t=greeting=1",
        ],
        "",
    );
    assert_eq!(said[0]["accepted"], true);
    let found = desk.lines(&["query", "--kind", "1"], "");
    let event = Event::from_json(&found[0].to_string()).expect("an event");
    assert_eq!(event.pubkey, desk.key().public_key());
    assert_eq!(event.content, "hello");
    assert_eq!(event.tags, [["t", "greeting=1"]]);
    assert_eq!(said[0]["event_id"], json!(event.id));
    for filter in [
        vec!["query", "--tag", "t=greeting=1"],
        vec!["query", "{\"kinds\":[7]}", "{\"#t\":[\"greeting=1\"]}"],
        vec![
            "query",
            "--author",
            found[0]["pubkey"].as_str().expect("hex"),
            "--limit",
            "5",
        ],
        vec![
            "query",
            "--id",
            found[0]["id"].as_str().expect("hex"),
            "--since",
            "1",
        ],
    ] {
        assert_eq!(desk.lines(&filter, ""), found, "{filter:?}");
    }
    assert_eq!(
        desk.lines(&["query", "--kind", "1", "--count"], ""),
        [json!({ "count": 1 })]
    );
    assert!(desk.lines(&["query", "--until", "1"], "").is_empty());
}

#[test]
fn an_event_can_be_given_signed_or_unsigned_as_an_argument_or_on_standard_input() {
    let desk = Desk::new(Profile::Open);
    let signed = build::event(&build::fresh_key(), 1, Vec::new(), "signed elsewhere");
    // The author of a signed event need not be the caller, but the caller is the one who proves who asks.
    let anonymous = Command::new(binary())
        .args(["publish", "--relay", desk.relay.url(), &signed.to_json()])
        .env_remove("HOLDFAST_KEY_FILE")
        .output()
        .expect("the binary runs");
    assert_eq!(
        anonymous.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&anonymous.stderr)
    );
    let unsigned = r#"{"kind":1,"tags":[["t","x"]],"content":"unsigned","created_at":1700000000}"#;
    desk.lines(&["publish", "-"], unsigned);
    desk.lines(&["publish", r#"{"kind":1}"#], "");
    let found = desk.lines(&["query", "--tag", "t=x"], "");
    assert_eq!(found[0]["created_at"], 1_700_000_000);
    assert_eq!(desk.lines(&["query", "--kind", "1"], "").len(), 3);
}

#[test]
fn artifacts_are_asked_for_by_type_and_view() {
    let desk = Desk::new(Profile::Workspace);
    let channel = desk.channel();
    let d = build::fresh_artifact();
    let create = build::Revision::create(d, channel).sign(&desk.key());
    desk.lines(&["publish", &create.to_json()], "");
    let (h, d) = (channel.to_string(), d.to_string());
    let by_id = format!("d={d}");
    for args in [
        vec!["query", "--type", "test.note", "--h", &h],
        vec!["query", "--view", "head", "--tag", &by_id],
        vec!["query", "--view", "history", "--tag", &by_id],
    ] {
        let found = desk.lines(&args, "");
        assert_eq!(found.len(), 1, "{args:?}");
        assert_eq!(found[0]["id"], json!(create.id));
    }
    let mut again = build::Revision::create(d.parse().expect("an id"), channel);
    again.content = "another".to_owned();
    let again = again.sign(&desk.key()).to_json();
    desk.fails(
        &["publish", &again],
        4,
        "conflict: artifact identity is taken",
    );
    desk.fails(&["query", "--view", "head"], 1, "head requires #d");
}

#[test]
fn each_way_to_fail_has_its_code_and_one_line() {
    let desk = Desk::new(Profile::Workspace);
    desk.fails(
        &["publish", "--kind", "1", "--content", "x"],
        1,
        "restricted: ",
    );
    desk.fails(
        &["query", "{\"kind\":1}"],
        1,
        "invalid filters: unknown filter field kind",
    );
    desk.fails(&["query", "{"], 2, "FILTER");
    desk.fails(&["query", "{}", "--kind", "1"], 2, "cannot be used with");
    desk.fails(&["query", "--tag", "t"], 2, "name=value");
    desk.fails(&["query", "--kind", "many"], 2, "--kind");
    desk.fails(&["publish"], 2, "--kind");
    desk.fails(&["publish", "{\"kind\":1,\"sig\":\"\"}"], 2, "EVENT");
    desk.fails(&["publish", "{\"kind\":1,\"tags\":[[]]}"], 2, "EVENT");
    desk.fails(&["query", "--relay", "relay.example"], 2, "--relay");
    desk.fails(&["query", "--relay", "wss://relay.example"], 2, "TLS");
    desk.fails(
        &["query", "--key-file", "/nonexistent/key"],
        3,
        "/nonexistent/key",
    );
    let no_key = desk.path("no.key");
    fs::write(&no_key, "hello").expect("it can be written");
    desk.fails(&["query", "--key-file", &no_key], 2, &no_key);
    assert!(Path::new(&no_key).exists());
    desk.fails(
        &["query", "--relay", "ws://127.0.0.1:1"],
        3,
        "ws://127.0.0.1:1/",
    );
    // It takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("ws://{}", silent.local_addr().expect("it is bound"));
    desk.fails(
        &["query", "--relay", &url, "--timeout-ms", "200"],
        3,
        "no answer in time",
    );
    let without_key = Command::new(binary())
        .args(["query", "--relay", desk.relay.url()])
        .env_remove("HOLDFAST_KEY_FILE")
        .output()
        .expect("the binary runs");
    assert_eq!(without_key.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&without_key.stderr),
        "holdfast: missing Nostr auth\n"
    );
}

#[test]
fn a_refused_channel_is_told_and_counts_as_refused() {
    let desk = Desk::new(Profile::Workspace);
    let channel = desk.channel();
    let again = build::create_channel(&desk.key(), channel, &[]).to_json();
    let output = desk.run(&["publish", &again], "");
    assert_eq!(output.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["message"], "duplicate: channel already exists");
}
