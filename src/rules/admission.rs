//! May one more begin: N means exactly N.

/// Whether a set that holds `held` entries takes one more under `limit` (`None`: counted, not limited).
#[must_use]
pub fn admits(held: u64, limit: Option<u64>) -> bool {
    limit.is_none_or(|limit| held < limit)
}

#[cfg(test)]
mod tests {
    use super::admits;

    #[test]
    fn n_means_exactly_n_and_zero_means_none() {
        for limit in [0, 1, 2, 10] {
            let admitted = (0..20).take_while(|held| admits(*held, Some(limit))).count();
            assert_eq!(admitted as u64, limit);
        }
        assert!(admits(u64::MAX, None));
    }
}
