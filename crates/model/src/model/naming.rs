//! The names of each family's parameters, as in its checkpoints.

use fitgpt_config::Family;

/// The names of a family's parameters, and how Hugging Face's files store them.
#[derive(Debug)]
pub struct Naming {
    /// The table of tokens.
    pub embedding: &'static str,
    /// The table of positions; empty if the family has none.
    pub positions: &'static str,
    /// The prefix before a block's number.
    pub blocks: &'static str,
    /// Before the attention.
    pub norm_1: &'static str,
    /// One joined projection, or those of queries, keys and values.
    pub qkv: &'static [&'static str],
    /// Norms of queries and keys.
    pub qk_norm: [&'static str; 2],
    /// The attention's output projection.
    pub attention_out: &'static str,
    /// Before the MLP.
    pub norm_2: &'static str,
    /// The gate of a gated MLP; empty if the family has none.
    pub mlp_gate: &'static str,
    /// To the MLP's inner width.
    pub mlp_up: &'static str,
    /// Back to the residual width.
    pub mlp_down: &'static str,
    /// Before the head.
    pub norm: &'static str,
    /// The head, if it is not tied.
    pub head: &'static str,
    /// Whether the initial weights of projections into the residual stream shrink with depth.
    pub scales_residual_init: bool,
    /// The prefix of every name except the head's in Hugging Face's files.
    pub file_prefix: &'static str,
    /// Suffixes of names whose matrices are stored (in, out) in files.
    pub transposed: &'static [&'static str],
    /// Whether files always contain biases, as zeros if the model has none.
    pub files_have_all_biases: bool,
    /// Suffixes of names that files may contain and the model does not use.
    pub spare: &'static [&'static str],
}

impl Naming {
    /// The name of a block.
    pub fn block(&self, layer: u32) -> String {
        format!("{}{layer}", self.blocks)
    }
}

/// How a family's parameters are named and stored.
pub fn naming(family: Family) -> &'static Naming {
    match family {
        Family::Gpt2 => &GPT2,
        Family::Llama | Family::Mistral | Family::Qwen2 | Family::Qwen3 => &LLAMA,
    }
}

/// As in OpenAI's checkpoints.
static GPT2: Naming = Naming {
    embedding: "wte",
    positions: "wpe",
    blocks: "h.",
    norm_1: "ln_1",
    qkv: &["attn.c_attn"],
    qk_norm: ["", ""],
    attention_out: "attn.c_proj",
    norm_2: "ln_2",
    mlp_gate: "",
    mlp_up: "mlp.c_fc",
    mlp_down: "mlp.c_proj",
    norm: "ln_f",
    head: "lm_head",
    scales_residual_init: true,
    file_prefix: "transformer.",
    // `transformers` stores these as `Conv1D`.
    transposed: &[
        ".attn.c_attn.weight",
        ".attn.c_proj.weight",
        ".mlp.c_fc.weight",
        ".mlp.c_proj.weight",
    ],
    files_have_all_biases: true,
    // Causal masks, and the head, which is the embedding.
    spare: &[".attn.bias", ".attn.masked_bias", "lm_head.weight"],
};

/// As in Hugging Face's checkpoints.
static LLAMA: Naming = Naming {
    embedding: "model.embed_tokens",
    positions: "",
    blocks: "model.layers.",
    norm_1: "input_layernorm",
    qkv: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    qk_norm: ["self_attn.q_norm", "self_attn.k_norm"],
    attention_out: "self_attn.o_proj",
    norm_2: "post_attention_layernorm",
    mlp_gate: "mlp.gate_proj",
    mlp_up: "mlp.up_proj",
    mlp_down: "mlp.down_proj",
    norm: "model.norm",
    head: "lm_head",
    scales_residual_init: false,
    file_prefix: "",
    transposed: &[],
    files_have_all_biases: false,
    // Tables of frequencies that old versions stored, and a tied head.
    spare: &[".rotary_emb.inv_freq", "lm_head.weight"],
};
