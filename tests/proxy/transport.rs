//! The upstream client: nothing twice, nothing on a connection that is about to close.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cubewarden::cube::transport::{ClockTimer, Observe, Settings, Transport, TransportError};
use cubewarden::time::{Chance, Clock, ManualClock, UnixMillis};
use http::{Method, Request};
use hyper::rt::Timer;

use super::front::{Front, pass};
use super::peer::{Peer, Upstream, field, soon};

const BUDGET: Duration = Duration::from_secs(30);
const START: UnixMillis = UnixMillis(1_000_000);

fn to(upstream: &Upstream) -> Settings {
    Settings::to(format!("http://{}", upstream.address()).parse().unwrap())
}

fn request(method: Method, body: &'static str) -> Request<Bytes> {
    let builder = Request::builder().method(method).uri("/sandboxes");
    builder.body(Bytes::from_static(body.as_bytes())).unwrap()
}

/// How an upstream can fail a request that it has read.
const FAILURES: [&str; 3] = ["close", "reset", "garbage"];

async fn fail(mut up: Peer, how: &str) {
    match how {
        "close" => {
            up.hear_until("{}").await;
        }
        // Closing with unread bytes in hand resets the connection.
        "reset" => {
            up.hear_until("POST").await;
        }
        _ => {
            up.hear_until("{}").await;
            up.say("nonsense\r\n\r\n").await;
        }
    }
}

#[tokio::test]
async fn px03_a_post_that_was_sent_is_never_sent_again() {
    for how in FAILURES {
        let upstream = Upstream::listen().await;
        let mut front = Front::before(upstream.address()).await;
        let mut client = front.client().await;
        // The connection has served once before: on a fresh one no library would dare to try again anyway.
        client.say("POST /first HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}").await;
        let mut up = upstream.accept().await;
        up.hear_until("{}").await;
        up.say("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        client.hear_head().await;
        client.say("POST /second HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}").await;
        fail(up, how).await;
        let answer = client.hear_until("\"}").await;
        assert!(answer.starts_with("HTTP/1.1 504 Gateway Timeout"), "{how}: {answer}");
        assert!(answer.contains("UPSTREAM_TIMEOUT"), "{how}: {answer}");
        front.finished().await;
        client.say("GET /third HTTP/1.1\r\nHost: h\r\n\r\n").await;
        let next = upstream.accept().await.hear_head().await;
        assert!(next.starts_with("GET /third "), "{how}: sent again: {next}");
    }
}

#[tokio::test]
async fn px03_a_governed_post_that_was_sent_is_lost_and_one_that_was_not_is_not() {
    let clock = ManualClock::at(START);
    for how in FAILURES {
        let upstream = Upstream::listen().await;
        let transport = Transport::build(&to(&upstream)).unwrap();
        let failing = async { fail(upstream.accept().await, how).await };
        let sending = transport.send(request(Method::POST, "{}"), BUDGET, &clock);
        let (answer, ()) = soon("the loss", async { tokio::join!(sending, failing) }).await;
        assert!(matches!(answer, Err(TransportError::Lost(_))), "{how}: {answer:?}");
        drop(upstream);
        let answer = soon("an outcome", transport.send(request(Method::POST, "{}"), BUDGET, &clock)).await;
        assert!(matches!(answer, Err(TransportError::NotSent(_))), "{how}: {answer:?}");
    }
}

#[tokio::test]
async fn a_governed_exchange_has_an_exact_length_a_whole_answer_and_a_budget() {
    let clock = ManualClock::at(START);
    let upstream = Upstream::listen().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let observe: Observe =
        Arc::new(move |method, status, _took| told.lock().unwrap().push((method.clone(), status)));
    let timer = ClockTimer(Arc::new(clock.clone()));
    let transport = Transport::build_on(&to(&upstream), &observe, &timer).unwrap();

    let mut chunked = request(Method::POST, "{\"a\":1}");
    chunked.headers_mut().insert("transfer-encoding", "chunked".parse().unwrap());
    let answering = async {
        let mut up = upstream.accept().await;
        let asked = up.hear_until("{\"a\":1}").await;
        assert_eq!((field(&asked, "content-length"), field(&asked, "transfer-encoding")), (Some("7"), None));
        up.say("HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
            .await;
        up
    };
    let sending = transport.send(chunked, BUDGET, &clock);
    let (answer, mut up) = soon("the answer", async { tokio::join!(sending, answering) }).await;
    let answer = answer.unwrap();
    assert_eq!((answer.status().as_u16(), answer.body().as_ref()), (201, &b"abc"[..]));

    let silent = async {
        let asked = up.hear_head().await;
        assert_eq!(field(&asked, "content-length"), None, "a DELETE without a body has no length");
        pass(&clock, BUDGET).await;
    };
    let sending = transport.send(request(Method::DELETE, ""), BUDGET, &clock);
    let (answer, ()) = soon("the budget's end", async { tokio::join!(sending, silent) }).await;
    assert!(matches!(answer, Err(TransportError::Lost(_))), "{answer:?}");
    assert_eq!(*seen.lock().unwrap(), [(Method::POST, Some(201)), (Method::DELETE, None)]);
}

#[test]
fn an_upstream_address_is_plain_http_with_a_host() {
    for bad in ["https://h", "h:1", "/path", "http://h/?q"] {
        assert!(Transport::build(&Settings::to(bad.parse().unwrap())).is_err(), "{bad}");
    }
}

/// The pool's timer on a manual clock; counts how often the pool asks for the time.
#[derive(Clone)]
struct PoolTimer {
    clock: ManualClock,
    base: Instant,
    asked: Arc<AtomicUsize>,
}

impl Timer for PoolTimer {
    /// Never: an idle connection must be refused at its next use, whether or not somebody tidied up meanwhile.
    fn sleep(&self, _: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Never)
    }

    fn sleep_until(&self, _: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Never)
    }

    fn now(&self) -> Instant {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.base + self.clock.now().since(START)
    }
}

struct Never;

impl hyper::rt::Sleep for Never {}

impl Future for Never {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        std::task::Poll::Pending
    }
}

/// Serves one connection as Cube would at its worst: what was idle for a second or more is closed just when the next request
/// is in. Tells of each request that it answered, and how often the pool had been asked for the time by then.
async fn serve_closing_idle(
    mut up: Peer,
    clock: ManualClock,
    served: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
    mark: Arc<AtomicUsize>,
) {
    let mut since = clock.now();
    loop {
        up.hear_until("{}").await;
        if clock.now().since(since) >= Duration::from_secs(1) {
            return;
        }
        served.fetch_add(1, Ordering::SeqCst);
        mark.store(asked.load(Ordering::SeqCst), Ordering::SeqCst);
        since = clock.now();
        up.say("HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n").await;
    }
}

#[tokio::test]
async fn px04_posts_to_an_upstream_that_closes_idle_connections_neither_fail_nor_double() {
    const ROUNDS: usize = 200;
    let clock = ManualClock::at(START);
    let upstream = Upstream::listen().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let base = ClockTimer(Arc::new(clock.clone())).now();
    let timer = PoolTimer { clock: clock.clone(), base, asked: Arc::clone(&asked) };
    let nobody: Observe = Arc::new(|_, _, _| ());
    let settings = to(&upstream);
    let transport = Transport::build_on(&settings, &nobody, &timer).unwrap();

    let (served, connections, mark) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let accepting = {
        let (clock, served, connections, asked, mark) = (
            clock.clone(),
            Arc::clone(&served),
            Arc::clone(&connections),
            Arc::clone(&asked),
            Arc::clone(&mark),
        );
        async move {
            loop {
                let up = upstream.accept().await;
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve_closing_idle(
                    up,
                    clock.clone(),
                    Arc::clone(&served),
                    Arc::clone(&asked),
                    Arc::clone(&mark),
                ));
            }
        }
    };
    let accepting = tokio::spawn(accepting);
    let chance = Chance::seeded(4);
    for round in 0..ROUNDS {
        let answer = soon("an outcome", transport.send(request(Method::POST, "{}"), BUDGET, &clock)).await;
        assert_eq!(answer.unwrap().status(), 201, "round {round}");
        // The pool notes the time when it takes the connection back; only then may time go on.
        let taken_back = async {
            while asked.load(Ordering::SeqCst) <= mark.load(Ordering::SeqCst) {
                tokio::task::yield_now().await;
            }
        };
        soon("the pool to take the connection back", taken_back).await;
        let jitter = Duration::from_millis(chance.below(600));
        // Mostly around the upstream's second, at times quick enough to use a connection again.
        let pause = if round % 4 == 0 { jitter } else { Duration::from_millis(700) + jitter };
        clock.advance(pause);
    }
    assert_eq!(served.load(Ordering::SeqCst), ROUNDS);
    let fresh = connections.load(Ordering::SeqCst);
    assert!(fresh < ROUNDS, "no connection was used twice, so nothing was shown");
    accepting.abort();
}
