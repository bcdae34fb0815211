//! What is wrong with a configuration, all of it at once.
//!
//! Must stay true: each problem names the key as it stands in the file, what was given, and what is wanted; and what may
//! be a secret is never shown.

use std::fmt;

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody wrote it.
    Default,
    /// The configuration file.
    File,
    /// An environment variable.
    Environment,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
        })
    }
}

/// One thing that is wrong: a sentence that begins with the key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem(pub(super) String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Everything that is wrong; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// `None` if nothing is wrong.
    pub(super) fn of(problems: Vec<Problem>) -> Option<Self> {
        if problems.is_empty() { None } else { Some(Self(problems)) }
    }

    /// The problems, in the order of the sections.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for Problems {
    /// One line for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(|problem| problem.0.as_str()).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Problems {}
