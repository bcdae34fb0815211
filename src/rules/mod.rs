//! PURE: values in, value out. Nothing here reads a clock, speaks to anybody or remembers anything.

pub mod policy;
