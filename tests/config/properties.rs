//! No text and no environment makes the reader panic, and it never refuses without a word.

use cubewarden::config::load;
use proptest::prelude::*;

/// Loads, and looks at whatever came out.
fn survives(text: &str, env: Vec<(String, String)>) {
    match load(text, env) {
        Ok(settings) => assert!(!settings.effective.is_empty()),
        Err(problems) => {
            assert!(problems.iter().count() > 0);
            for problem in problems.iter() {
                let sentence = problem.to_string();
                assert!(!sentence.trim().is_empty() && !sentence.contains('\n'), "{sentence:?}");
            }
        }
    }
}

/// Every key there is, from the configuration itself.
fn keys() -> Vec<String> {
    let settings = load("", []).unwrap();
    let mut keys: Vec<_> = settings.effective.into_iter().map(|value| value.key).collect();
    for section in ["bucket", "tenant", "env_defaults", "env_defaults.x", "store"] {
        keys.push(section.to_owned());
        keys.extend(
            ["limit", "name", "buckets", "keys_sha256", "namespace", "env"]
                .map(|key| format!("{section}.{key}")),
        );
    }
    keys
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<bool>().prop_map(|flag| flag.to_string()),
        any::<f64>()
            .prop_filter("TOML has no such form", |f| f.is_finite())
            .prop_map(|number| format!("{number:?}")),
        "[ -~]{0,40}".prop_map(|text| format!("'{}'", text.replace('\'', ""))),
        "[0-9]{1,30} ?(ns|us|ms|s|m|h|d|y|KiB|MiB|GiB)?".prop_map(|text| format!("\"{text}\"")),
        Just("[]".to_owned()),
        Just("[[1]]".to_owned()),
        Just("[{}]".to_owned()),
        Just("{ a = 1 }".to_owned()),
        Just("1979-05-27T07:32:00Z".to_owned()),
        Just("\"http://a:1\"".to_owned()),
        Just("\"none\"".to_owned()),
        Just("\"a/b\"".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_text_is_read_or_refused_with_a_reason(text in any::<String>()) {
        survives(&text, Vec::new());
    }

    #[test]
    fn any_value_for_any_key_is_read_or_refused_with_a_reason(
        chosen in prop::collection::vec((prop::sample::select(keys()), value()), 1..6)
    ) {
        let lines: Vec<_> = chosen.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        survives(&lines.join("\n"), Vec::new());
    }

    #[test]
    fn any_environment_is_read_or_refused_with_a_reason(
        chosen in prop::collection::vec((prop::sample::select(keys()), any::<String>()), 0..4),
        odd in any::<String>(),
    ) {
        let name = |key: &str| format!("CUBEWARDEN_{}", key.to_uppercase().replace('.', "_"));
        let mut env: Vec<_> = chosen.into_iter().map(|(key, value)| (name(&key), value)).collect();
        env.push((format!("CUBEWARDEN_{odd}"), odd));
        survives("", env);
    }
}
