//! All metric names and all log field names; nothing else counts or writes.

pub mod logs;
