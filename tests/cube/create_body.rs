//! The body of a create as `CubeAPI` declares it, in its two forms.
//!
//! Must stay true: both structs are called `NewSandbox` and keep their number of fields, because the extractor's errors tell both.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::ask::{Lifecycle, Network, VolumeMount};

/// Up to v0.6.0: eleven fields.
pub(crate) mod narrow {
    use super::{BTreeMap, Deserialize, Lifecycle, Network, Value, VolumeMount};

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(crate) struct NewSandbox {
        #[serde(rename = "templateID")]
        template_id: String,
        timeout: Option<i32>,
        lifecycle: Option<Lifecycle>,
        #[serde(alias = "auto_pause")]
        auto_pause: Option<bool>,
        #[serde(alias = "auto_resume")]
        auto_resume: Option<Value>,
        #[serde(rename = "secure")]
        _secure: Option<Value>,
        #[serde(rename = "allow_internet_access")]
        _allow_internet_access: Option<bool>,
        network: Option<Network>,
        metadata: Option<BTreeMap<String, String>>,
        #[serde(alias = "envs")]
        env_vars: Option<BTreeMap<String, String>>,
        #[serde(rename = "mcp")]
        _mcp: Option<Value>,
    }

    impl From<NewSandbox> for crate::cube::ask::NewSandbox {
        fn from(wire: NewSandbox) -> Self {
            Self {
                template_id: wire.template_id,
                timeout: wire.timeout,
                lifecycle: wire.lifecycle,
                auto_pause: wire.auto_pause,
                auto_resume: wire.auto_resume,
                public_traffic: wire.network.unwrap_or_default().allow_public_traffic,
                metadata: wire.metadata.unwrap_or_default(),
                env: wire.env_vars.unwrap_or_default(),
                volume_mounts: Vec::<VolumeMount>::new(),
            }
        }
    }
}

/// v0.7: thirteen fields.
pub(crate) mod wide {
    use super::{BTreeMap, Deserialize, Lifecycle, Network, Value, VolumeMount};

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(crate) struct NewSandbox {
        #[serde(rename = "templateID")]
        template_id: String,
        timeout: Option<i32>,
        lifecycle: Option<Lifecycle>,
        #[serde(alias = "auto_pause")]
        auto_pause: Option<bool>,
        #[serde(alias = "auto_resume")]
        auto_resume: Option<Value>,
        #[serde(rename = "secure")]
        _secure: Option<Value>,
        #[serde(rename = "allow_internet_access")]
        _allow_internet_access: Option<bool>,
        network: Option<Network>,
        metadata: Option<BTreeMap<String, String>>,
        #[serde(rename = "distributionScope", alias = "distribution_scope")]
        _distribution_scope: Option<Vec<String>>,
        #[serde(alias = "envs")]
        env_vars: Option<BTreeMap<String, String>>,
        #[serde(rename = "mcp")]
        _mcp: Option<Value>,
        volume_mounts: Option<Vec<VolumeMount>>,
    }

    impl From<NewSandbox> for crate::cube::ask::NewSandbox {
        fn from(wire: NewSandbox) -> Self {
            Self {
                template_id: wire.template_id,
                timeout: wire.timeout,
                lifecycle: wire.lifecycle,
                auto_pause: wire.auto_pause,
                auto_resume: wire.auto_resume,
                public_traffic: wire.network.unwrap_or_default().allow_public_traffic,
                metadata: wire.metadata.unwrap_or_default(),
                env: wire.env_vars.unwrap_or_default(),
                volume_mounts: wire.volume_mounts.unwrap_or_default(),
            }
        }
    }
}
