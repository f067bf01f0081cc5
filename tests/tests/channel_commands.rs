//! The channel commands: who may give which, in which words the others are refused, and what holds from the moment of an OK.

use std::slice::from_ref;

use holdfast_core::ids::ChannelId;
use holdfast_core::nostr::{Event, Kind, PubKey, SecretKey};
use holdfast_tests::build::{self, tag};
use holdfast_tests::client::Endpoint;
use holdfast_tests::person::Person;
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::rules;
use serde_json::json;

const NOT_A_MEMBER: &str = "restricted: not a channel member";
const UNAUTHORIZED: &str = "invalid: actor not authorized";
const NOT_ELEVATED: &str =
    "invalid: actor not authorized for name/about/archived/visibility/ttl changes";
const NO_GRANT: &str = "invalid: only owners/admins may grant elevated roles";
const NO_ROLE_CHANGE: &str = "invalid: only owners/admins may change an active member's role";
const INACTIVE: &str = "invalid: actor is not an active member";
const NOT_MODERATOR: &str = "invalid: must be event author or channel owner/admin";
const NOT_OWNER: &str = "invalid: only owner can delete group";

/// Someone in each role, and one who is no member.
struct Cast {
    people: Vec<Person>,
}

/// The columns of the permission table.
const ROLES: [&str; 6] = ["owner", "admin", "member", "bot", "guest", "nobody"];

impl Cast {
    async fn arrive(endpoint: &Endpoint) -> Cast {
        let mut people = Vec::new();
        for _ in ROLES {
            people.push(Person::arrive(endpoint).await);
        }
        Cast { people }
    }

    /// A channel in which everybody has their role.
    async fn channel(&mut self, visibility: &str) -> ChannelId {
        let channel = build::fresh_channel();
        let members: Vec<PubKey> = self.people.iter().map(|person| person.pubkey).collect();
        let owner = &mut self.people[0];
        let create = build::create_channel(&owner.key, channel, &[&["visibility", visibility]]);
        owner.ws.accept(create).await;
        for (role, member) in ROLES.iter().zip(members).take(5).skip(1) {
            owner.add(channel, member, Some(role)).await;
        }
        channel
    }
}

/// One line of the table: what is tried, and the refusal of each role, empty where it may.
struct Permission {
    what: &'static str,
    command: fn(&SecretKey, &Target) -> Event,
    refusals: [&'static str; 6],
}

/// What a command is about.
struct Target {
    channel: ChannelId,
    /// A member of no rank.
    member: PubKey,
    /// Somebody who is no member.
    stranger: PubKey,
    /// A message of the owner's.
    message: Event,
}

const PERMISSIONS: [Permission; 12] = [
    Permission {
        what: "post",
        command: |key, to| build::chat(key, to.channel, "hello"),
        refusals: ["", "", "", "", NOT_A_MEMBER, ""],
    },
    Permission {
        what: "set the topic",
        command: |key, to| build::edit_channel(key, to.channel, &[&["topic", "news"]]),
        refusals: [
            "",
            "",
            "",
            "",
            "invalid: not a member",
            "invalid: not a member",
        ],
    },
    Permission {
        what: "set the name",
        command: |key, to| build::edit_channel(key, to.channel, &[&["name", "news"]]),
        refusals: [
            "",
            "",
            NOT_ELEVATED,
            NOT_ELEVATED,
            NOT_ELEVATED,
            NOT_ELEVATED,
        ],
    },
    Permission {
        what: "close",
        command: |key, to| build::edit_channel(key, to.channel, &[&["visibility", "private"]]),
        refusals: [
            "",
            "",
            NOT_ELEVATED,
            NOT_ELEVATED,
            NOT_ELEVATED,
            NOT_ELEVATED,
        ],
    },
    Permission {
        what: "archive",
        command: |key, to| build::archive(key, to.channel, true),
        refusals: [
            "",
            "",
            NOT_ELEVATED,
            NOT_ELEVATED,
            NOT_ELEVATED,
            NOT_ELEVATED,
        ],
    },
    Permission {
        what: "add a guest",
        command: |key, to| build::put_user(key, to.channel, to.stranger, Some("guest")),
        refusals: ["", "", "", "", UNAUTHORIZED, ""],
    },
    Permission {
        what: "add an admin",
        command: |key, to| build::put_user(key, to.channel, to.stranger, Some("admin")),
        refusals: ["", "", NO_GRANT, NO_GRANT, UNAUTHORIZED, NO_GRANT],
    },
    Permission {
        what: "make a member a bot",
        command: |key, to| build::put_user(key, to.channel, to.member, Some("bot")),
        refusals: [
            "",
            "",
            NO_ROLE_CHANGE,
            NO_ROLE_CHANGE,
            UNAUTHORIZED,
            NO_ROLE_CHANGE,
        ],
    },
    Permission {
        what: "remove a member",
        command: |key, to| build::remove_user(key, to.channel, to.member),
        refusals: ["", "", UNAUTHORIZED, UNAUTHORIZED, UNAUTHORIZED, INACTIVE],
    },
    Permission {
        what: "remove another's message",
        command: |key, to| build::remove_event(key, to.channel, to.message.id),
        refusals: [
            "",
            "",
            NOT_MODERATOR,
            NOT_MODERATOR,
            NOT_A_MEMBER,
            NOT_MODERATOR,
        ],
    },
    Permission {
        what: "delete the channel",
        command: |key, to| build::delete_channel(key, to.channel),
        refusals: ["", NOT_OWNER, NOT_OWNER, NOT_OWNER, NOT_OWNER, NOT_OWNER],
    },
    Permission {
        what: "leave",
        command: |key, to| build::leave(key, to.channel),
        refusals: [
            "invalid: cannot remove the last owner",
            "",
            "",
            "",
            "",
            INACTIVE,
        ],
    },
];

#[tokio::test]
async fn each_role_may_what_the_table_says_and_is_refused_in_its_words() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut cast = Cast::arrive(&relay.endpoint()).await;
    let member = build::fresh_key().public_key();
    let stranger = build::fresh_key().public_key();
    for permission in &PERMISSIONS {
        for (at, role) in ROLES.iter().enumerate() {
            let channel = cast.channel("open").await;
            let message = cast.people[0].chat(channel, "the owner's").await;
            cast.people[0].add(channel, member, Some("member")).await;
            let target = Target {
                channel,
                member,
                stranger,
                message,
            };
            let actor = &mut cast.people[at];
            let command = (permission.command)(&actor.key, &target);
            let verdict = actor.ws.publish(&command).await;
            let refusal = permission.refusals[at];
            let what = format!("{role} tries to {}", permission.what);
            assert_eq!(verdict.message, refusal, "{what}");
            assert_eq!(verdict.accepted, refusal.is_empty(), "{what}");
        }
    }
}

#[tokio::test]
async fn every_role_reads_and_a_private_channel_is_read_by_its_members_only() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut cast = Cast::arrive(&relay.endpoint()).await;
    for visibility in ["open", "private"] {
        let channel = cast.channel(visibility).await;
        let message = cast.people[0].chat(channel, "read this").await;
        let filter = json!({"kinds": [9], "#h": [channel]});
        for (at, role) in ROLES.iter().enumerate() {
            let reader = &mut cast.people[at];
            if visibility == "private" && *role == "nobody" {
                let refusal = reader.ws.refused_req(&filter).await;
                assert_eq!(refusal, NOT_A_MEMBER);
                assert_eq!(reader.http.rows(filter.clone()).await, []);
            } else {
                let seen = reader.ws.stored(&filter).await;
                assert_eq!(seen, from_ref(&message), "{role} of a {visibility} channel");
            }
        }
    }
}

/// What is wrong with a command itself, whoever gives it.
#[tokio::test]
async fn malformed_commands_are_refused_in_known_words_and_change_nothing() {
    rules!("CL-NTC-3");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let channel = a.open_channel().await;
    let h = channel.to_string();
    let b = build::fresh_key().public_key().to_string();
    let id = "0".repeat(64);
    let metadata = json!({"kinds": [39000, 39001, 39002], "#d": [channel]});
    let before = a.ws.stored(&metadata).await;
    let cases: &[(Kind, &[&[&str]], &str)] = &[
        (
            9007,
            &[&["about", "x"]],
            "invalid: channel name is required",
        ),
        (
            9007,
            &[&["name", "# "]],
            "invalid: channel name is required",
        ),
        (
            9007,
            &[&["name", "x"], &["visibility", "secret"]],
            "invalid: invalid visibility: secret",
        ),
        (
            9007,
            &[&["name", "x"], &["channel_type", "huddle"]],
            "invalid: invalid channel_type: huddle",
        ),
        (
            9007,
            &[&["name", "x"], &["channel_type", "dm"]],
            "invalid: not supported: channel_type dm",
        ),
        (
            9007,
            &[&["name", "x"], &["t", "label"]],
            "invalid: not supported: t tag on kind:9007",
        ),
        (
            9007,
            &[&["name", "x"], &["unlisted", "true"]],
            "invalid: not supported: unlisted tag on kind:9007",
        ),
        (
            9007,
            &[&["name", "x"], &["h", &h]],
            "duplicate: channel already exists",
        ),
        (9000, &[&["h", &h]], "invalid: missing p tag"),
        (
            9000,
            &[&["h", &h], &["p", &b], &["role", "king"]],
            "invalid: invalid role: king",
        ),
        (
            9000,
            &[&["h", &h], &["p", &b, "king"]],
            "invalid: invalid role: king",
        ),
        (
            9000,
            &[&["h", &h], &["p", &b, "bot"], &["role", "guest"]],
            "invalid: the role in the p tag and the role tag differ",
        ),
        (
            9000,
            &[&["p", &b]],
            "invalid: channel-scoped events must include an h tag",
        ),
        (9001, &[&["h", &h]], "invalid: missing p tag"),
        (
            9002,
            &[&["h", &h]],
            "invalid: kind:9002 must include at least one metadata tag (name, about, topic, purpose, visibility, archived)",
        ),
        (
            9002,
            &[&["h", &h], &["channel_type", "forum"], &["name", "x"]],
            "invalid: not supported: channel_type tag on kind:9002",
        ),
        (
            9002,
            &[&["h", &h], &["archived", "yes"]],
            "invalid: invalid archived value: yes (must be \"true\" or \"false\")",
        ),
        (
            9002,
            &[&["h", &h], &["visibility", "none"], &["name", "x"]],
            "invalid: invalid visibility value: none (must be \"open\" or \"private\")",
        ),
        (
            9002,
            &[&["h", &h], &["ttl", "60"], &["name", "x"]],
            "invalid: not supported: ttl tag on kind:9002",
        ),
        (
            9005,
            &[&["h", &h]],
            "invalid: deletion events must reference exactly one target via e or a tag (got e=0, a=0)",
        ),
        (
            9005,
            &[&["h", &h], &["e", &id], &["e", &id]],
            "invalid: deletion events must reference exactly one target via e or a tag (got e=2, a=0)",
        ),
        (
            9005,
            &[&["h", &h], &["a", "1:2:3"]],
            "invalid: missing e tag for target event",
        ),
        (
            9005,
            &[&["h", &h], &["e", &id]],
            "invalid: target event not found",
        ),
        (9009, &[&["h", &h]], "restricted: unknown event kind"),
        (9021, &[], "invalid: join request must include an h tag"),
        (
            9022,
            &[],
            "invalid: channel-scoped events must include an h tag",
        ),
    ];
    for (kind, tags, text) in cases {
        let tags = tags.iter().map(|elements| tag(elements)).collect();
        let event = build::event(&a.key, *kind, tags, "");
        assert_eq!(a.ws.refuse(event).await, *text, "kind {kind}");
    }
    assert_eq!(a.ws.stored(&[metadata]).await, before);
    let created = json!({"kinds": [39000], "#P": [a.pubkey]});
    assert_eq!(
        a.ws.stored(&[created]).await.len(),
        1,
        "no channel came of it"
    );
    let commands = json!({"kinds": [9000, 9001, 9002, 9005, 9007, 9021, 9022], "#h": [channel]});
    let stored = a.ws.stored(&[commands]).await;
    assert_eq!(stored.len(), 1, "only the creation is stored: {stored:?}");
}

#[tokio::test]
async fn the_last_owner_stays_until_there_is_another() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let channel = a.open_channel().await;
    let demote = build::put_user(&a.key, channel, a.pubkey, Some("admin"));
    assert_eq!(
        a.ws.refuse(demote).await,
        "invalid: cannot demote the last owner — transfer ownership first"
    );
    let remove = build::remove_user(&a.key, channel, a.pubkey);
    assert_eq!(
        a.ws.refuse(remove).await,
        "invalid: cannot remove the last owner"
    );
    a.add(channel, b.pubkey, Some("owner")).await;
    let leave = build::leave(&a.key, channel);
    a.ws.accept(leave).await;
    let delete = build::delete_channel(&b.key, channel);
    b.ws.accept(delete).await;
}

/// A command that finds everything as it asks is accepted and leaves no event.
#[tokio::test]
async fn commands_without_effect_are_accepted_and_not_stored() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let channel = a.open_channel().await;
    a.add(channel, b.pubkey, Some("bot")).await;
    let stored_before = a.ws.stored(&[json!({"#h": [channel]})]).await;
    let idle = [
        build::join(&b.key, channel),
        build::put_user(&b.key, channel, b.pubkey, None),
        build::put_user(&b.key, channel, b.pubkey, Some("bot")),
    ];
    for command in idle {
        let verdict = b.ws.publish(&command).await;
        assert!(verdict.accepted, "{verdict:?}");
        assert!(verdict.message.starts_with("duplicate: "), "{verdict:?}");
    }
    let same_name = build::edit_channel(&a.key, channel, &[&["name", "a channel"]]);
    assert!(a.ws.publish(&same_name).await.accepted);
    let nobody = build::fresh_key().public_key();
    let remove_nobody = build::remove_user(&a.key, channel, nobody);
    assert!(a.ws.publish(&remove_nobody).await.accepted);
    assert_eq!(
        a.ws.stored(&[json!({"#h": [channel]})]).await,
        stored_before
    );
}
