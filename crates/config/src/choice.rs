//! Keys whose value is one of a few names.

use std::fmt;

use fitgpt_program::{
    RopeScaling,
    units::{DType, Real},
};

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

    /// How an element is stored.
    pub const fn dtype(self) -> DType {
        match self {
            Self::Float32 => DType::F32,
            Self::Bfloat16 => DType::Bf16,
            Self::Float16 => DType::F16,
        }
    }

    pub(super) const NAMES: &'static [&'static str] = &["float32", "bfloat16", "float16"];

    pub(super) fn parse(name: &str) -> Option<Self> {
        [Self::Float32, Self::Bfloat16, Self::Float16].into_iter().find(|p| p.name() == name)
    }
}

/// A `model_type` that can be planned and trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// GPT-2, and nanoGPT's variant of it without biases.
    Gpt2,
    /// Llama 1 to 3, `SmolLM`, `TinyLlama`.
    Llama,
    /// Mistral, for sequences up to its attention window.
    Mistral,
    /// Qwen 2 and 2.5: Llama with biases on queries, keys and values.
    Qwen2,
    /// Qwen 3: Llama with normalised queries and keys.
    Qwen3,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Gpt2, Self::Llama, Self::Mistral, Self::Qwen2, Self::Qwen3];

    /// As in a config, which is the `model_type` of `config.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gpt2 => "gpt2",
            Self::Llama => "llama",
            Self::Mistral => "mistral",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    /// Every name.
    pub const NAMES: &'static [&'static str] = &["gpt2", "llama", "mistral", "qwen2", "qwen3"];

    /// The family of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.name() == name)
    }

    /// Its default epsilon of normalisations.
    pub(super) const fn default_epsilon(self) -> f64 {
        match self {
            Self::Qwen2 | Self::Qwen3 => 1e-6,
            Self::Gpt2 | Self::Llama | Self::Mistral => 1e-5,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which of the attention's projections have biases, for families in which this varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionBias {
    /// No projection.
    None,
    /// Queries, keys and values.
    Qkv,
    /// Queries, keys, values and the output.
    All,
}

impl AttentionBias {
    /// As written in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Qkv => "qkv",
            Self::All => "all",
        }
    }

    pub(super) const NAMES: &'static [&'static str] = &["none", "qkv", "all"];

    pub(super) fn parse(name: &str) -> Option<Self> {
        [Self::None, Self::Qkv, Self::All].into_iter().find(|bias| bias.name() == name)
    }
}

/// How rotary positions are scaled, written as one string: `linear(2)`, `llama3(8, 1, 4, 8192)`, or
/// empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RopeSetting(RopeScaling);

impl RopeSetting {
    pub(super) const FORMS: &'static [&'static str] =
        &["", "linear(FACTOR)", "llama3(FACTOR, LOW, HIGH, POSITIONS)"];

    /// Wraps a scaling.
    pub fn new(scaling: RopeScaling) -> Self {
        Self(scaling)
    }

    /// How frequencies are scaled.
    pub fn scaling(self) -> RopeScaling {
        self.0
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() || text == "default" {
            return Some(Self::default());
        }
        let (name, rest) = text.split_once('(')?;
        let numbers: Vec<f64> = rest
            .strip_suffix(')')?
            .split(',')
            .map(|number| number.trim().parse().ok().filter(|n: &f64| n.is_finite() && *n > 0.0))
            .collect::<Option<_>>()?;
        let scaling = match (name.trim(), &numbers[..]) {
            ("linear", &[factor]) => RopeScaling::Linear { factor: Real::new(factor) },
            ("llama3", &[factor, low, high, positions])
                if low < high && positions.fract() == 0.0 && positions <= f64::from(u32::MAX) =>
            {
                let [factor, low, high] = [factor, low, high].map(Real::new);
                RopeScaling::Llama3 { factor, low, high, original_positions: positions as u32 }
            }
            _ => return None,
        };
        Some(Self(scaling))
    }
}

impl Default for RopeSetting {
    fn default() -> Self {
        Self(RopeScaling::None)
    }
}

impl fmt::Display for RopeSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            RopeScaling::None => Ok(()),
            RopeScaling::Linear { factor } => write!(f, "linear({})", factor.get()),
            RopeScaling::Llama3 { factor, low, high, original_positions } => {
                let [factor, low, high] = [factor, low, high].map(Real::get);
                write!(f, "llama3({factor}, {low}, {high}, {original_positions})")
            }
        }
    }
}

/// What the backward pass recomputes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GradCheckpoint {
    /// Nothing: every activation is kept.
    Off,
    /// Every block is recomputed from its input.
    Every,
    /// The cheapest mix that fits the budget.
    Auto,
}

/// Tokens of every published GPT-2.
pub const GPT2_VOCAB: u32 = 50_257;
/// nanoGPT's vocabulary if the data states none: [`GPT2_VOCAB`] rounded up to a multiple of 64.
pub const PADDED_VOCAB: u32 = 50_304;

/// Where the first weights come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InitFrom {
    /// Random.
    Scratch,
    /// The checkpoint in `out_dir`.
    Resume,
    /// The published weights with this name, such as `gpt2-medium`, or the weights in the folder
    /// with this path.
    Pretrained(String),
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

    /// The last one is a placeholder for any path or any name on the hub.
    pub(super) const NAMES: &'static [&'static str] =
        &["scratch", "resume", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "PATH/TO/FOLDER"];
    /// The names that nanoGPT accepts, with layers, heads and channels. They are never read as a
    /// folder.
    const NANOGPT: [(&'static str, [u32; 3]); 4] = [
        ("gpt2", [12, 12, 768]),
        ("gpt2-medium", [24, 16, 1024]),
        ("gpt2-large", [36, 20, 1280]),
        ("gpt2-xl", [48, 25, 1600]),
    ];

    /// Parses a config's text.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "scratch" => Some(Self::Scratch),
            "resume" => Some(Self::Resume),
            // The caller checks whether such weights exist.
            name if !name.trim().is_empty() && !name.contains('\0') => {
                Some(Self::Pretrained(name.to_owned()))
            }
            _ => None,
        }
    }

    /// Whether the name is one of the four GPT-2s that nanoGPT knows.
    pub fn is_nanogpt(name: &str) -> bool {
        Self::nanogpt_sizes(name).is_some()
    }

    /// Layers, heads and channels of such a name.
    pub(super) fn nanogpt_sizes(name: &str) -> Option<[u32; 3]> {
        Self::NANOGPT.into_iter().find_map(|(known, sizes)| (known == name).then_some(sizes))
    }
}

/// Whose checkpoint is continued if a folder has two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResumeFrom {
    /// Ours.
    FitGpt,
    /// nanoGPT's `ckpt.pt`.
    NanoGpt,
}

impl ResumeFrom {
    /// As written in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::FitGpt => "fitgpt",
            Self::NanoGpt => "nanogpt",
        }
    }

    pub(super) const NAMES: &'static [&'static str] = &["fitgpt", "nanogpt"];

    /// The one of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::FitGpt, Self::NanoGpt].into_iter().find(|it| it.name() == name)
    }
}

/// The requested device. Displays as written in a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceChoice {
    /// The best one on this machine.
    Auto,
    /// The host.
    Cpu,
    /// Any GPU, or the one with this index.
    Gpu(Option<u32>),
    /// A GPU through CUDA.
    Cuda(Option<u32>),
    /// A GPU through Vulkan.
    Vulkan(Option<u32>),
    /// A GPU through Metal.
    Metal(Option<u32>),
    /// Apple's GPU; PyTorch's name.
    Mps,
}

impl DeviceChoice {
    pub(super) const NAMES: &'static [&'static str] =
        &["auto", "cpu", "gpu", "cuda", "vulkan", "metal", "mps"];

    pub(super) fn parse(text: &str) -> Option<Self> {
        let (name, index) = match text.split_once(':') {
            // `str::parse` alone would accept `+1`.
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
        for name in Family::NAMES {
            assert_eq!(Family::parse(name).unwrap().name(), *name);
        }
        for name in ResumeFrom::NAMES {
            assert_eq!(ResumeFrom::parse(name).unwrap().name(), *name);
        }
        for name in InitFrom::NAMES {
            assert_eq!(InitFrom::parse(name).unwrap().name(), *name);
        }
        for name in DeviceChoice::NAMES.iter().chain(&["cuda:0", "gpu:1", "vulkan:2", "metal:3"]) {
            assert_eq!(DeviceChoice::parse(name).unwrap().to_string(), *name);
        }
    }

    #[test]
    fn a_rope_scaling_reads_back_as_it_prints() {
        for text in ["", "linear(2.5)", "llama3(32, 1, 4, 8192)"] {
            assert_eq!(RopeSetting::parse(text).unwrap().to_string(), text);
        }
        for text in ["yarn(2)", "linear", "linear()", "linear(0)", "llama3(8, 4, 1, 8192)"] {
            assert_eq!(RopeSetting::parse(text), None, "{text}");
        }
    }

    #[test]
    fn initial_weights_may_be_a_folder_or_a_name_on_the_hub() {
        for name in ["./gpt2", "out-tiny", "/models/mine", r"C:\models\mine", "org/name"] {
            assert_eq!(InitFrom::parse(name), Some(InitFrom::Pretrained(name.to_owned())));
        }
        for text in ["", " ", "a\0b"] {
            assert_eq!(InitFrom::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_unknown_device_does_not_parse() {
        for text in
            ["", "tpu", "cuda:", "cuda:x", "cuda:+1", "cpu:0", "cuda:1:2", "cuda:4294967296"]
        {
            assert_eq!(DeviceChoice::parse(text), None, "{text}");
        }
    }
}
