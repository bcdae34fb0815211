//! The small bodies: connect and resume, timeout, refresh, snapshot, rollback.
//!
//! Must stay true: as for a create. No body at all is left to Cube, which answers 400 or 415 by content type.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::splice::{Malformed, Object, set_members};

fn as_written(name: &str) -> &str {
    name
}

/// One value of a body.
enum Field<T> {
    /// Not there, or `null`.
    Absent,
    Is(T),
    /// Cube will say 422.
    WrongType,
}

fn field<T: DeserializeOwned>(body: &Bytes, name: &str) -> Result<Field<T>, Malformed> {
    if body.is_empty() {
        return Ok(Field::WrongType);
    }
    let object = Object::of_body(body, as_written)?;
    let Some(value) = object.get(name) else { return Ok(Field::Absent) };
    Ok(match serde_json::from_str::<Option<T>>(value) {
        Ok(Some(value)) => Field::Is(value),
        Ok(None) => Field::Absent,
        Err(_) => Field::WrongType,
    })
}

/// Declares a body with one value that governance reads.
macro_rules! small_body {
    ($(#[$doc:meta])* $body:ident, $(#[$field_doc:meta])* $field:ident: $type:ty = $key:literal as $wire:ty) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $body {
            raw: Bytes,
            $(#[$field_doc])*
            pub $field: Option<$type>,
            /// There is no body, or the value has a type that Cube will refuse.
            pub left_to_cube: bool,
        }

        impl $body {
            /// Reads a body.
            ///
            /// # Errors
            /// [`Malformed`] if it is not UTF-8, not an object, too deep, or has a key twice.
            pub fn read(body: &Bytes) -> Result<Self, Malformed> {
                let (value, left_to_cube) = match field::<$wire>(body, $key)? {
                    Field::Is(value) => (Some(value.into()), false),
                    Field::Absent => (None, false),
                    Field::WrongType => (None, true),
                };
                Ok(Self { raw: body.clone(), $field: value, left_to_cube })
            }

            /// The body as it came.
            #[must_use]
            pub fn raw(&self) -> &Bytes {
                &self.raw
            }

            /// The body with another value; everything else keeps its bytes. A body left to Cube stays as it is.
            #[must_use]
            pub fn with(&self, value: impl Into<$type>) -> Bytes {
                let json = serde_json::Value::from(value.into()).to_string();
                let text = std::str::from_utf8(&self.raw).ok().filter(|_| !self.left_to_cube);
                let edited = text.and_then(|text| set_members(text, &[($key.to_owned(), json)]));
                edited.map_or_else(|| self.raw.clone(), Bytes::from)
            }
        }
    };
}

small_body!(
    /// `POST {id}/timeout`.
    TimeoutBody,
    /// Seconds from now; -1 is never, 0 is now.
    timeout: i64 = "timeout" as i32
);
small_body!(
    /// `POST {id}/refreshes`.
    RefreshBody,
    /// Seconds from now; it can shorten.
    duration: i64 = "duration" as i32
);
small_body!(
    /// `POST {id}/connect` and `POST {id}/resume`.
    ConnectBody,
    /// Seconds from now.
    timeout: i64 = "timeout" as i32
);
small_body!(
    /// `POST {id}/snapshots`.
    SnapshotBody,
    /// The name it shall have.
    name: String = "name" as String
);
small_body!(
    /// `POST {id}/rollback`.
    RollbackBody,
    /// The snapshot to go back to.
    snapshot_id: String = "snapshotID" as String
);

impl ConnectBody {
    /// Does the client ask for a restart without the old memory (v2 only)?
    #[must_use]
    pub fn without_memory(&self) -> bool {
        matches!(field::<bool>(&self.raw, "memory"), Ok(Field::Is(false)))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn a_small_body_is_read_as_cube_reads_it_and_edited_in_place() {
        let read = |text: &'static str| TimeoutBody::read(&Bytes::from_static(text.as_bytes()));
        let of = |text| read(text).map(|body| (body.timeout, body.left_to_cube)).unwrap();
        assert_eq!(of(r#"{"timeout": 60}"#), (Some(60), false));
        assert_eq!(of(r#"{"timeout":-1}"#), (Some(-1), false));
        assert_eq!(of(r#"{"timeout":null}"#), (None, false));
        assert_eq!(of("{}"), (None, false));
        for wrong in [r#"{"timeout":1.5}"#, r#"{"timeout":"5"}"#, r#"{"timeout":3000000000}"#, ""] {
            assert_eq!(of(wrong), (None, true), "{wrong}");
        }
        assert_eq!(read(r#"{ "timeout" : 60, "x":1.0 }"#).unwrap().with(5), r#"{ "timeout" : 5, "x":1.0 }"#);
        assert_eq!(read("{}").unwrap().with(5), r#"{"timeout":5}"#);
    }

    #[test]
    fn a_timeout_of_zero_cannot_be_smuggled_in_as_an_array_or_a_second_key() {
        for text in ["[0]", r#"{"timeout":60,"timeout":0}"#, r#"{"timeout":60,"\u0074imeout":0}"#, "0", "x"] {
            assert!(TimeoutBody::read(&Bytes::from_static(text.as_bytes())).is_err(), "{text}");
        }
    }

    #[test]
    fn a_connect_says_whether_it_wants_the_old_memory() {
        let without = |text: &'static str| {
            ConnectBody::read(&Bytes::from_static(text.as_bytes())).unwrap().without_memory()
        };
        assert!(without(r#"{"memory":false}"#));
        assert!(!without(r#"{"memory":true}"#) && !without("{}") && !without(r#"{"memory":0}"#));
    }
}
