//! The files under `deploy/`: what they set is known to the configuration, what they call is known to the program, and
//! ports, times and users are those of the program, the image and each other.

use std::time::Duration;

use cubewarden::config::{self, Settings};
use cubewarden::store::settings::Settings as Store;

use crate::support::repository::read;

/// The lines of a file that say something.
fn said(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
}

/// `NAME=value` lines; with `all`, those that stand there as comments too.
fn variables(text: &str, all: bool) -> Vec<(String, String)> {
    let lines = text.lines().map(|line| if all { line.strip_prefix('#').unwrap_or(line) } else { line });
    let pairs = lines.filter(|line| !line.starts_with(['#', ' '])).filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn load(text: &str, env: Vec<(String, String)>) -> Settings {
    config::load(text, env).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The value of an assignment in a unit, once.
fn unit(key: &str) -> String {
    let text = read("deploy/cubewarden.service");
    let prefix = format!("{key}=");
    let found: Vec<_> = said(&text).filter_map(|line| line.strip_prefix(&prefix)).collect();
    assert_eq!(found.len(), 1, "{key}");
    found[0].to_owned()
}

#[test]
fn the_example_of_an_environment_is_accepted_as_it_stands_and_with_everything_in_it() {
    let text = read("deploy/cubewarden.env.example");
    let plain = load("", variables(&text, false));
    assert!(matches!(&plain.store, Store::Embedded { path } if path.starts_with("/var/lib/cubewarden")));
    assert!(!plain.proxy.listen.ip().is_loopback() && plain.admin.listen.ip().is_loopback());
    let whole = load("", variables(&text, true));
    assert!(
        matches!(whole.store, Store::Redis(_)) && whole.admin.token.is_some() && whole.cube.api_key.is_some()
    );
}

#[test]
fn the_unit_starts_the_program_as_it_can_be_started_and_gives_it_time_to_drain() {
    let command = unit("ExecStart");
    assert_eq!(command, "/usr/local/bin/cubewarden serve --config /etc/cubewarden/cubewarden.toml");
    let settings = load("", Vec::new());
    let patience: u64 = unit("TimeoutStopSec").parse().unwrap();
    assert!(Duration::from_secs(patience) > settings.proxy.drain + Duration::from_secs(5));
    assert_eq!(
        (unit("KillSignal"), unit("ExecReload")),
        ("SIGTERM".into(), "/bin/kill -HUP $MAINPID".into())
    );
    assert_eq!((unit("RestartPreventExitStatus"), unit("User")), ("2".into(), "cubewarden".into()));
    assert_eq!(format!("/var/lib/{}", unit("StateDirectory")), unit("WorkingDirectory"));
    assert!(unit("EnvironmentFile").starts_with("-/etc/cubewarden/"));
}

#[test]
fn the_manifest_holds_a_configuration_and_agrees_with_program_and_image() {
    let text = read("deploy/kubernetes.yaml");
    let (_, config) = text.split_once("cubewarden.toml: |\n").unwrap();
    let config: Vec<_> =
        config.lines().take_while(|line| line.is_empty() || line.starts_with("    ")).collect();
    let secrets = [
        ("CUBEWARDEN_STORE_URL", "redis://:password@redis:6379/3"),
        ("WARDEN_ADMIN_TOKEN", "s3cret"),
        ("CUBE_API_KEY", "s3cret"),
    ];
    for (name, _) in secrets {
        assert!(text.contains(&format!("- name: {name}\n")), "{name} is not set");
    }
    let env = secrets.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = load(&config.join("\n"), env.to_vec());
    assert!(matches!(settings.store, Store::Redis(_)) && settings.admin.token.is_some());
    for (name, port) in [("proxy", settings.proxy.listen.port()), ("admin", settings.admin.listen.port())] {
        assert!(
            text.contains(&format!("{{name: {name}, containerPort: {port}, hostPort: {port}}}")),
            "{name}"
        );
        assert!(text.contains(&format!("{{name: {name}, port: {port}, targetPort: {name}}}")), "{name}");
    }
    let image = read("Dockerfile");
    let user = image.lines().find_map(|line| line.strip_prefix("USER ")).unwrap();
    let (user, group) = user.split_once(':').unwrap();
    assert!(
        text.contains(&format!("runAsUser: {user}\n")) && text.contains(&format!("runAsGroup: {group}\n"))
    );
    assert!(text.contains(&format!("image: cubewarden:{}\n", env!("CARGO_PKG_VERSION"))));
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert!(text.contains(path), "{path}");
    }
}
