//! The fastest Cube there is: canned answers, and a set of living sandboxes so that deletes tell the truth.
//!
//! Must stay true: a delete of what is not there is 404 (a Cube that says 204 to everything is asked twice), and the list
//! is empty, which the warden takes for hosts that cannot be reached. It runs on a thread of its own, beside the load.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::Result;
use std::rc::Rc;
use std::sync::mpsc;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};

use super::wire::Line;

/// A template that is always there.
pub(super) const TEMPLATE: &str = "tpl-000000000000000000000001";
/// A sandbox that is always there, and was not made through anybody.
pub(super) const SANDBOX: &str = "ffffffffffffffffffffffffffffffff";

/// What lives here. One thread serves all connections, so nothing is locked.
#[derive(Default)]
struct Cube {
    made: u64,
    alive: HashSet<String>,
}

/// Starts it; the address. It ends with the process.
pub(super) fn start() -> Result<String> {
    let (told, address) = mpsc::channel();
    std::thread::spawn(move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        LocalSet::new().block_on(&runtime, async move {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let _asked_once = told.send(listener.local_addr()?.to_string());
            let cube = Rc::new(RefCell::new(Cube::default()));
            loop {
                let (socket, _) = listener.accept().await?;
                socket.set_nodelay(true)?;
                spawn_local(serve(socket, Rc::clone(&cube)));
            }
        })
    });
    address.recv().map_err(std::io::Error::other)
}

async fn serve(socket: TcpStream, cube: Rc<RefCell<Cube>>) -> Result<()> {
    let mut line = Line::new(socket);
    while line.read().await? {
        let answer = cube.borrow_mut().answer(line.head());
        line.send(answer.as_bytes()).await?;
    }
    Ok(())
}

impl Cube {
    fn answer(&mut self, head: &[u8]) -> String {
        let text = std::str::from_utf8(head).unwrap_or_default();
        let mut words = text.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let id = target.strip_prefix("/sandboxes/").unwrap_or_default();
        match method {
            "GET" if target.starts_with("/templates/") => json("200 OK", &detail(TEMPLATE)),
            "GET" if id == SANDBOX || self.alive.contains(id) => json("200 OK", &detail(id)),
            "GET" if target.ends_with("/sandboxes") => json("200 OK", "[]"),
            "GET" if target == "/health" => json("200 OK", r#"{"status":"ok"}"#),
            "POST" if target == "/sandboxes" => json("201 Created", &self.create()),
            "DELETE" if self.alive.remove(id) => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
            _ => json("404 Not Found", r#"{"code":404,"message":"not found"}"#),
        }
    }

    fn create(&mut self) -> String {
        self.made += 1;
        let id = format!("{:032x}", self.made);
        let body = format!(
            r#"{{"templateID":"{TEMPLATE}","sandboxID":"{id}","clientID":"10.0.0.7","envdVersion":"0.2.0","domain":"cube.app"}}"#
        );
        self.alive.insert(id);
        body
    }
}

/// The same size whatever is asked for: 315 bytes, about as much as Cube says.
fn detail(id: &str) -> String {
    format!(
        r#"{{"templateID":"{TEMPLATE}","sandboxID":"{id:>32}","clientID":"10.0.0.7","startedAt":"2026-01-01T00:00:00Z","endAt":"2036-01-01T00:00:00Z","envdVersion":"0.2.0","domain":"cube.app","cpuCount":2,"memoryMB":2048,"diskSizeMB":0,"metadata":{{"project":"bench"}},"state":"running"}}"#
    )
}

fn json(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
}
