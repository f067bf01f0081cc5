//! The page for people who open the relay's address in a browser. No script, nothing loaded from elsewhere.

/// The page; `relay_url` is absent for an unmapped host.
pub(super) fn page(relay_url: Option<&str>) -> String {
    let address = match relay_url {
        Some(url) => format!(
            "<p>Add this address to a Nostr client:</p><p><code>{}</code></p>",
            escape(url)
        ),
        None => "<p>No community is configured for this host.</p>".to_owned(),
    };
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Holdfast relay</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 38rem; margin: 4rem auto; padding: 0 1rem; }}
code {{ background: #8882; padding: .2em .4em; border-radius: .3em; overflow-wrap: anywhere; }}
</style>
</head>
<body>
<h1>Holdfast</h1>
<p>This is a Nostr relay for channels and their artifacts, version {version}.</p>
{address}
<p>What it supports and its limits: <a href="/info">relay information</a>.</p>
</body>
</html>
"#,
        version = env!("CARGO_PKG_VERSION"),
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_escaped() {
        let page = page(Some("ws://a/<script>\"&"));
        assert!(page.contains("ws://a/&lt;script&gt;&quot;&amp;"));
    }
}
