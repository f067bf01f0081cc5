//! The listening socket: accepts connections, bounds their number, speaks HTTP/1.1 on each, and stops gracefully.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tower_service::Service as _;

use super::answer::Refusal;
use super::app::{App, router};
use crate::links::ByteMeter;

/// How long a client may take to send a request's head; also how long a connection may be idle between requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16_384;
/// Connections beyond the bound that are told so at the same time; still more are dropped.
const REFUSED_MAX: usize = 64;
/// How long a refused connection is kept to hear it.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after the system refuses a connection, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a request knows of its connection; the connection counts against the bound as long as a copy lives.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) meter: Arc<ByteMeter>,
    _permit: Arc<OwnedSemaphorePermit>,
}

/// A TCP connection whose meter sees every byte the peer takes.
pub(super) struct Socket {
    stream: TcpStream,
    meter: Arc<ByteMeter>,
}

/// Serves connections until `stop` says so, then waits until all of them have ended.
pub async fn serve(listener: TcpListener, app: Arc<App>, mut stop: watch::Receiver<bool>) {
    let router = router(Arc::clone(&app));
    let connections_max = app.settings.connections_max;
    let room = Arc::new(Semaphore::new(connections_max));
    let refused_room = Arc::new(Semaphore::new(REFUSED_MAX));
    loop {
        let accepted = tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let stop = stop.clone();
        if let Ok(permit) = Arc::clone(&room).try_acquire_owned() {
            tokio::spawn(serve_connection(stream, permit, Some(router.clone()), stop));
        } else if let Ok(permit) = Arc::clone(&refused_room).try_acquire_owned() {
            let refusal = serve_connection(stream, permit, None, stop);
            tokio::spawn(tokio::time::timeout(REFUSED_TIMEOUT, refusal));
        }
    }
    drop(listener);
    let all = u32::try_from(connections_max).unwrap_or(u32::MAX);
    let ended = room.acquire_many(all).await;
    drop(ended.expect("this semaphore is never closed"));
}

/// Speaks HTTP on one connection; without a router every request is answered 503.
async fn serve_connection(
    stream: TcpStream,
    permit: OwnedSemaphorePermit,
    router: Option<Router>,
    mut stop: watch::Receiver<bool>,
) {
    // Frames are small and gathered by the writer; waiting for more would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "the peer left at once");
        return;
    }
    let meter = Arc::new(ByteMeter::default());
    let connection = Connection {
        meter: Arc::clone(&meter),
        _permit: Arc::new(permit),
    };
    let asked = Arc::new(AtomicBool::new(false));
    let asks = Arc::clone(&asked);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        asks.store(true, Ordering::Relaxed);
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(connection.clone());
        let router = router.clone();
        async move {
            match router {
                Some(mut router) => router.call(request).await,
                None => Ok(too_many_connections()),
            }
        }
    });
    let mut http = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(Socket { stream, meter }), service)
            .with_upgrades()
    );
    let served = tokio::select! {
        biased;
        served = &mut http => served,
        () = stopped(&mut stop) => {
            // A graceful end waits for the first request for ever.
            if !asked.load(Ordering::Relaxed) {
                return;
            }
            http.as_mut().graceful_shutdown();
            http.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

/// Waits until the server shall stop, or nobody is left to say so.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // The value says no more than that the wait is over.
    let _ = stop.wait_for(|stop| *stop).await;
}

fn too_many_connections() -> Response {
    let text = "too many connections";
    let mut response = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if matches!(written, Poll::Ready(Ok(count)) if count > 0) {
            self.meter.tick();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
