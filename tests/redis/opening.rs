//! Which Redis a ledger is trusted to, and what is said of the others.

use std::path::Path;
use std::process::Command;

use cubewarden::store::Store as _;
use cubewarden::store::redis::{OpenError, Redis, Time};
use cubewarden::store::settings;

use super::{is_done, take, taken};
use crate::support::redis::{RedisServer, free_port, settings_at};

async fn refused(settings: &settings::Redis) -> String {
    Redis::open(settings, Time::OfRedis).await.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cubes_own_database_is_refused_unless_told_to_share() {
    let server = RedisServer::start();
    let mut link = server.connection();
    for number in 0..3000 {
        redis::cmd("SET").arg(format!("other:{number}")).arg("x").exec(&mut link).unwrap();
    }
    assert!(Redis::open(&server.settings(), Time::OfRedis).await.is_ok());
    redis::cmd("HSET").arg("cube:sandbox:1").arg("a").arg("b").exec(&mut link).unwrap();
    let says = refused(&server.settings()).await;
    assert!(says.contains("cube:sandbox:1") && says.contains("store.share_redis = true"), "{says}");
    let shared = settings::Redis { share: true, ..server.settings() };
    let store = Redis::open(&shared, Time::OfRedis).await.unwrap();
    assert!(is_done(&store.commit(take("a")).await.unwrap()));
    // Another database of the same server is another matter.
    let elsewhere = settings_at(&format!("{}?db=1", server.url()));
    assert!(taken(&Redis::open(&elsewhere, Time::OfRedis).await.unwrap()).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_drops_keys_is_refused() {
    let server =
        RedisServer::with(&["--save", "", "--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"]);
    let says = refused(&server.settings()).await;
    assert!(says.contains("maxmemory-policy noeviction") && says.contains("allkeys-lru"), "{says}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_wanted_taken_and_never_shown() {
    let server = RedisServer::with(&["--save", "", "--requirepass", "s3cret"]);
    let says = refused(&server.settings()).await;
    assert!(says.contains("password"), "{says}");
    let wrong = refused(&settings_at(&format!("{}?pass=s4cret", server.url()))).await;
    assert!(!wrong.contains("s4cret"), "{wrong}");
    let right = settings_at(&format!("{}?pass=s3cret", server.url()));
    let store = Redis::open(&right, Time::OfRedis).await.unwrap();
    assert!(is_done(&store.commit(take("a")).await.unwrap()));
    assert!(!format!("{store:?} {right:?}").contains("s3cret"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nobody_answers_it_says_what_to_do() {
    let url = format!("redis://127.0.0.1:{}", free_port());
    let error = Redis::open(&settings_at(&url), Time::OfRedis).await.unwrap_err();
    assert!(matches!(error, OpenError::Unreachable(_)), "{error}");
    assert!(error.to_string().contains("store.url"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_whose_memory_is_full_writes_nothing_in_part() {
    let server = RedisServer::start();
    let store = server.store().await;
    assert!(is_done(&store.commit(take("before")).await.unwrap()));
    let mut link = server.connection();
    let mut limit =
        |bytes: &str| redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).exec(&mut link).unwrap();
    limit("1mb");
    assert!(store.commit(take("a")).await.is_err());
    assert_eq!(taken(&*store).await, ["before"]);
    assert_eq!(store.read(&[super::volume("a")]).await.unwrap().records[0].version, 0);
    limit("0");
    assert!(is_done(&store.commit(take("a")).await.unwrap()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_ledgers_in_one_database_do_not_see_each_other() {
    let server = RedisServer::start();
    let one = server.store().await;
    let other = settings::Redis { ledger: "other".to_owned(), ..server.settings() };
    let other = Redis::open(&other, Time::OfRedis).await.unwrap();
    assert!(is_done(&one.commit(take("a")).await.unwrap()));
    assert!(taken(&other).await.is_empty());
    assert!(is_done(&other.commit(take("a")).await.unwrap()));
}

/// What `check` says of the ledger at `url`, where the certificates in `trusted` are.
fn checked(url: &str, trusted: &Path) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cubewarden.toml");
    std::fs::write(&file, format!("[store]\nkind = \"redis\"\nurl = \"{url}\"\n")).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_cubewarden"));
    check.args(["check", "--json", "--config"]).arg(&file);
    let said = check.env_clear().env("SSL_CERT_FILE", trusted).output().unwrap().stdout;
    let report: serde_json::Value = serde_json::from_slice(&said).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let ledger = checks.iter().find(|check| check["about"] == "ledger").unwrap();
    format!("{}: {}", ledger["result"].as_str().unwrap(), ledger["message"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_spoken_with_a_server_whose_certificate_is_trusted_and_with_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let ours = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let strangers = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let cert = write("cert", &ours.cert.pem());
    let key = write("key", &ours.signing_key.serialize_pem());
    let strange = write("strange", &strangers.cert.pem());
    let port = free_port().to_string();
    let options = ["--save", "", "--tls-port", &port, "--tls-cert-file", &cert, "--tls-key-file", &key];
    let _server = RedisServer::with(&[&options[..], &["--tls-auth-clients", "no"]].concat());
    let url = format!("rediss://localhost:{port}");
    let trusted = checked(&url, Path::new(&cert));
    assert!(trusted.starts_with("ok: "), "{trusted}");
    let refused = checked(&url, Path::new(&strange));
    assert!(refused.starts_with("failed: ") && refused.contains("certificate"), "{refused}");
    assert!(checked(&format!("redis://localhost:{port}"), Path::new(&cert)).starts_with("failed: "));
}
