//! Links, kinds of blocks, TOML, and the syntax of what only an operator can run.

use std::process::{Command, Stdio};

use cubewarden::config;

use super::{blocks, blocks_of, pages};
use crate::support::repository::{at, read};

/// Kinds that some test tries, and `text`, which is none's business.
const KINDS: [&str; 10] = [
    "toml",
    "sh",
    "sh operator",
    "ini",
    "yaml prometheus",
    "python e2b-2.63.0",
    "python cubesandbox-0.7.3",
    "js 2.51.0",
    "json",
    "text",
];
/// What an operator's blocks may call.
const OPERATORS: [&str; 8] =
    ["cargo", "install", "useradd", "systemctl", "nft", "docker", "kubectl", "cubewarden"];

/// Variables that blocks name in `.._env` keys.
fn secrets() -> [(String, String); 2] {
    ["CUBE_API_KEY", "WARDEN_ADMIN_TOKEN"].map(|name| (name.to_owned(), "s3cret".to_owned()))
}

#[test]
fn every_block_is_of_a_kind_that_is_tried() {
    for block in blocks() {
        assert!(KINDS.contains(&block.kind.as_str()), "nobody tries {block}");
        if block.kind == "json" {
            serde_json::from_str::<serde_json::Value>(&block.text)
                .unwrap_or_else(|error| panic!("{error}: {block}"));
        }
    }
}

#[test]
fn every_toml_block_is_a_configuration() {
    let readme = blocks_of("README.md", &read("README.md"));
    let toml = blocks().into_iter().chain(readme).filter(|block| block.kind == "toml");
    let mut loaded = 0;
    for block in toml {
        // The README leaves a hash out.
        let text = block.text.replace("\"...\"", &format!("\"{}\"", "1".repeat(64)));
        if let Err(problems) = config::load(&text, secrets()) {
            panic!("{problems}: {block}");
        }
        loaded += 1;
    }
    assert!(loaded > 5);
}

#[test]
fn a_call_that_fails_is_seen_to_fail() {
    for block in blocks().into_iter().filter(|block| block.kind == "sh") {
        // `/readyz` says why it is not ready in an answer that is an error.
        let blind =
            |line: &&str| line.contains("curl ") && !line.contains("curl -fsS ") && !line.contains("/readyz");
        assert_eq!(block.text.lines().find(blind), None, "{block}");
    }
}

/// The program has this command, with these options.
fn can_be_typed(line: &str) {
    let words: Vec<_> = line.split(' ').collect();
    let commands = words.iter().take_while(|word| !word.starts_with('-'));
    let help = Command::new(env!("CARGO_BIN_EXE_cubewarden")).args(commands).arg("--help").output().unwrap();
    let says = String::from_utf8(help.stdout).unwrap();
    assert!(help.status.success(), "there is no `cubewarden {line}`");
    for option in words.iter().filter(|word| word.starts_with("--")) {
        assert!(
            says.contains(&format!("{option} <")) || says.contains(&format!("{option}\n")),
            "{option}: {line}"
        );
    }
}

#[test]
fn what_an_operator_runs_is_well_formed_and_names_files_that_exist() {
    for block in blocks().into_iter().filter(|block| block.kind == "sh operator") {
        let parsed =
            Command::new("bash").args(["-n", "-c", &block.text]).stdin(Stdio::null()).output().unwrap();
        assert!(parsed.status.success(), "{parsed:?}: {block}");
        for line in block.text.lines().filter(|line| !line.starts_with(' ')) {
            let command = line.split(' ').next().unwrap();
            assert!(OPERATORS.contains(&command), "{command} is none of {OPERATORS:?}: {block}");
            if let Some(ours) = line.strip_prefix("cubewarden ") {
                can_be_typed(ours);
            }
        }
        let files = block.text.split_whitespace().filter(|word| word.starts_with("deploy/"));
        for file in files {
            assert!(at(file).exists(), "{file} does not exist: {block}");
        }
    }
}

#[test]
fn every_unit_drop_in_is_sections_and_assignments() {
    for block in blocks().into_iter().filter(|block| block.kind == "ini") {
        let good = |line: &str| line.starts_with('[') && line.ends_with(']') || line.contains('=');
        assert!(block.text.lines().all(good), "{block}");
    }
}

#[test]
fn every_prometheus_block_is_accepted_by_promtool() {
    for block in blocks().into_iter().filter(|block| block.kind == "yaml prometheus") {
        let place = tempfile::tempdir().unwrap();
        std::fs::copy(at("dashboards/alerts.yml"), place.path().join("alerts.yml")).unwrap();
        std::fs::write(place.path().join("prometheus.yml"), &block.text).unwrap();
        let mut promtool = Command::new("promtool");
        let run = promtool.args(["check", "config", "prometheus.yml"]).current_dir(place.path()).output();
        let run = run.expect("the tests need promtool on the PATH (apt: prometheus)");
        assert!(run.status.success(), "{run:?}: {block}");
    }
}

#[test]
fn every_link_leads_to_a_file_and_every_page_is_in_the_index() {
    let index = read("docs/README.md");
    for page in pages().into_iter().chain(["README.md".to_owned()]) {
        let folder = at(&page).parent().unwrap().to_owned();
        for link in read(&page).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap();
            let foreign = link.starts_with("http");
            assert!(foreign || folder.join(file).exists(), "{page}: {link} leads nowhere");
        }
        let name = page.trim_start_matches("docs/");
        assert!(
            name == "README.md" || index.contains(&format!("]({name})")),
            "{name} is not in docs/README.md"
        );
    }
}
