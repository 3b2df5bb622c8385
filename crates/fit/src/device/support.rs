//! What PyTorch still does on a card: `torch.compile`, and the builds that have kernels for it.
//!
//! PyTorch's support matrices: its issues 157517 (2.8), 172352 (2.11) and 190385 (2.15).

use serde::Serialize;

use super::{CardSpec, Generation};

/// The releases of PyTorch for a card that new builds leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LegacyBuilds {
    /// From this release on, only builds for an old CUDA support the card.
    pub since: &'static str,
    /// That CUDA, such as `12.6`.
    pub cuda: &'static str,
    /// The last release with such builds.
    pub last: &'static str,
}

impl LegacyBuilds {
    /// The name of the builds at pytorch.org, such as `cu126`.
    pub fn index(&self) -> String {
        format!("cu{}", self.cuda.replace('.', ""))
    }
}

impl Generation {
    /// Whether Triton, which `torch.compile` needs, supports it: NVIDIA's cards from capability 7.0
    /// on. Cards of other makers are not known to be refused.
    pub const fn has_triton(self) -> bool {
        !matches!(self, Self::Pascal)
    }

    /// The releases of PyTorch for it, if new builds leave it out.
    pub const fn legacy_builds(self) -> Option<LegacyBuilds> {
        let since = match self {
            Self::Pascal => "2.8",
            Self::Volta => "2.11",
            _ => return None,
        };
        Some(LegacyBuilds { since, cuda: "12.6", last: "2.14" })
    }
}

impl CardSpec {
    /// Whether Triton, which `torch.compile` needs, supports it.
    pub const fn has_triton(&self) -> bool {
        self.generation.has_triton()
    }

    /// The releases of PyTorch for it, if new builds leave it out.
    pub const fn legacy_builds(&self) -> Option<LegacyBuilds> {
        self.generation.legacy_builds()
    }
}
