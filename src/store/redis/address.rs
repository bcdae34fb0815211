//! Where Redis is: one server, a Cluster's nodes, or the Sentinels that know the master.
//!
//! ```text
//! redis://[user:password@]host[:port][/database]        rediss:// with TLS        unix:///path[?db=1&pass=…]
//! redis+cluster://[user:password@]host:port,host:port    rediss+cluster://
//! redis+sentinel://[user:password@]host:port,host:port/service[/database]         rediss+sentinel:// (TLS to the servers)
//! ```
//! Must stay true: no text about an address shows it, because it may hold a password.

use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, RedisResult, TlsMode};

use super::link::{CONNECT, RESPONSE};

/// The port that Sentinels listen on where none is named.
const SENTINEL_PORT: u16 = 26379;

/// Where Redis is.
#[derive(Clone)]
pub enum Address {
    /// One server.
    Single(Box<ConnectionInfo>),
    /// Some nodes of a Cluster; it tells the others itself.
    Cluster(Vec<ConnectionInfo>),
    /// Sentinels.
    Sentinel(Box<Sentinels>),
}

/// Who knows the master, and how to speak to it.
#[derive(Clone)]
pub struct Sentinels {
    at: Vec<ConnectionAddr>,
    service: String,
    /// Database, user and password of the servers; its address means nothing.
    server: ConnectionInfo,
    tls: Option<TlsMode>,
}

/// It is not an address of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "store.url is not an address of Redis: wanted redis://host:port, rediss://host:port, unix:///path, \
     redis+cluster://host:port,host:port or redis+sentinel://host:port,host:port/service"
)]
pub struct BadAddress;

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// [`BadAddress`].
    pub fn parse(url: &str) -> Result<Self, BadAddress> {
        let (scheme, rest) = url.split_once("://").ok_or(BadAddress)?;
        match scheme.split_once('+') {
            Some((single, "cluster")) => cluster(single, rest),
            Some((single, "sentinel")) => sentinel(single, rest),
            Some(_) => Err(BadAddress),
            None => connection(url).map(|info| Self::Single(Box::new(info))),
        }
    }

    /// One connection's worth of each server that can be asked by itself: the nodes named, the one server, the master.
    pub(super) async fn servers(&self) -> RedisResult<Vec<redis::Client>> {
        match self {
            Self::Single(info) => Ok(vec![redis::Client::open((**info).clone())?]),
            Self::Cluster(nodes) => nodes.iter().map(|node| redis::Client::open(node.clone())).collect(),
            Self::Sentinel(sentinels) => Ok(vec![sentinels.client()?.async_get_client().await?]),
        }
    }

    /// The client of a Cluster. It does not try again by itself: only the link knows what may be sent twice.
    pub(super) fn cluster(nodes: &[ConnectionInfo]) -> RedisResult<ClusterClient> {
        ClusterClientBuilder::new(nodes.iter().cloned())
            .retries(0)
            .connection_timeout(CONNECT)
            .response_timeout(RESPONSE)
            .build()
    }
}

impl Sentinels {
    fn client(&self) -> RedisResult<SentinelClient> {
        let kind = SentinelServerType::Master;
        let mut builder = SentinelClientBuilder::new(self.at.iter().cloned(), &self.service, kind)?;
        let server = self.server.redis_settings();
        builder = builder.set_client_to_redis_db(server.db());
        if let Some(user) = server.username() {
            builder = builder.set_client_to_redis_username(user);
        }
        if let Some(password) = server.password() {
            builder = builder.set_client_to_redis_password(password);
        }
        if let Some(tls) = self.tls {
            builder = builder.set_client_to_redis_tls_mode(tls);
        }
        builder.build()
    }
}

fn connection(url: &str) -> Result<ConnectionInfo, BadAddress> {
    url.into_connection_info().map_err(|_| BadAddress)
}

/// `user:password@` and what follows it.
fn credential(rest: &str) -> (&str, &str) {
    rest.rfind('@').map_or(("", rest), |at| rest.split_at(at + 1))
}

fn cluster(scheme: &str, rest: &str) -> Result<Address, BadAddress> {
    let (credential, hosts) = credential(rest);
    let nodes = hosts.trim_end_matches('/').split(',');
    let nodes = nodes.map(|host| connection(&format!("{scheme}://{credential}{host}")));
    Ok(Address::Cluster(nodes.collect::<Result<_, _>>()?))
}

fn sentinel(scheme: &str, rest: &str) -> Result<Address, BadAddress> {
    let (credential, rest) = credential(rest);
    let mut parts = rest.splitn(3, '/');
    let (hosts, service) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let database = parts.next().unwrap_or("0");
    if service.is_empty() {
        return Err(BadAddress);
    }
    let at = |host: &str| match connection(&format!("redis://{host}"))?.addr() {
        ConnectionAddr::Tcp(name, _) if !host.ends_with(']') && !host.contains(':') => {
            Ok(ConnectionAddr::Tcp(name.clone(), SENTINEL_PORT))
        }
        other => Ok(other.clone()),
    };
    let server = connection(&format!("{scheme}://{credential}server/{database}"))?;
    let tls = match server.addr() {
        ConnectionAddr::TcpTls { .. } => Some(TlsMode::Secure),
        _ => None,
    };
    let at = hosts.split(',').map(at).collect::<Result<_, _>>()?;
    Ok(Address::Sentinel(Box::new(Sentinels { at, service: service.to_owned(), server, tls })))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn every_form_of_an_address_is_read() {
        let Address::Single(one) = Address::parse("redis://u:p%20w@host:7000/3").unwrap() else { panic!() };
        assert_eq!(one.addr(), &ConnectionAddr::Tcp("host".to_owned(), 7000));
        assert_eq!((one.redis_settings().db(), one.redis_settings().password()), (3, Some("p w")));
        let Address::Single(tls) = Address::parse("rediss://host").unwrap() else { panic!() };
        assert!(matches!(tls.addr(), ConnectionAddr::TcpTls { insecure: false, .. }));
        let Address::Single(unix) = Address::parse("unix:///run/redis.sock?db=2").unwrap() else { panic!() };
        assert_eq!(unix.redis_settings().db(), 2);
        let Address::Cluster(nodes) = Address::parse("rediss+cluster://:pw@a:1,b:2").unwrap() else {
            panic!()
        };
        assert_eq!(nodes.len(), 2);
        assert!(matches!(nodes[1].addr(), ConnectionAddr::TcpTls { port: 2, .. }));
        assert_eq!(nodes[1].redis_settings().password(), Some("pw"));
        let Address::Sentinel(known) = Address::parse("redis+sentinel://:pw@a:1,b/main/4").unwrap() else {
            panic!()
        };
        let at =
            [("a", 1), ("b", SENTINEL_PORT)].map(|(host, port)| ConnectionAddr::Tcp(host.to_owned(), port));
        assert_eq!(
            (known.at, known.service, known.server.redis_settings().db()),
            (at.to_vec(), "main".to_owned(), 4)
        );
    }

    #[test]
    fn what_is_no_address_is_refused_without_showing_it() {
        for url in [
            "",
            "redis",
            "http://:secret@x",
            "redis+magic://x",
            "redis+sentinel://:secret@x:1",
            "redis+cluster://:secret@",
        ] {
            let refused = Address::parse(url).err().unwrap().to_string();
            assert!(refused.contains("store.url") && !refused.contains("secret"), "{url}");
        }
    }
}
