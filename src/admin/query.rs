//! Query parameters: known ones, once each, in their form. PURE.

use super::answers::Failure;

/// The parameters of one request.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query; a parameter that is not among `known`, or comes twice, is named.
    pub(super) fn read(text: &str, known: &[&str]) -> Result<Self, Failure> {
        let mut found: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            if !known.contains(&name.as_ref()) {
                let wanted = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Failure::Parameter(format!(
                    "There is no parameter {name:?} here; known: {wanted}."
                )));
            }
            if found.iter().any(|(there, _)| *there == name) {
                return Err(Failure::Parameter(format!("The parameter {name:?} came twice.")));
            }
            found.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self(found))
    }

    /// A parameter as `read` understands it.
    pub(super) fn get<T, E: std::fmt::Display>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Failure> {
        let value = self.0.iter().find(|(there, _)| there == name);
        let meant = value.map(|(_, value)| read(value)).transpose();
        meant.map_err(|error| Failure::Parameter(format!("The parameter {name:?} cannot be used: {error}.")))
    }

    /// How many items are wanted: 1 to `most`, else `usual`.
    pub(super) fn limit(&self, usual: usize, most: usize) -> Result<usize, Failure> {
        let read = |text: &str| match text.parse::<usize>() {
            Ok(limit) if (1..=most).contains(&limit) => Ok(limit),
            _ => Err(format!("wanted a number from 1 to {most}")),
        };
        Ok(self.get("limit", read)?.unwrap_or(usual))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn unknown_double_and_malformed_parameters_are_named() {
        let wrong = |text| match Query::read(text, &["limit", "after"]).and_then(|query| query.limit(10, 100))
        {
            Err(Failure::Parameter(what)) => what,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(wrong("limt=5"), "There is no parameter \"limt\" here; known: limit, after.");
        assert_eq!(wrong("limit=5&limit=6"), "The parameter \"limit\" came twice.");
        for text in ["limit=0", "limit=101", "limit=", "limit=-1", "limit=x"] {
            assert!(wrong(text).contains("wanted a number from 1 to 100"), "{text}");
        }
        assert_eq!(Query::read("limit=%35", &["limit"]).unwrap().limit(10, 100).unwrap(), 5);
        assert_eq!(Query::read("", &["limit"]).unwrap().limit(10, 100).unwrap(), 10);
    }
}
