//! Completions and manual pages.

use super::{cubewarden, said};

const COMMANDS: [&str; 14] = [
    "serve",
    "check",
    "keygen",
    "ls",
    "explain",
    "plan",
    "sweep",
    "kill",
    "hold",
    "unhold",
    "release",
    "decisions",
    "shadow",
    "drain",
];

#[tokio::test]
async fn every_shell_completes_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = said(&cubewarden("", &["completions", shell], &[]).await);
        let missing: Vec<_> = COMMANDS.iter().filter(|command| !text.contains(**command)).collect();
        assert!(missing.is_empty(), "{shell}: {missing:?}");
    }
}

#[tokio::test]
async fn every_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("man");
    said(&cubewarden("", &["man", path.to_str().unwrap()], &[]).await);
    for command in COMMANDS {
        let page = std::fs::read_to_string(path.join(format!("cubewarden-{command}.1"))).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{command}: {page}");
    }
    assert!(std::fs::read_to_string(path.join("cubewarden.1")).unwrap().contains("explain"));
}

#[tokio::test]
async fn a_kill_without_a_right_and_a_hold_without_a_reason_are_no_commands() {
    for args in [
        &["kill", "x"][..],
        &["kill", "x", "--force"],
        &["kill", "x", "--force", "--generation", "1", "--reason", "r"],
        &["hold", "x"],
        &["release"],
        &["sweep"],
        &["decisions", "--limit", "0"],
    ] {
        let output = cubewarden("http://127.0.0.1:1", args, &[]).await;
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}
