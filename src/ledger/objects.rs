//! Snapshots and volumes carry data and tokens: their owner is recorded when they are made.

use super::{Ledger, LedgerError, corrupt};
use crate::ids::{Bucket, ObjectKind};
use crate::store::schema::{self, Key, Object, Set};
use crate::store::{Batch, Snapshot};

impl Ledger {
    /// Records whose a newly made object is. What Cube has just made is new: a record that stands there from before is of
    /// one that is gone, and gives way.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn record_object(
        &self,
        kind: ObjectKind,
        id: &str,
        bucket: &Bucket,
    ) -> Result<(), LedgerError> {
        let key = Key::Object(kind, id.to_owned());
        let now = self.now().await?;
        let object = Object { bucket: bucket.to_string(), since: now.0 };
        self.write(Batch {
            put: vec![(key, schema::encode(&object))],
            join: vec![(Set::Objects(kind), id.to_owned())],
            ..Batch::default()
        })
        .await?;
        Ok(())
    }

    /// Whose an object is; `None` if nobody's is recorded.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails or the record is corrupt.
    pub async fn object_bucket(&self, kind: ObjectKind, id: &str) -> Result<Option<Bucket>, LedgerError> {
        Ok(self.object_buckets(kind, std::slice::from_ref(&id.to_owned())).await?.remove(0))
    }

    /// Whose each object is.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails or a record is corrupt.
    pub async fn object_buckets(
        &self,
        kind: ObjectKind,
        ids: &[String],
    ) -> Result<Vec<Option<Bucket>>, LedgerError> {
        let keys: Vec<Key> = ids.iter().map(|id| Key::Object(kind, id.clone())).collect();
        let Snapshot { records, .. } = self.read(&keys).await?;
        let bucket = |(key, record): (&Key, crate::store::Record)| {
            if record.version == 0 {
                return Ok(None);
            }
            let object: Object = schema::decode(&record.value).map_err(|what| corrupt(key, what))?;
            Bucket::parse(&object.bucket).map(Some).map_err(|error| corrupt(key, error.to_string()))
        };
        keys.iter().zip(records).map(bucket).collect()
    }

    /// Forgets an object that was deleted, if it is in a bucket that `whose` accepts: somebody else may have made one of
    /// the same name since, and that record stays.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails or the record is corrupt.
    pub async fn forget_object(
        &self,
        kind: ObjectKind,
        id: &str,
        whose: impl Fn(&Bucket) -> bool,
    ) -> Result<(), LedgerError> {
        let key = Key::Object(kind, id.to_owned());
        let record = self.read(std::slice::from_ref(&key)).await?.records.remove(0);
        if record.version == 0 {
            return Ok(());
        }
        let object: Object = schema::decode(&record.value).map_err(|what| corrupt(&key, what))?;
        let bucket = Bucket::parse(&object.bucket).map_err(|error| corrupt(&key, error.to_string()))?;
        if whose(&bucket) {
            let batch = Batch {
                expect: vec![(key.clone(), record.version)],
                remove: vec![key],
                leave: vec![(Set::Objects(kind), id.to_owned())],
                ..Batch::default()
            };
            // Moved: it was made anew meanwhile.
            self.write(batch).await?;
        }
        Ok(())
    }
}
