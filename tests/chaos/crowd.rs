//! Sixty clients who create, use and delete as SDKs do, and notice what must not happen.
//!
//! Must stay true: what one of them holds is its own: it is there until it asks for its end. A call is asked again only where
//! the answer says so, or where nothing was sent; a create with an Idempotency-Key also when its answer was lost.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cubewarden::time::{Chance, Clock as _, Stopwatch, WallClock, within};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{CLIENTS, TEMPLATE};
use crate::cube::CubeSim;
use crate::support::http::{Answer, Caller};

/// What every create and every call that lengthens asks for. So short because what nobody can prove to be its own after the
/// ledger was lost is left to its deadline (`unproven_delete`).
const TIMEOUT: Duration = Duration::from_secs(8);
/// A hold ends before its deadline is so near.
const NEAR: Duration = Duration::from_secs(2);
/// Nobody waits longer for an answer: a repeated create joins the first for as long as clients wait, not quite a minute.
const PATIENCE: Duration = Duration::from_secs(70);
/// After the time is over, whoever still wants to end its sandbox may try for so long.
const LAST_TRIES: Duration = Duration::from_secs(100);
/// Retry-After counts in seconds; here they pass faster.
const LONGEST_PAUSE: u64 = 300;

/// See the head of the file.
pub(super) struct Crowd {
    clients: Vec<JoinHandle<()>>,
    stop: watch::Sender<bool>,
    seen: Arc<Seen>,
}

/// What the clients saw.
#[derive(Default)]
pub(super) struct Seen {
    /// Sandboxes that were created, used and deleted.
    pub(super) lives: AtomicUsize,
    /// Calls of which nobody can say what became of them: their answers were lost, here or on the way to Cube.
    unclear: Mutex<Vec<String>>,
    /// Sandboxes whose end was confirmed and that lived on: that may be only if they were left to their deadlines, because
    /// nobody knows any more how many held them.
    outlived: Mutex<Vec<String>>,
    /// What must not happen.
    wrongs: Mutex<Vec<String>>,
}

impl Seen {
    /// Calls of which nobody can say what became of them.
    pub(super) fn unclear(&self) -> Vec<String> {
        self.unclear.lock().unwrap().clone()
    }

    /// Sandboxes whose end was confirmed, that lived on, and of which no decision says that they were left to their deadlines.
    pub(super) fn undead(&self, decisions: &[Value]) -> Vec<String> {
        let deferred = |id: &String| {
            let told = |one: &&Value| one["decision"] == "deferred" && one["sandbox_id"] == id.as_str();
            decisions.iter().find(told).is_some()
        };
        let outlived = self.outlived.lock().unwrap();
        outlived
            .iter()
            .filter(|id| !deferred(id))
            .map(|id| format!("{id} lives, and its end was confirmed"))
            .collect()
    }

    fn wrong(&self, what: String) {
        self.wrongs.lock().unwrap().push(what);
    }
}

/// A sandbox that a client holds.
struct Held {
    id: String,
    /// Since before its deadline was last set: it ends no earlier than [`TIMEOUT`] after that.
    since: Stopwatch,
}

impl Held {
    /// Whether Cube may not have ended it by itself.
    fn is_ahead(&self) -> bool {
        self.since.elapsed() < TIMEOUT
    }
}

/// What became of a call.
enum Heard {
    Answer(Answer),
    /// Nobody listens there: nothing was sent.
    NotSent,
    /// It may have been done.
    Lost,
}

struct Client {
    number: usize,
    cube: Arc<CubeSim>,
    addresses: watch::Receiver<Vec<String>>,
    /// The warden it speaks to, until that one is not there.
    home: usize,
    caller: (String, Caller),
    chance: Chance,
    seen: Arc<Seen>,
    stop: watch::Receiver<bool>,
}

impl Crowd {
    /// Lets them loose.
    pub(super) fn start(
        cube: &Arc<CubeSim>,
        addresses: &watch::Receiver<Vec<String>>,
        chance: &Chance,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let seen = Arc::new(Seen::default());
        let clients = (0..CLIENTS).map(|number| {
            let client = Client {
                number,
                cube: Arc::clone(cube),
                addresses: addresses.clone(),
                home: number,
                caller: (String::new(), Caller::new("")),
                chance: chance.fork(),
                seen: Arc::clone(&seen),
                stop: stopped.clone(),
            };
            tokio::spawn(client.live())
        });
        Self { clients: clients.collect(), stop, seen }
    }

    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// From now on nobody wants another sandbox.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Lets each end what it holds. What must not happen and did.
    pub(super) async fn finish(self) -> (Arc<Seen>, Vec<String>) {
        self.stop();
        for client in self.clients {
            client.await.unwrap();
        }
        let wrongs = std::mem::take(&mut *self.seen.wrongs.lock().unwrap());
        (self.seen, wrongs)
    }
}

impl Client {
    async fn live(mut self) {
        while !*self.stop.borrow() {
            let Some(mut held) = self.create().await else { continue };
            self.hold(&mut held).await;
            self.end(&held).await;
            self.seen.lives.fetch_add(1, SeqCst);
        }
    }

    /// A sandbox, unless the answer was lost or the time is over.
    async fn create(&mut self) -> Option<Held> {
        let key = (self.chance.below(3) > 0).then(|| self.chance.hex(8));
        let body = format!(r#"{{"templateID":"{TEMPLATE}","timeout":{}}}"#, TIMEOUT.as_secs());
        // One that was begun and may be claimed is asked for to the end: who leaves it would leave a slot behind.
        let mut begun = false;
        let since = Stopwatch::start();
        let mut held = Self::asked_for();
        while !*self.stop.borrow() || (begun && since.elapsed() < LAST_TRIES) {
            if !begun {
                held = Self::asked_for();
            }
            let told = self.ask("POST", "/sandboxes", Some(&body), key.as_deref()).await;
            match told {
                Heard::Answer(answer) if answer.status == 201 => {
                    return Some(Held { id: answer.text("sandboxID"), ..held });
                }
                Heard::Answer(answer) if answer.status == 504 => begun = true,
                Heard::Answer(answer) if [429, 503].contains(&answer.status.as_u16()) => {
                    self.refused("create", &answer);
                    self.pause(&answer).await;
                    continue;
                }
                Heard::Answer(answer) => {
                    self.wrong(&format!("a create was answered {answer:?}"));
                    return None;
                }
                Heard::NotSent => continue,
                Heard::Lost => begun = true,
            }
            // Without a key nobody can ask for it again.
            key.as_ref()?;
            self.rest(50).await;
        }
        None
    }

    fn asked_for() -> Held {
        Held { id: String::new(), since: Stopwatch::start() }
    }

    /// Works with it for a while; it must be there all the time.
    async fn hold(&mut self, held: &mut Held) {
        let lengthen = format!(r#"{{"timeout":{}}}"#, TIMEOUT.as_secs());
        let id = &held.id;
        for _ in 0..=self.chance.below(3) {
            self.rest(250).await;
            if held.since.elapsed() + NEAR > TIMEOUT {
                return;
            }
            self.must_live(held, "before a call");
            let (method, path, body) = match self.chance.below(3) {
                0 => ("GET", format!("/sandboxes/{id}"), None),
                1 => ("POST", format!("/sandboxes/{id}/timeout"), Some(lengthen.as_str())),
                _ => ("POST", format!("/sandboxes/{id}/connect"), Some(lengthen.as_str())),
            };
            let since = Stopwatch::start();
            if let Heard::Answer(answer) = self.ask(method, &path, body, None).await {
                match answer.status.as_u16() {
                    200 | 201 | 204 if body.is_some() => held.since = since,
                    200 | 504 => {}
                    503 => self.refused(method, &answer),
                    _ if !held.is_ahead() => {}
                    _ => self.wrong(&format!("{method} {path} of its own sandbox was answered {answer:?}")),
                }
            }
            self.must_live(held, "after a call");
        }
    }

    /// Asks for its end until it is confirmed.
    async fn end(&mut self, held: &Held) {
        let id = &held.id;
        let (mut asked, since) = (false, Stopwatch::start());
        while since.elapsed() < LAST_TRIES {
            match self.ask("DELETE", &format!("/sandboxes/{id}"), None, None).await {
                Heard::Answer(answer) => match answer.status.as_u16() {
                    // Somebody's earlier try may have been carried out.
                    404 if asked || !held.is_ahead() => return,
                    204 => {
                        if self.cube.sandbox(id).is_some() {
                            self.seen.outlived.lock().unwrap().push(id.clone());
                        }
                        return;
                    }
                    503 => {
                        asked |= answer.text("error_code") == "DELETE_PENDING";
                        self.refused("delete", &answer);
                        self.pause(&answer).await;
                    }
                    504 => asked = true,
                    _ => {
                        self.wrong(&format!("the first delete of {id} was answered {answer:?}"));
                        return;
                    }
                },
                Heard::NotSent => {}
                Heard::Lost => asked = true,
            }
        }
        self.wrong(&format!("{id} could not be ended in {LAST_TRIES:?}"));
    }

    fn must_live(&self, held: &Held, when: &str) {
        if self.cube.sandbox(&held.id).is_none() && held.is_ahead() {
            self.wrong(&format!("{} is gone {when}, and its client holds it", held.id));
        }
    }

    /// A refusal must say why, and when to come again.
    fn refused(&self, what: &str, answer: &Answer) {
        const KNOWN: [&str; 5] =
            ["CAPACITY_EXCEEDED", "LEDGER_UNAVAILABLE", "DRAINING", "DELETE_PENDING", "WRITE_PATH_OPEN"];
        let code = answer.json()["error_code"].as_str().unwrap_or_default().to_owned();
        if !KNOWN.contains(&code.as_str()) || answer.header("retry-after").is_none() {
            self.wrong(&format!("a {what} was refused without saying why: {answer:?}"));
        }
    }

    fn wrong(&self, what: &str) {
        self.seen.wrong(format!("client {}: {what}", self.number));
    }

    async fn pause(&self, answer: &Answer) {
        let seconds: u64 = answer.header("retry-after").and_then(|text| text.parse().ok()).unwrap_or(1);
        self.rest((seconds * 100).min(LONGEST_PAUSE)).await;
    }

    /// Up to so many milliseconds.
    async fn rest(&self, most: u64) {
        WallClock.sleep(Duration::from_millis(20 + self.chance.below(most))).await;
    }

    /// One call to its warden; the next time to another, if that one is not there.
    async fn ask(&mut self, method: &str, path: &str, body: Option<&str>, key: Option<&str>) -> Heard {
        let address = {
            let addresses = self.addresses.borrow();
            addresses[self.home % addresses.len()].clone()
        };
        if self.caller.0 != address {
            self.caller = (address.clone(), Caller::new(&address));
        }
        let caller = match key {
            Some(key) => self.caller.1.with("idempotency-key", key),
            None => self.caller.1.clone(),
        };
        let asked = within(&WallClock, PATIENCE, caller.try_call(method, path, body)).await;
        let unclear = |what: &str| {
            let call = format!("client {}: {method} {path}: {what}", self.number);
            self.seen.unclear.lock().unwrap().push(call);
        };
        match asked {
            Ok(Ok(answer)) => {
                if answer.status == 504 {
                    unclear(&format!("{answer:?}"));
                }
                Heard::Answer(answer)
            }
            Ok(Err(error)) => {
                let sent = !error.contains("Connect,");
                if sent {
                    unclear(&error);
                }
                self.home += 1;
                self.rest(30).await;
                if sent { Heard::Lost } else { Heard::NotSent }
            }
            Err(late) => {
                self.wrong(&format!("{method} {path} was not answered in {late}"));
                Heard::Lost
            }
        }
    }
}
