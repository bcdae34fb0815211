//! Who may look: anybody, or whoever shows the token.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::settings::Token;

/// Whether the caller may look. Takes as long for a wrong token as for the right one, whatever its length.
pub(super) fn granted(token: Option<&Token>, headers: &HeaderMap) -> bool {
    let Some(Token(wanted)) = token else { return true };
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let Some((scheme, shown)) = value.to_str().ok().and_then(|text| text.split_once(' ')) else {
        return false;
    };
    let same: bool = Sha256::digest(shown).ct_eq(&Sha256::digest(wanted)).into();
    scheme.eq_ignore_ascii_case("bearer") && same
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn only_the_whole_token_as_the_only_bearer_opens() {
        let token = Token("s3cret".to_owned());
        let shown = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            granted(Some(&token), &headers)
        };
        assert!(shown(&["Bearer s3cret"]) && shown(&["bearer s3cret"]));
        let wrong: [&[&str]; 8] = [
            &[],
            &["Bearer"],
            &["Bearer "],
            &["Bearer s3cre"],
            &["Bearer s3cret2"],
            &["Basic s3cret"],
            &["s3cret"],
            &["Bearer s3cret", "Bearer s3cret"],
        ];
        for values in wrong {
            assert!(!shown(values), "{values:?}");
        }
        assert!(granted(None, &HeaderMap::new()));
    }
}
