//! A new process takes the listening sockets over: nobody is refused, nothing is lost.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use super::program::{Site, complaint};
use crate::cube::CubeSim;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::http::Caller;
use crate::support::redis::RedisServer;
use crate::support::until;

const CREATE: &str = r#"{"templateID":"tpl-000000000000000000000001","timeout":300}"#;

/// A site whose processes hand over; `more` belongs to `[store]` first.
fn site(cube: &CubeSim, more: &str) -> Site {
    let site = Site::new(&cube.url(), more);
    let socket = site.path("upgrade");
    site.env("CUBEWARDEN_LISTEN_UPGRADE_SOCKET", socket.to_str().unwrap())
}

fn shared(redis: &RedisServer) -> String {
    format!("kind = \"redis\"\nurl = \"{}\"\n[proxy]\nidle = \"60s\"", redis.url())
}

/// Clients that create, look and delete, each on connections that it keeps, until told to stop.
struct Crowd {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicUsize>,
    clients: Vec<tokio::task::JoinHandle<()>>,
}

impl Crowd {
    fn at_work(url: &str) -> Self {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let client = |_| {
            let (caller, stop, rounds) = (Caller::strict(url), Arc::clone(&stop), Arc::clone(&rounds));
            tokio::spawn(async move {
                while !stop.load(SeqCst) {
                    let id = caller.create(CREATE).await;
                    let path = format!("/sandboxes/{id}");
                    assert_eq!(caller.get(&path).await.status, 200);
                    assert_eq!(caller.get("/templates").await.status, 200);
                    assert_eq!(caller.delete(&path).await.status, 204);
                    rounds.fetch_add(1, SeqCst);
                }
            })
        };
        Self { clients: (0..12).map(client).collect(), stop, rounds }
    }

    /// Waits until it has gone round so many more times.
    async fn goes_on(&self, more: usize) {
        let wanted = self.rounds.load(SeqCst) + more;
        until("the crowd goes on", || {
            let failed = self.clients.iter().any(tokio::task::JoinHandle::is_finished);
            failed || self.rounds.load(SeqCst) >= wanted
        })
        .await;
    }

    /// Every client must have been served to its end.
    async fn ends(self) {
        self.stop.store(true, SeqCst);
        for client in self.clients {
            client.await.expect("no call fails");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_shared_ledger_no_call_fails_while_one_process_follows_the_other() {
    let (cube, redis) = (CubeSim::builder().start().await.unwrap(), RedisServer::start());
    let site = site(&cube, &shared(&redis));
    let mut old = site.ready().await;
    let url = old.proxy.clone();
    // Somebody whose connection has been idle for a while.
    let idle = Caller::strict(&url);
    assert_eq!(idle.get("/sandboxes").await.status, 200);
    let crowd = Crowd::at_work(&url);
    for _ in 0..2 {
        crowd.goes_on(30).await;
        let new = site.start(&["--upgrade"]).serves().await;
        assert_eq!((&new.proxy, &new.admin), (&old.proxy, &old.admin));
        old.until_said("a successor takes over").await;
        assert_eq!(idle.get("/sandboxes").await.status, 200);
        crowd.goes_on(30).await;
        assert_eq!(old.ended().await, 0);
        crowd.goes_on(30).await;
        old = new.once_ready().await;
    }
    crowd.ends().await;
    assert_eq!((old.held().await, cube.alive().len()), (0, 0));
    old.stop().await;
}

#[tokio::test]
async fn with_an_embedded_ledger_nobody_is_refused_while_the_new_process_waits_for_the_old() {
    let cube = CubeSim::builder().start().await.unwrap();
    let site = site(&cube, "");
    let mut old = site.ready().await;
    let url = old.proxy.clone();
    cube.fault(Fault::Hold { done: false }.on(Kind::Create).times(1));
    let caller = old.caller();
    let under_way = tokio::spawn(async move { caller.post("/sandboxes", CREATE).await });
    cube.until_held(1).await;
    let mut new = site.start(&["--upgrade"]);
    old.until_said("a successor takes over").await;
    // The operator still sees the one that works.
    assert_eq!(old.operator().get("/readyz").await.json()["draining"], true);
    // Who comes now is not refused, and is served when the new process can.
    let early = Caller::strict(&url);
    let waiting = tokio::spawn(async move { early.get("/sandboxes").await });
    new.until_said("waiting for the process that served").await;
    assert!(new.runs() && old.runs() && !waiting.is_finished());
    cube.release();
    let answer = under_way.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.header("connection")), (201, Some("close")));
    assert_eq!(old.ended().await, 0);
    let new = new.serves().await;
    let list = waiting.await.unwrap().json();
    assert_eq!(list[0]["sandboxID"], answer.json()["sandboxID"], "{list}");
    assert_eq!((new.proxy.as_str(), new.held().await), (url.as_str(), 1));
    new.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_that_cannot_serve_changes_nothing() {
    let (cube, redis) = (CubeSim::builder().start().await.unwrap(), RedisServer::start());
    let site = site(&cube, &shared(&redis));
    let mut old = site.ready().await;
    let caller = Caller::strict(&old.proxy);
    // A stranger who says nothing and leaves.
    drop(UnixStream::connect(site.path("upgrade")).unwrap());
    old.until_said("a successor asked for the sockets and left again").await;
    // One whose ledger is not there.
    site.write(&cube.url(), "kind = \"redis\"\nurl = \"unix:///nowhere/redis\"");
    let output = site.run("serve", &["--upgrade"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(complaint(&output).contains("open the ledger"), "{}", complaint(&output));
    assert_eq!(caller.get("/sandboxes").await.header("connection"), None);
    let mode = std::fs::metadata(site.path("upgrade")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // And then one that can.
    site.write(&cube.url(), &shared(&redis));
    let new = site.start(&["--upgrade"]).serves().await;
    assert_eq!(old.ended().await, 0);
    assert_eq!(caller.get("/sandboxes").await.status, 200);
    new.stop().await;
}

#[tokio::test]
async fn without_anybody_to_follow_it_starts_as_always_and_says_so() {
    let cube = CubeSim::builder().start().await.unwrap();
    let plain = Site::new(&cube.url(), "");
    let output = plain.run("serve", &["--upgrade"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(complaint(&output).contains("--upgrade needs listen.upgrade_socket"), "{}", complaint(&output));
    let site = site(&cube, "");
    for _ in 0..2 {
        // The second time the socket of the first is still there.
        let mut first = site.start(&["--upgrade"]).serves().await;
        first.until_said("nobody serves there").await;
        first.stop().await;
    }
}
