//! Hosts: how they are normalised, which community they bind, and which URL signed content then names.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::ids::{CommunityId, Uuid};
use crate::nostr::host::{bind_host, is_loopback, normalise_host};
use crate::nostr::{UrlError, WebUrl};

fn community(byte: u8) -> CommunityId {
    CommunityId(Uuid::from_bytes([byte; 16]).unwrap())
}

fn hosts(list: &[(&str, u8)]) -> BTreeMap<String, CommunityId> {
    list.iter()
        .map(|(host, byte)| ((*host).to_owned(), community(*byte)))
        .collect()
}

fn bind(host: &str, configured: &[(&str, u8)], relay: &str) -> Option<(CommunityId, String)> {
    let bound = bind_host(host, &hosts(configured), &relay.parse().unwrap())?;
    Some((bound.community, bound.relay.to_string()))
}

#[test]
fn hosts_are_normalised_once() {
    for (given, normal) in [
        ("Example.COM", "example.com"),
        (" example.com\t", "example.com"),
        ("example.com:443", "example.com"),
        ("example.com:80", "example.com"),
        ("example.com:80:80", "example.com:80"),
        ("example.com:8080", "example.com:8080"),
        ("example.com:3443", "example.com:3443"),
        ("example.com.", "example.com"),
        ("example.com..", "example.com."),
        ("example.com.:443", "example.com"),
        ("[::1]:80", "[::1]"),
    ] {
        assert_eq!(normalise_host(given).as_deref(), Some(normal), "{given}");
    }
    for empty in ["", " ", ":443", ".", ".:80"] {
        assert_eq!(normalise_host(empty), None, "{empty:?}");
    }
}

#[test]
fn only_configured_hosts_bind() {
    let configured = [("a.example", 1), ("b.example:3443", 2)];
    let relay = "wss://a.example";
    assert_eq!(
        bind("A.example:443", &configured, relay),
        Some((community(1), "wss://a.example/".to_owned()))
    );
    let second = Some((community(2), "wss://b.example:3443/".to_owned()));
    assert_eq!(bind("b.example:3443", &configured, relay), second);
    for other in [
        "b.example",
        "a.example:3443",
        "c.example",
        "",
        "localhost",
        "127.0.0.1",
        "[::1]",
        "a.example.evil",
    ] {
        assert_eq!(bind(other, &configured, relay), None, "{other}");
    }
}

#[test]
fn loopback_hosts_bind_the_relay_that_is_loopback_itself() {
    let configured = [
        ("127.0.0.1:7447", 1),
        ("other.example", 2),
        ("localhost:9", 3),
    ];
    let relay = "ws://127.0.0.1:7447/relay";
    for (host, url) in [
        ("127.0.0.1:7447", "ws://127.0.0.1:7447/relay"),
        ("localhost:7447", "ws://localhost:7447/relay"),
        ("LOCALHOST", "ws://localhost/relay"),
        ("127.8.9.10:1", "ws://127.8.9.10:1/relay"),
        ("[::1]:55555", "ws://[::1]:55555/relay"),
    ] {
        assert_eq!(
            bind(host, &configured, relay),
            Some((community(1), url.to_owned())),
            "{host}"
        );
    }
    assert_eq!(
        bind("localhost:9", &configured, relay).unwrap().0,
        community(3),
        "a host with a community of its own"
    );
    assert_eq!(
        bind("other.example", &configured, relay).unwrap().0,
        community(2)
    );
    for other in [
        "128.0.0.1:7447",
        "[::2]:7447",
        "0.0.0.0",
        "127.0.0.1.evil",
        "localhost.evil",
        "127.1",
        "[::1",
        "127.0.0.1:x",
    ] {
        assert_eq!(bind(other, &configured, relay), None, "{other}");
    }
    assert_eq!(
        bind("localhost", &[("other.example", 2)], relay),
        None,
        "the relay's own host has no community"
    );
}

#[test]
fn the_relays_own_url_keeps_a_port_that_is_not_its_schemes() {
    let configured = [("a.example", 1)];
    assert_eq!(
        bind("a.example:443", &configured, "ws://a.example:443")
            .unwrap()
            .1,
        "ws://a.example:443/"
    );
    assert_eq!(
        bind("a.example:80", &configured, "wss://a.example")
            .unwrap()
            .1,
        "wss://a.example/"
    );
}

#[test]
fn loopback_is_recognised_with_and_without_a_port() {
    for local in [
        "localhost",
        "LocalHost:1",
        "127.0.0.1",
        "127.255.255.255:65535",
        "[::1]",
        "[::1]:1",
        "[0:0::1]",
    ] {
        assert!(is_loopback(local), "{local}");
    }
    for other in [
        "",
        "local",
        "localhost.",
        "126.0.0.1",
        "::1",
        "[::]",
        "0127.0.0.1",
        "127.0.0.1:65536",
        "localhost:",
    ] {
        assert!(!is_loopback(other), "{other}");
    }
}

#[test]
fn urls_are_read_strictly() {
    for (given, written) in [
        ("WSS://Example.COM:443", "wss://example.com/"),
        ("ws://h:7/p/?q=%20", "ws://h:7/p/?q=%20"),
        ("https://h?q", "https://h/?q"),
        ("http://[0:0:0:0:0:0:0:1]:80/", "http://[::1]/"),
    ] {
        assert_eq!(given.parse::<WebUrl>().unwrap().to_string(), written);
    }
    for bad in [
        "",
        "example.com",
        "ftp://h",
        "ws:/h",
        "ws://",
        "ws:///p",
        "ws://h:",
        "ws://h:0",
        "ws://h:080",
        "ws://h:65536",
        "ws://h:+1",
        "ws://h:1:1",
        "ws://u@h",
        "ws://h/a b",
        "ws://h/#",
        "ws://é",
        "ws://[::1",
        "ws://[x]",
        "ws://[::1]x:1",
        "ws://.",
        "ws://h\\x",
    ] {
        assert_eq!(bad.parse::<WebUrl>(), Err(UrlError), "{bad}");
    }
}

proptest! {
    #[test]
    fn written_urls_are_read_as_themselves(
        scheme in "(ws|wss|http|https)", host in "[A-Za-z0-9-]{1,8}(\\.[a-z]{2,3}){0,2}", port in prop::option::of(1u16..), path in "(/[a-z?=%/]{0,6})?",
    ) {
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let url: WebUrl = format!("{scheme}://{host}{port}{path}").parse().unwrap();
        prop_assert_eq!(url.to_string().parse::<WebUrl>(), Ok(url.clone()));
        prop_assert_eq!(url.at_authority(&url.authority()), Ok(url));
    }

    #[test]
    fn no_host_binds_unless_it_is_configured_or_loopback(host in "\\PC{0,20}") {
        let configured = [("a.example", 1)];
        let bound = bind(&host, &configured, "wss://a.example");
        prop_assert_eq!(bound.is_some(), normalise_host(&host).as_deref() == Some("a.example"));
    }
}
