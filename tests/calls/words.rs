//! What creates say of themselves: what the log must not keep, and what a policy must not lose.

use super::stage::{Stage, real, refused, two_tenants};
use crate::cube::Profile;

async fn log(stage: &Stage) -> Vec<String> {
    let ledger = &stage.warden.warden.ledger;
    ledger.write_notes().await.unwrap();
    ledger.decisions(0, 1000).await.unwrap().into_iter().map(|(_, text)| text).collect()
}

#[tokio::test]
async fn the_words_of_a_malformed_request_are_answered_and_not_logged() {
    for mode in ["enforce", "shadow"] {
        let stage = real(Profile::V070, &format!("mode = \"{mode}\"\n{}", two_tenants())).await;
        let body = r#"{"templateID":"tpl-000000000000000000000001","metadata":{"env":"my private words"}}"#;
        let answer = stage.a().post("/sandboxes", body).await;
        if mode == "enforce" {
            refused(&answer, 400, "BAD_REQUEST");
            assert!(answer.text("message").contains("my private words"), "{answer:?}");
        }
        let log = log(&stage).await;
        assert!(log.iter().any(|text| text.contains("BAD_REQUEST")), "{mode}: {log:?}");
        assert!(!log.iter().any(|text| text.contains("private")), "{mode}: {log:?}");
    }
}

#[tokio::test]
async fn a_policy_of_timeouts_leaves_the_clients_auto_resume_in_force() {
    for profile in [Profile::V051, Profile::V070] {
        let stage = real(profile, "[bucket_defaults]\non_timeout = \"pause\"\n").await;
        let create =
            |rest: &str| format!(r#"{{"templateID":"tpl-000000000000000000000001","timeout":60{rest}}}"#);
        for (rest, resumes) in [
            (r#","autoResume":{"enabled":true}"#, true),
            (r#","autoResume":{"enabled":false}"#, false),
            (r#","autoPause":true,"autoResume":{"enabled":true}"#, true),
            (r#","lifecycle":{"onTimeout":"kill","autoResume":true}"#, true),
            ("", false),
        ] {
            let id = stage.warden.caller().create(&create(rest)).await;
            let made = stage.cube.sandbox(&id).unwrap();
            assert_eq!(made.auto_resume, resumes, "{profile:?} {rest}: {}", stage.created().pop().unwrap());
        }
        stage.balance(5).await;
    }
}
