//! Keys that name one of a few things.

use std::fmt;

/// How activations are stored: nanoGPT's `dtype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 32 bits.
    Float32,
    /// 16 bits with float32's range.
    Bfloat16,
    /// 16 bits with more digits and less range; the loss is scaled.
    Float16,
}

impl Precision {
    /// As written in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Bfloat16 => "bfloat16",
            Self::Float16 => "float16",
        }
    }

    pub(super) const NAMES: &'static [&'static str] = &["float32", "bfloat16", "float16"];

    pub(super) fn parse(name: &str) -> Option<Self> {
        [Self::Float32, Self::Bfloat16, Self::Float16].into_iter().find(|p| p.name() == name)
    }
}

/// Which GELU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gelu {
    /// By the error function, as nanoGPT.
    Exact,
    /// By the tanh approximation, as the original GPT-2.
    Tanh,
}

impl Gelu {
    /// As written in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Tanh => "tanh",
        }
    }

    pub(super) const NAMES: &'static [&'static str] = &["exact", "tanh"];

    pub(super) fn parse(name: &str) -> Option<Self> {
        [Self::Exact, Self::Tanh].into_iter().find(|gelu| gelu.name() == name)
    }
}

/// What the backward pass recomputes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GradCheckpoint {
    /// Nothing: every activation is kept.
    Off,
    /// Every block, from its input.
    Every,
    /// The cheapest mix that fits the budget.
    Auto,
}

/// Where the first weights come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InitFrom {
    /// Random.
    Scratch,
    /// The checkpoint in `out_dir`.
    Resume,
    /// The published weights of this name, such as `gpt2-medium`, or those in the folder at
    /// this path.
    Pretrained(String),
}

/// The sizes of published weights, which a run that begins from them takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) layers: u32,
    pub(super) heads: u32,
    pub(super) channels: u32,
}

impl Published {
    /// Tokens of every GPT-2.
    pub(super) const VOCAB_SIZE: u32 = 50_257;
}

impl InitFrom {
    /// As written in a config.
    pub fn name(&self) -> &str {
        match self {
            Self::Scratch => "scratch",
            Self::Resume => "resume",
            Self::Pretrained(name) => name,
        }
    }

    /// The last stands for any path.
    pub(super) const NAMES: &'static [&'static str] =
        &["scratch", "resume", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "PATH/TO/FOLDER"];

    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "scratch" => Some(Self::Scratch),
            "resume" => Some(Self::Resume),
            name if Self::NAMES.contains(&name) || is_path(name) => {
                Some(Self::Pretrained(name.to_owned()))
            }
            _ => None,
        }
    }

    /// The sizes of published weights; those of a folder stand in its `config.json`.
    pub(super) fn published(&self) -> Option<Published> {
        let (layers, heads, channels) = match self.name() {
            "gpt2" => (12, 12, 768),
            "gpt2-medium" => (24, 16, 1024),
            "gpt2-large" => (36, 20, 1280),
            "gpt2-xl" => (48, 25, 1600),
            _ => return None,
        };
        Some(Published { layers, heads, channels })
    }
}

/// A word that is misspelled should be told from a path: a path has a separator.
fn is_path(text: &str) -> bool {
    text.contains(['/', '\\']) && !text.contains('\0')
}

/// Which device was asked for. Prints as written in a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceChoice {
    /// The best that is here.
    Auto,
    /// The host.
    Cpu,
    /// Any GPU, or the one of this index.
    Gpu(Option<u32>),
    /// A GPU through CUDA.
    Cuda(Option<u32>),
    /// A GPU through Vulkan.
    Vulkan(Option<u32>),
    /// A GPU through Metal.
    Metal(Option<u32>),
    /// Apple's GPU, as torch calls it.
    Mps,
}

impl DeviceChoice {
    pub(super) const NAMES: &'static [&'static str] =
        &["auto", "cpu", "gpu", "cuda", "vulkan", "metal", "mps"];

    pub(super) fn parse(text: &str) -> Option<Self> {
        let (name, index) = match text.split_once(':') {
            // `parse` alone would take `+1`.
            Some((name, index)) if index.bytes().all(|b| b.is_ascii_digit()) => {
                (name, Some(index.parse().ok()?))
            }
            Some(_) => return None,
            None => (text, None),
        };
        match (name, index) {
            ("auto", None) => Some(Self::Auto),
            ("cpu", None) => Some(Self::Cpu),
            ("gpu", index) => Some(Self::Gpu(index)),
            ("cuda", index) => Some(Self::Cuda(index)),
            ("vulkan", index) => Some(Self::Vulkan(index)),
            ("metal", index) => Some(Self::Metal(index)),
            ("mps", None) => Some(Self::Mps),
            _ => None,
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, index) = match self {
            Self::Auto => ("auto", None),
            Self::Cpu => ("cpu", None),
            Self::Gpu(index) => ("gpu", *index),
            Self::Cuda(index) => ("cuda", *index),
            Self::Vulkan(index) => ("vulkan", *index),
            Self::Metal(index) => ("metal", *index),
            Self::Mps => ("mps", None),
        };
        match index {
            Some(index) => write!(f, "{name}:{index}"),
            None => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_reads_back_as_it_prints() {
        for name in Precision::NAMES {
            assert_eq!(Precision::parse(name).unwrap().name(), *name);
        }
        for name in Gelu::NAMES {
            assert_eq!(Gelu::parse(name).unwrap().name(), *name);
        }
        for name in InitFrom::NAMES {
            assert_eq!(InitFrom::parse(name).unwrap().name(), *name);
        }
        for name in DeviceChoice::NAMES.iter().chain(&["cuda:0", "gpu:1", "vulkan:2", "metal:3"]) {
            assert_eq!(DeviceChoice::parse(name).unwrap().to_string(), *name);
        }
    }

    #[test]
    fn first_weights_may_lie_in_a_folder_and_a_misspelled_name_is_none() {
        for path in ["./gpt2", "models/mine", "/models/mine", r"C:\models\mine"] {
            assert_eq!(InitFrom::parse(path), Some(InitFrom::Pretrained(path.to_owned())));
        }
        for text in ["", "gtp2", "Resume", "gpt2-small"] {
            assert_eq!(InitFrom::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_device_that_nobody_has_is_none() {
        for text in
            ["", "tpu", "cuda:", "cuda:x", "cuda:+1", "cpu:0", "cuda:1:2", "cuda:4294967296"]
        {
            assert_eq!(DeviceChoice::parse(text), None, "{text}");
        }
    }
}
