//! Where the operator is served, and what they must show.

use std::fmt;
use std::net::SocketAddr;

/// Everything that the admin listener goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the operator connects.
    pub listen: SocketAddr,
    /// The bearer token; `None` asks for none.
    pub token: Option<Token>,
}

/// A bearer token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}
