//! A WebSocket connection without a library: a test decides about every frame and every byte, and about not reading at all.
//! Ordinary conversations belong to `client`.

use holdfast_core::nostr::{Draft, SecretKey, kinds};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::build;
use crate::client::{Endpoint, within};
use crate::frame::{Frame, Verdict};

/// Bytes of the head of an answer that are read.
const HEAD_BYTES_MAX: usize = 16_384;
/// The bit that says a frame is the last of its message.
const FIN: u8 = 0x80;
/// The bit that an extension such as compression uses.
pub const RSV1: u8 = 0x40;

/// Operation codes (RFC 6455).
pub mod opcode {
    /// Continues a message.
    pub const CONTINUATION: u8 = 0x0;
    /// Begins a text message.
    pub const TEXT: u8 = 0x1;
    /// Begins a binary message.
    pub const BINARY: u8 = 0x2;
    /// Ends the connection.
    pub const CLOSE: u8 = 0x8;
    /// Asks for a pong.
    pub const PING: u8 = 0x9;
    /// Answers a ping.
    pub const PONG: u8 = 0xa;
}

/// One frame of the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFrame {
    /// The first byte: FIN, reserved bits and operation code.
    pub first: u8,
    /// What it carries.
    pub payload: Vec<u8>,
}

impl RawFrame {
    /// The code and the text of a close frame.
    pub fn closing(&self) -> Option<(u16, String)> {
        let is_close = self.first == FIN | opcode::CLOSE;
        let code = self.payload.first_chunk::<2>().filter(|_| is_close)?;
        let text = String::from_utf8_lossy(&self.payload[2..]).into_owned();
        Some((u16::from_be_bytes(*code), text))
    }
}

/// A connection after the handshake.
pub struct Raw {
    tcp: TcpStream,
    relay_url: String,
    /// The head of the answer to the handshake, as it came.
    pub head: String,
}

impl Raw {
    /// Connects and shakes hands; `further` are header lines without line ends.
    ///
    /// # Panics
    /// If the relay does not answer with a complete head.
    pub async fn open(endpoint: &Endpoint, further: &[&str]) -> Raw {
        let mut tcp = within("a connection", TcpStream::connect(endpoint.addr))
            .await
            .expect("the relay listens");
        tcp.set_nodelay(true).expect("a TCP option is settable");
        let mut request = format!(
            "GET / HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n",
            endpoint.host
        );
        for line in further {
            request.push_str(line);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        let mut head = Vec::new();
        within("the handshake", async {
            tcp.write_all(request.as_bytes())
                .await
                .expect("the relay reads the head");
            while !head.ends_with(b"\r\n\r\n") {
                assert!(head.len() < HEAD_BYTES_MAX, "the head never ends");
                head.push(tcp.read_u8().await.expect("the relay answers"));
            }
        })
        .await;
        Raw {
            tcp,
            relay_url: endpoint.ws_url(),
            head: String::from_utf8(head).expect("a head is text"),
        }
    }

    /// Connects, takes the challenge and authenticates a key.
    ///
    /// # Panics
    /// If the relay refuses the key.
    pub async fn login(endpoint: &Endpoint, key: &SecretKey) -> Raw {
        let mut raw = Raw::open(endpoint, &[]).await;
        let Frame::Auth { challenge } = raw.next_message().await else {
            panic!("a connection begins with AUTH");
        };
        let event = Draft {
            created_at: build::now(),
            kind: kinds::AUTH,
            tags: vec![
                build::tag(&["relay", &raw.relay_url]),
                build::tag(&["challenge", &challenge]),
            ],
            content: String::new(),
        }
        .sign(key);
        raw.text(&json!(["AUTH", event]).to_string()).await;
        let Frame::Ok { verdict, .. } = raw.next_message().await else {
            panic!("an AUTH is answered with OK");
        };
        assert_eq!(
            verdict,
            Verdict {
                accepted: true,
                message: String::new()
            }
        );
        raw
    }

    /// Sends one frame. `bits` is FIN and reserved bits, `code` the operation.
    ///
    /// # Panics
    /// If the connection does not take it.
    pub async fn frame(&mut self, bits: u8, code: u8, payload: &[u8]) {
        let bytes = masked(bits | code, payload);
        within("a send", self.tcp.write_all(&bytes))
            .await
            .expect("the connection takes a frame");
    }

    /// Sends a whole text message.
    pub async fn text(&mut self, text: &str) {
        self.frame(FIN, opcode::TEXT, text.as_bytes()).await;
    }

    /// Sends bytes as a whole message of the given operation.
    pub async fn message(&mut self, code: u8, payload: &[u8]) {
        self.frame(FIN, code, payload).await;
    }

    /// Sends bytes that need not be a frame. An error means that the relay has ended the connection.
    ///
    /// # Errors
    /// What the socket says.
    pub async fn bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        within("a send", self.tcp.write_all(bytes)).await
    }

    /// The next frame, whatever it is; `None` when the relay has ended the connection.
    pub async fn next_frame(&mut self) -> Option<RawFrame> {
        within("a frame", async {
            let first = self.tcp.read_u8().await.ok()?;
            let length = match self.tcp.read_u8().await.ok()? {
                126 => u64::from(self.tcp.read_u16().await.ok()?),
                127 => self.tcp.read_u64().await.ok()?,
                short => u64::from(short),
            };
            let length = usize::try_from(length).expect("a frame fits into memory");
            let mut payload = vec![0; length];
            self.tcp.read_exact(&mut payload).await.ok()?;
            Some(RawFrame { first, payload })
        })
        .await
    }

    /// The next text message.
    ///
    /// # Panics
    /// If something else comes.
    pub async fn next_message(&mut self) -> Frame {
        let frame = self.next_frame().await.expect("the connection is open");
        assert_eq!(
            frame.first,
            FIN | opcode::TEXT,
            "not one whole text: {frame:?}"
        );
        Frame::parse(std::str::from_utf8(&frame.payload).expect("texts are UTF-8"))
    }

    /// Reads to the end of the connection: the text messages, then the close frame if one came.
    pub async fn until_end(&mut self) -> (Vec<Frame>, Option<(u16, String)>) {
        let mut messages = Vec::new();
        while let Some(frame) = self.next_frame().await {
            if let Some(closing) = frame.closing() {
                return (messages, Some(closing));
            }
            if frame.first == FIN | opcode::TEXT {
                let text = std::str::from_utf8(&frame.payload).expect("texts are UTF-8");
                messages.push(Frame::parse(text));
            }
        }
        (messages, None)
    }
}

/// A frame of a client: masked, as RFC 6455 demands. The mask is fixed, since nothing here has to be secret.
pub fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x5a, 0xc3, 0x0f, 0x96];
    const MASKED: u8 = 0x80;
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..126 => bytes.push(MASKED | length as u8),
        length @ 126..65_536 => {
            bytes.push(MASKED | 126);
            bytes.extend((length as u16).to_be_bytes());
        }
        length => {
            bytes.push(MASKED | 127);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes.extend(MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(a, b)| a ^ b));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_masked_and_measured_as_rfc_6455_says() {
        assert_eq!(masked(0x81, b""), [0x81, 0x80, 0x5a, 0xc3, 0x0f, 0x96]);
        assert_eq!(masked(0x81, &[0x5a; 5])[6..], [0, 0x99, 0x55, 0xcc, 0]);
        assert_eq!(masked(0x82, &[0; 126])[..4], [0x82, 0xfe, 0, 126]);
        let long = masked(0x82, &[0; 65_536]);
        assert_eq!(long[..10], [0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0]);
    }
}
