//! The warden's own calls that touch a life: waking in order to delete, renewing a lease.

use http::Method;

use super::{Client, Credential, Pace};
use crate::cube::guard::{Place, told};
use crate::cube::outcome::Asked;
use crate::ids::SandboxId;

/// How long a sandbox is woken for in order to be deleted, in seconds.
const WOKEN_SECONDS: u32 = 60;

impl Client {
    /// Wakes a paused sandbox in order to delete it: auto-pause off, a short timeout.
    ///
    /// # Errors
    /// In words, if it did not wake.
    pub async fn wake(
        &self,
        mut place: Place,
        sandbox: &SandboxId,
        credential: &Credential,
    ) -> Result<(), String> {
        let body = format!(r#"{{"timeout":{WOKEN_SECONDS},"autoPause":false}}"#);
        let mut said = String::new();
        for route in ["resume", "connect"] {
            let path = format!("/sandboxes/{sandbox}/{route}");
            place.sends();
            let answer = self.ask(Method::POST, &path, Some(&body), Pace::Wake, credential).await;
            place.tell(told(Asked::Write, &answer));
            match answer {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) => said = format!("{route} was answered {}", answer.status().as_u16()),
                Err(error) => said = format!("{route}: {error}"),
            }
        }
        Err(said)
    }

    /// Asks Cube to keep a running sandbox for `seconds` from now on.
    ///
    /// # Errors
    /// In words, if Cube did not say that it does.
    pub async fn renew(
        &self,
        mut place: Place,
        sandbox: &SandboxId,
        seconds: u64,
        credential: &Credential,
    ) -> Result<(), String> {
        let (path, body) = (format!("/sandboxes/{sandbox}/timeout"), format!(r#"{{"timeout":{seconds}}}"#));
        place.sends();
        let answer = self.ask(Method::POST, &path, Some(&body), Pace::Call, credential).await;
        place.tell(told(Asked::Write, &answer));
        match answer {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(format!("timeout was answered {}", answer.status().as_u16())),
            Err(error) => Err(format!("timeout: {error}")),
        }
    }
}
