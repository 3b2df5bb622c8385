//! The names of llama.cpp's tensors, and its order of their rows.

use fitgpt_config::Family;
use fitgpt_model::{Model, Naming};

/// llama.cpp's name for a parameter; `None` if it has no such tensor.
pub(super) fn tensor(naming: &Naming, parameter: &str) -> Option<String> {
    let (stem, end) = parameter.rsplit_once('.')?;
    let is = |name: &str, wanted: &str| !wanted.is_empty() && name == wanted;
    let whole = [
        (naming.embedding, "token_embd"),
        (naming.positions, "position_embd"),
        (naming.norm, "output_norm"),
        (naming.head, "output"),
    ];
    if let Some((_, name)) = whole.iter().find(|(ours, _)| is(stem, ours)) {
        return Some(format!("{name}.{end}"));
    }
    let (block, part) = stem.strip_prefix(naming.blocks)?.split_once('.')?;
    let of_qkv = |index| naming.qkv.get(index).copied().filter(|_| naming.qkv.len() == 3);
    let parts = [
        (Some(naming.norm_1), "attn_norm"),
        (naming.qkv.first().copied().filter(|_| naming.qkv.len() == 1), "attn_qkv"),
        (of_qkv(0), "attn_q"),
        (of_qkv(1), "attn_k"),
        (of_qkv(2), "attn_v"),
        (Some(naming.qk_norm[0]), "attn_q_norm"),
        (Some(naming.qk_norm[1]), "attn_k_norm"),
        (Some(naming.attention_out), "attn_output"),
        (Some(naming.norm_2), "ffn_norm"),
        (Some(naming.mlp_gate), "ffn_gate"),
        (Some(naming.mlp_up), "ffn_up"),
        (Some(naming.mlp_down), "ffn_down"),
    ];
    let found = parts.iter().find(|(ours, _)| ours.is_some_and(|ours| is(part, ours)));
    found.map(|(_, name)| format!("blk.{block}.{name}.{end}"))
}

/// The name of a family's architecture.
pub(super) fn architecture(family: Family) -> &'static str {
    match family {
        Family::Gpt2 => "gpt2",
        Family::Llama | Family::Mistral => "llama",
        Family::Qwen2 => "qwen2",
        Family::Qwen3 => "qwen3",
    }
}

/// Puts the rows of queries and keys in llama.cpp's order. Its `llama` rotates neighbouring
/// channels, Hugging Face's the two halves of a head; its `qwen2` and `qwen3` rotate halves too.
pub(super) fn reorder(model: &Model, name: &str, values: Vec<f32>) -> Vec<f32> {
    let heads = match name.split('.').nth(2) {
        _ if !matches!(model.family, Family::Llama | Family::Mistral) => return values,
        Some("attn_q") => model.heads,
        Some("attn_k") => model.kv_heads,
        _ => return values,
    };
    let (heads, rows) = (heads as usize, model.head_channels as usize);
    let width = values.len() / (heads * rows);
    let mut reordered = Vec::with_capacity(values.len());
    for head in 0..heads {
        for row in 0..rows {
            let from = head * rows + row % 2 * (rows / 2) + row / 2;
            reordered.extend_from_slice(&values[from * width..(from + 1) * width]);
        }
    }
    reordered
}

#[cfg(test)]
mod tests {
    use fitgpt_model::family::gpt2::Gpt2Sizes;
    use fitgpt_program::Gelu;

    use super::*;

    #[test]
    fn every_parameter_of_every_family_has_a_name() {
        let gpt2 = Gpt2Sizes {
            layers: 2,
            heads: 2,
            channels: 8,
            vocab: 65,
            block: 16,
            has_bias: true,
            gelu: Gelu::Tanh,
        }
        .model();
        for family in Family::ALL {
            let mut model = gpt2;
            model.family = family;
            if family != Family::Gpt2 {
                model.mlp = fitgpt_model::MlpKind::SwiGlu;
                model.norm = fitgpt_model::NormKind::Rms;
                model.has_qk_norm = family == Family::Qwen3;
                model.biases.norm = false;
                model.is_tied = false;
                let rope = fitgpt_program::Rope::new(1e4);
                model.positions = fitgpt_model::Positions::Rotary(rope);
            }
            let mut names = Vec::new();
            for parameter in model.parameters() {
                let name = tensor(fitgpt_model::naming(family), &parameter.name);
                names.push(name.unwrap_or_else(|| panic!("{family}: `{}`", parameter.name)));
            }
            let n = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), n, "{family}");
        }
        let name = |parameter| tensor(fitgpt_model::naming(Family::Gpt2), parameter);
        assert_eq!(name("h.11.attn.c_attn.bias").as_deref(), Some("blk.11.attn_qkv.bias"));
        assert_eq!(name("wpe.weight").as_deref(), Some("position_embd.weight"));
        assert_eq!(name("h.0.attn.bias"), None);
    }
}
