//! Everything that a ledger holds in Redis, page by page: for export and checks, never for a call that somebody waits for.

use redis::Value;

use super::link::{self, Again, strange};
use super::{Redis, names_in};
use crate::store::{Page, Piece, Record, StoreError, UNREADABLE};
use crate::time::UnixMillis;

/// About so many names a page.
const PAGE: usize = 500;

impl Redis {
    pub(super) async fn page(&self, from: Option<&str>) -> Result<Page, StoreError> {
        let pattern = self.names.of(&"*");
        let scan = self.scripts.scan(&self.names.head(), from.unwrap_or("0"), &pattern, PAGE);
        let (next, found) = scan.ask(&self.link).await?;
        let mut pieces = Vec::new();
        let mut records = Vec::new();
        for (name, kind) in found {
            let Some(key) = self.names.inside(&name) else { continue };
            match kind.as_str() {
                "string" => records.push(key.to_owned()),
                "zset" => self.members_of(&name, key, &mut pieces).await?,
                // Sequence, clock and log: they are no records.
                _ if self.names.unscanned().contains(&name) => {}
                other => {
                    pieces.push(Piece::Foreign { key: key.to_owned(), what: format!("it is a {other}") });
                }
            }
        }
        for (key, record) in self.records_named(records).await? {
            pieces.push(match record.version {
                // It was removed meanwhile.
                0 => continue,
                UNREADABLE => Piece::Foreign { key, what: link::FOREIGN.to_owned() },
                _ => Piece::Record { key, record },
            });
        }
        Ok(Page { pieces, next: Some(next).filter(|next| next != "0") })
    }

    async fn records_named(&self, keys: Vec<String>) -> Result<Vec<(String, Record)>, StoreError> {
        let names = names_in(&self.names, &keys);
        let read = self.scripts.read(&self.names.head(), &names, &self.clock.given(), self.hints.own_name());
        let snapshot = read.ask(&self.link).await?;
        Ok(keys.into_iter().zip(snapshot.records).collect())
    }

    async fn members_of(&self, name: &str, key: &str, pieces: &mut Vec<Piece>) -> Result<(), StoreError> {
        let mut ask = redis::cmd("ZRANGE");
        ask.arg(name).arg(0).arg(-1).arg("WITHSCORES");
        let reply = self.link.ask(&ask, Again::Safe).await.map_err(|error| link::meant(&error, name))?;
        let texts = link::texts(&reply, name)?;
        for pair in texts.chunks_exact(2) {
            let member = pair[0].clone();
            pieces.push(if name == self.names.due() {
                let at = pair[1].parse().map_err(|_| strange(&Value::SimpleString(pair[1].clone())))?;
                Piece::Appointment { member, at: UnixMillis(at) }
            } else {
                Piece::Member { set: key.to_owned(), member }
            });
        }
        Ok(())
    }
}
