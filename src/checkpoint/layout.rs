//! What lies in the files: names, shapes and where the values come from.
//!
//! `model.safetensors` has Hugging Face's layout: a `transformer.` before every name, linear
//! weights as `Conv1D` keeps them, `(in, out)`, and always biases. `state.safetensors` is read by
//! nobody else and has ours.

use super::store::{Entry, Kind};

/// In front of every name that `transformers` writes.
pub(super) const PREFIX: &str = "transformer.";

/// The table of positions, the one tensor that may be longer in a file than in the model.
pub(super) const POSITIONS: &str = "wpe.weight";

/// One tensor of a file.
#[derive(Debug)]
pub(super) struct Part<'a> {
    /// Its name in the file.
    pub(super) name: String,
    /// Its shape in the file.
    pub(super) shape: Vec<usize>,
    /// What it holds.
    pub(super) values: Values<'a>,
}

/// What a tensor of a file holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Values<'a> {
    /// The bias of a model that has none.
    Zero,
    /// The values of a tensor as it is.
    Plain(Kind, &'a Entry),
    /// The values of a matrix `(out, in)` as `(in, out)`.
    Transposed(Kind, &'a Entry),
}

impl Part<'_> {
    /// How many values it has.
    pub(super) fn count(&self) -> usize {
        self.shape.iter().product()
    }
}

/// What `model.safetensors` holds for these parameters.
pub(super) fn weights(entries: &[Entry]) -> Vec<Part<'_>> {
    let mut parts = Vec::with_capacity(2 * entries.len());
    for entry in entries {
        let name = format!("{PREFIX}{}", entry.name);
        parts.push(if is_conv1d(&entry.name) {
            let &[rows, columns] = &entry.shape[..] else {
                panic!("`{}` is a matrix", entry.name);
            };
            let values = Values::Transposed(Kind::Parameter, entry);
            Part { name, shape: vec![columns, rows], values }
        } else {
            let values = Values::Plain(Kind::Parameter, entry);
            Part { name, shape: entry.shape.clone(), values }
        });
        if let Some(bias) = missing_bias(entry, entries) {
            let name = format!("{PREFIX}{bias}");
            parts.push(Part { name, shape: vec![entry.shape[0]], values: Values::Zero });
        }
    }
    parts
}

/// What `state.safetensors` holds for these parameters.
pub(super) fn moments(entries: &[Entry]) -> Vec<Part<'_>> {
    fn both(entry: &Entry) -> [Part<'_>; 2] {
        [("exp_avg", Kind::ExpAvg), ("exp_avg_sq", Kind::ExpAvgSq)].map(|(word, kind)| Part {
            name: format!("{word}.{}", entry.name),
            shape: entry.shape.clone(),
            values: Values::Plain(kind, entry),
        })
    }
    entries.iter().flat_map(both).collect()
}

/// What other writers store and this model does not need: the tied head, and causal masks.
pub(super) fn is_spare(name: &str) -> bool {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    let is_mask = name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
    name == "lm_head.weight" || (name.starts_with("h.") && is_mask)
}

/// Whether `transformers` keeps this parameter as `(in, out)`.
fn is_conv1d(name: &str) -> bool {
    const CONV1D: [&str; 4] =
        [".attn.c_attn.weight", ".attn.c_proj.weight", ".mlp.c_fc.weight", ".mlp.c_proj.weight"];
    CONV1D.iter().any(|end| name.ends_with(end))
}

/// The name of the bias beside `entry` that GPT-2 has and this model does not.
fn missing_bias(entry: &Entry, entries: &[Entry]) -> Option<String> {
    let stem = entry.name.strip_suffix(".weight")?;
    let bias = format!("{stem}.bias");
    let has_bias_in_gpt2 = stem != "wte" && stem != "wpe";
    (has_bias_in_gpt2 && entries.iter().all(|other| other.name != bias)).then_some(bias)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_weight_is_transposed_and_its_missing_bias_is_zero() {
        let entries = [
            Entry::new("wte.weight", &[11, 4]),
            Entry::new("h.0.attn.c_attn.weight", &[12, 4]),
            Entry::new("ln_f.weight", &[4]),
            Entry::new("ln_f.bias", &[4]),
        ];
        let parts: Vec<_> = weights(&entries)
            .into_iter()
            .map(|part| {
                let is_transposed = matches!(part.values, Values::Transposed(..));
                (part.name, part.shape, is_transposed, matches!(part.values, Values::Zero))
            })
            .collect();
        let part = |name: &str, shape: &[usize], is_transposed, is_zero| {
            (name.to_owned(), shape.to_vec(), is_transposed, is_zero)
        };
        assert_eq!(
            parts,
            [
                part("transformer.wte.weight", &[11, 4], false, false),
                part("transformer.h.0.attn.c_attn.weight", &[4, 12], true, false),
                part("transformer.h.0.attn.c_attn.bias", &[12], false, true),
                part("transformer.ln_f.weight", &[4], false, false),
                part("transformer.ln_f.bias", &[4], false, false),
            ]
        );
    }

    #[test]
    fn only_heads_and_masks_are_spare() {
        for name in ["lm_head.weight", "h.3.attn.bias", "transformer.h.0.attn.masked_bias"] {
            assert!(is_spare(name), "{name}");
        }
        for name in ["h.3.attn.c_attn.bias", "wte.weight", "h.0.crossattention.bias", "bias"] {
            assert!(!is_spare(name), "{name}");
        }
    }
}
