//! The simulator held to the record.
