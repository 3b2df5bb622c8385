//! Published models: their sizes, and the names used for them in logs and commands.
//!
//! The planner resolves model names with this table, and the doctor finds names in logs. A test
//! recomputes every parameter count from the other columns; context lengths are unchecked. Weights
//! on this machine are described by their `config.json` instead.
//!
//! `init_from = 'gpt2-xl'` resolves to 48 layers in `plan`, `fit`, `doctor` and `train`, as nanoGPT
//! does at run time. Nothing is downloaded: a name is looked up in Hugging Face's cache, and
//! fetched only with `--download`.

mod table;

use std::{collections::HashMap, sync::LazyLock};

use self::table::MODELS;

/// Whether the output head shares the embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tied {
    /// One matrix for both.
    Yes,
    /// Two matrices.
    No,
}

/// A published model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its name on the hub.
    pub id: &'static str,
    /// Other names, in lower case and without an owner.
    pub aliases: &'static [&'static str],
    /// `model_type` of its `config.json`.
    pub model_type: &'static str,
    /// Learned elements; a tied head counts once.
    pub parameters: u64,
    /// Transformer blocks; in an encoder-decoder, those of each half.
    pub layers: u32,
    /// Width of the residual stream.
    pub width: u32,
    /// Heads of queries.
    pub heads: u32,
    /// Heads of keys and values.
    pub kv_heads: u32,
    /// Channels of one head.
    pub head_dim: u32,
    /// Inner width of the feed-forward layer; of one expert if there are several.
    pub ffn: u32,
    /// Rows of the embedding.
    pub vocab: u32,
    /// Longest sequence.
    pub context: u32,
    /// Whether the head shares the embedding.
    pub tied: Tied,
    /// Experts of a layer; 0 for a dense model.
    pub experts: u32,
}

impl Published {
    /// The name without its owner.
    pub fn name(&self) -> &'static str {
        self.id.rsplit('/').next().unwrap_or(self.id)
    }

    /// The name without the suffix of its variant.
    fn stem(&self) -> &'static str {
        let name = self.name();
        let endings = ["-hf", "-base", "-pt"];
        endings.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
    }

    /// Whether it is a decoder, not an encoder or an encoder-decoder.
    pub fn is_decoder(&self) -> bool {
        !matches!(self.model_type, "t5" | "bert" | "distilbert" | "roberta" | "xlm-roberta")
    }
}

/// All of them, by publisher.
pub fn all() -> &'static [Published] {
    MODELS
}

/// The model that `name` means: an id, an alias, or either followed by words that do not change
/// its sizes (`Llama-2-7b-chat-hf`). Case, owners, `-` and `_` do not matter.
///
/// A name with a different size (`gpt2-custom-350m`) is not found.
pub fn find(name: &str) -> Option<&'static Published> {
    let asked = ComparableName::new(name);
    // The longest matching name wins.
    asked.prefixes().find_map(|letters| KNOWN.get(letters).copied())
}

/// Every model by its names, spelled as [`ComparableName::letters`]. The first in the table wins.
static KNOWN: LazyLock<HashMap<String, &'static Published>> = LazyLock::new(|| {
    let mut known = HashMap::new();
    for model in MODELS {
        for name in model.aliases.iter().copied().chain([model.name(), model.stem()]) {
            known.entry(ComparableName::new(name).letters).or_insert(model);
        }
    }
    known
});

/// The model whose weights `name` means: its id, one of its names, or a variant by the same
/// publisher (`meta-llama/Llama-3.2-1B-Instruct`). Models that others derived from it are not found,
/// because they may have different sizes.
pub fn named(name: &str) -> Option<&'static Published> {
    let model = find(name)?;
    let owners = model.id.rsplit_once('/').map_or("openai-community", |(owner, _)| owner);
    let is_it = if let Some((owner, _)) = name.rsplit_once('/') {
        owner.eq_ignore_ascii_case(owners)
    } else {
        let mut names = model.aliases.iter().chain([&model.id]);
        names.any(|known| known.eq_ignore_ascii_case(name))
            || model.name().eq_ignore_ascii_case(name)
    };
    is_it.then_some(model)
}

/// A name normalised for comparison: lower case, without owner and separators.
struct ComparableName {
    letters: String,
    /// Lengths of the prefixes that end at a word boundary.
    ends: Vec<usize>,
}

impl ComparableName {
    fn new(name: &str) -> Self {
        let name = name.trim_matches('/').rsplit(['/', '\\']).next().unwrap_or_default();
        let mut spelled = Self { letters: String::new(), ends: Vec::new() };
        for word in name.split(['-', '_', ' ']).filter(|word| !word.is_empty()) {
            spelled.letters.push_str(&word.to_ascii_lowercase());
            spelled.ends.push(spelled.letters.len());
        }
        spelled
    }

    /// This name and, from the longest to the shortest, its beginnings of whole words, as long as the
    /// words after them do not change sizes.
    fn prefixes(&self) -> impl Iterator<Item = &str> {
        let changes = |at: usize| {
            let start = self.ends[at - 1];
            changes_sizes(&self.letters[start..self.ends[at]])
        };
        let shortest = (1..self.ends.len()).rev().find(|at| changes(*at)).unwrap_or(0);
        self.ends[shortest..].iter().rev().map(|end| &self.letters[..*end])
    }
}

/// Whether a word means another size: `7b`, `350m`, `8x7b`, `medium` and the like, `moe`.
fn changes_sizes(word: &str) -> bool {
    let number = word.trim_end_matches(['b', 'm']);
    let is_number = !number.is_empty()
        && number.bytes().all(|c| c.is_ascii_digit() || c == b'.' || c == b'x')
        && number.starts_with(|c: char| c.is_ascii_digit());
    let is_size = is_number && number.len() + 1 == word.len();
    let names = ["small", "medium", "large", "xl", "mini", "nano", "moe", "vl", "vision", "audio"];
    is_size || names.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parameter count computed from the sizes.
    fn count(m: &Published) -> u64 {
        let [layers, width, ffn] = [m.layers, m.width, m.ffn].map(u64::from);
        let [vocab, context, experts] = [m.vocab, m.context, m.experts].map(u64::from);
        let queries = u64::from(m.heads) * u64::from(m.head_dim);
        let keys = u64::from(m.kv_heads) * u64::from(m.head_dim);
        let heads = if m.tied == Tied::Yes { 1 } else { 2 };
        let attention = 2 * width * queries + 2 * width * keys;
        let gated = attention + 3 * width * ffn + 2 * width;
        let gpt = attention + 2 * width * ffn + 13 * width; // all biases, two norms
        let plain = |block: u64| heads * vocab * width + layers * block + width;
        let normed = |block: u64| plain(block) + width; // the last norm has a bias
        match m.model_type {
            "gpt2" => normed(gpt) + context * width,
            "gpt_neo" => normed(gpt - 3 * width) + context * width,
            "gpt_neox" => normed(gpt),
            "gptj" => normed(gpt - 6 * width) + vocab, // one norm; the head has a bias
            "phi" => normed(gpt - 2 * width) + vocab,
            "opt" if m.width == 1024 => {
                // Embeddings of 512 channels, and no norm at the end.
                512 * vocab + 2050 * width + 2 * 512 * width + layers * gpt
            }
            "opt" => normed(gpt) + 2050 * width,
            "bloom" => normed(gpt) + 2 * width,
            "llama" | "mistral" | "smollm3" | "phi3" | "gemma" => plain(gated),
            "qwen2" => plain(gated + queries + 2 * keys),
            "qwen3" => plain(gated + 2 * u64::from(m.head_dim)),
            "gemma2" => plain(gated + 2 * width),
            "gemma3_text" => plain(gated + 2 * width + 2 * u64::from(m.head_dim)),
            "mixtral" | "qwen3_moe" => {
                let norms = if m.model_type == "mixtral" { 0 } else { 2 * u64::from(m.head_dim) };
                let experts = experts * (3 * width * ffn + width);
                plain(attention + experts + 2 * width + norms)
            }
            "falcon" => {
                let norms = match m.kv_heads {
                    1 => 2 * width, // one norm before both halves, no biases
                    8 => 4 * width,
                    _ => 13 * width,
                };
                normed(attention + 2 * width * ffn + norms)
            }
            "t5" => {
                let inner = if m.tied == Tied::Yes { 2 } else { 3 } * width * ffn;
                let [encoder, decoder] =
                    [attention + inner + 2 * width, 2 * attention + inner + 3 * width];
                let positions = 2 * 32 * u64::from(m.heads);
                heads * vocab * width + layers * (encoder + decoder) + 2 * width + positions
            }
            "distilbert" => (vocab + context + 2) * width + layers * gpt,
            "bert" => (vocab + context + 4) * width + layers * gpt + (width + 1) * width,
            // Two positions more than tokens, one kind of segment.
            "roberta" | "xlm-roberta" => {
                (vocab + context + 5) * width + layers * gpt + (width + 1) * width
            }
            other => panic!("`{other}` has no arithmetic"),
        }
    }

    #[test]
    fn every_parameter_count_follows_from_the_sizes() {
        for model in MODELS {
            assert_eq!(count(model), model.parameters, "{}", model.id);
        }
    }

    #[test]
    fn no_name_means_two_models() {
        for model in MODELS {
            for name in model.aliases.iter().copied().chain([model.id, model.name()]) {
                assert_eq!(find(name).map(|found| found.id), Some(model.id), "{name}");
            }
            for alias in model.aliases {
                assert_eq!(*alias, alias.to_ascii_lowercase());
            }
        }
    }

    #[test]
    fn models_are_found_by_names_as_users_write_them() {
        let table = [
            ("meta-llama/Llama-2-7b-chat-hf", "meta-llama/Llama-2-7b-hf"),
            ("llama2_7b", "meta-llama/Llama-2-7b-hf"),
            ("/data/models/Meta-Llama-3-8B-Instruct/", "meta-llama/Meta-Llama-3-8B"),
            ("decapoda-research/llama-7b-hf", "huggyllama/llama-7b"),
            ("Qwen2.5-Coder-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B"),
            ("openai-community/gpt2-XL", "gpt2-xl"),
            ("TinyLlama-1.1B-Chat-v1.0", "TinyLlama/TinyLlama-1.1B"),
            ("mistralai/Mistral-7B-Instruct-v0.3", "mistralai/Mistral-7B-v0.3"),
            ("unsloth/gemma-2-9b-it-bnb-4bit", "google/gemma-2-9b"),
        ];
        for (name, id) in table {
            assert_eq!(find(name).map(|model| model.id), Some(id), "{name}");
        }
    }

    #[test]
    fn weights_of_other_publishers_are_not_found() {
        let table = [
            ("gpt2-xl", Some("gpt2-xl")),
            ("openai-community/gpt2", Some("gpt2")),
            ("Llama-2-7b-hf", Some("meta-llama/Llama-2-7b-hf")),
            ("meta-llama/Llama-2-7b-chat-hf", Some("meta-llama/Llama-2-7b-hf")),
            ("somebody/Llama-2-7b-pruned", None),
            ("Llama-2-7b-pruned", None),
            ("gpt2-mine", None),
        ];
        for (name, id) in table {
            assert_eq!(named(name).map(|model| model.id), id, "{name}");
        }
    }

    #[test]
    fn a_model_of_another_size_is_not_found() {
        for name in
            ["", "/", "gpt", "gpt2-custom-350m", "llama", "my-llama-2-7b", "Qwen2-VL-7B", "gpt2x"]
        {
            assert_eq!(find(name), None, "{name}");
        }
    }
}
