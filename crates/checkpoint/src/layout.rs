//! The layout of the files: names, shapes and the source of the values.
//!
//! `model.safetensors` has Hugging Face's layout, as the family's [`Naming`] describes it: GPT-2's
//! files have a `transformer.` before every name, linear weights as `Conv1D` keeps them, `(in,
//! out)`, and always biases. `state.safetensors` is our own format.
//!
//! Promise: a folder that FitGPT wrote loads in `transformers` with the same logits, and the
//! reverse. Test: `tests/golden/check_transformers.py`, `tests/library/pytorch/interchange.rs`.

use fitgpt_model::Naming;
use fitgpt_program::units::DType;

use super::store::{TensorEntry, Tensors};

/// What to do if the file has more positions than the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionRows {
    /// Refuse.
    Exact,
    /// Use the first ones, as nanoGPT does for a `block_size` below the checkpoint's.
    Crop,
}

/// One tensor of a file.
#[derive(Debug)]
pub(super) struct FileTensor<'a> {
    /// Its name in the file.
    pub(super) name: String,
    /// Another name that it may have in files of other programs.
    pub(super) bare_name: Option<String>,
    /// Its shape in the file.
    pub(super) shape: Vec<usize>,
    /// Its values.
    pub(super) values: Values<'a>,
    /// Whether the file's tensor may have more rows: the table of positions.
    pub(super) can_be_cropped: bool,
}

/// The values of a tensor of a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Values<'a> {
    /// The bias of a model that has none.
    Zero,
    /// The values of a tensor, unchanged.
    Plain(&'a TensorEntry),
    /// The values of a matrix `(out, in)` as `(in, out)`.
    Transposed(&'a TensorEntry),
}

impl FileTensor<'_> {
    /// How many values it has.
    pub(super) fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// How its values are stored in a file of ours.
    pub(super) fn dtype(&self) -> DType {
        match self.values {
            Values::Zero => DType::F32,
            Values::Plain(entry) | Values::Transposed(entry) => entry.dtype,
        }
    }

    /// Whether it is an optimizer state, not a weight.
    pub(super) fn is_state(&self) -> bool {
        matches!(self.values, Values::Plain(entry) if entry.state.is_some())
    }

    /// Its bytes in a file of ours.
    pub(super) fn bytes(&self) -> usize {
        self.count() * self.dtype().size() as usize
    }
}

/// The tensors of `model.safetensors`.
pub(super) fn weights(tensors: &Tensors) -> Vec<FileTensor<'_>> {
    let Tensors { naming, weights: entries, .. } = tensors;
    let mut parts = Vec::with_capacity(2 * entries.len());
    let positions = format!("{}.weight", naming.positions);
    for entry in entries {
        let bare = &entry.parameter;
        let (shape, values) = if naming.transposed.iter().any(|end| bare.ends_with(end)) {
            let &[rows, columns] = &entry.shape[..] else { panic!("`{bare}` is a matrix") };
            (vec![columns, rows], Values::Transposed(entry))
        } else {
            (entry.shape.clone(), Values::Plain(entry))
        };
        let can_be_cropped = *bare == positions;
        parts.push(FileTensor { shape, values, can_be_cropped, ..named(naming, bare) });
        if let Some(bias) = missing_bias(naming, entry, entries) {
            parts.push(FileTensor { shape: vec![entry.shape[0]], ..named(naming, &bias) });
        }
    }
    parts
}

/// The tensors of nanoGPT's `ckpt.pt`: matrices are not transposed, and only used biases are
/// stored.
pub(super) fn nanogpt_weights(tensors: &Tensors) -> Vec<FileTensor<'_>> {
    let Tensors { naming, weights: entries, .. } = tensors;
    let positions = format!("{}.weight", naming.positions);
    let part = |entry: &'_ TensorEntry| (entry.shape.clone(), entry.parameter == positions);
    let parts = entries.iter().map(|entry| {
        let (shape, can_be_cropped) = part(entry);
        let values = Values::Plain(entry);
        FileTensor { shape, values, can_be_cropped, ..named(naming, &entry.parameter) }
    });
    parts.collect()
}

/// A part with the names of a parameter, zero and without a shape.
fn named<'a>(naming: &Naming, parameter: &str) -> FileTensor<'a> {
    let is_head = parameter.strip_suffix(".weight") == Some(naming.head);
    let prefix = if is_head { "" } else { naming.file_prefix };
    FileTensor {
        name: format!("{prefix}{parameter}"),
        bare_name: (!prefix.is_empty()).then(|| parameter.to_owned()),
        shape: Vec::new(),
        values: Values::Zero,
        can_be_cropped: false,
    }
}

/// The tensors of `state.safetensors`: wide elements first, so that every tensor is aligned.
pub(super) fn states(tensors: &Tensors) -> Vec<FileTensor<'_>> {
    let part = |entry| FileTensor {
        name: TensorEntry::name(entry),
        bare_name: None,
        shape: entry.shape.clone(),
        values: Values::Plain(entry),
        can_be_cropped: false,
    };
    let mut parts: Vec<_> = tensors.states.iter().map(part).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.dtype().size()));
    parts
}

/// Whether a tensor that other programs store is not needed: a tied head, causal masks, tables.
pub(super) fn is_spare(naming: &Naming, name: &str) -> bool {
    let name = name.strip_prefix(naming.file_prefix).unwrap_or(name);
    let is_end = |spare: &str| spare.starts_with('.') && name.ends_with(spare);
    naming.spare.iter().any(|spare| name == *spare || is_end(spare))
}

/// The name of the bias of `entry`'s layer if files have one and this model does not.
fn missing_bias(naming: &Naming, entry: &TensorEntry, entries: &[TensorEntry]) -> Option<String> {
    if !naming.files_have_all_biases {
        return None;
    }
    let stem = entry.parameter.strip_suffix(".weight")?;
    let is_table = [naming.embedding, naming.positions, naming.head].contains(&stem);
    let bias = format!("{stem}.bias");
    (!is_table && entries.iter().all(|other| other.parameter != bias)).then_some(bias)
}

#[cfg(test)]
mod tests {
    use fitgpt_config::Family;

    use super::*;

    #[test]
    fn a_linear_weight_is_transposed_and_its_missing_bias_is_zero() {
        let entries = [
            TensorEntry::weights("wte.weight", &[11, 4]),
            TensorEntry::weights("h.0.attn.c_attn.weight", &[12, 4]),
            TensorEntry::weights("ln_f.weight", &[4]),
            TensorEntry::weights("ln_f.bias", &[4]),
        ];
        let tensors = Tensors {
            naming: fitgpt_model::naming(Family::Gpt2),
            weights: entries.to_vec(),
            states: Vec::new(),
        };
        let parts: Vec<_> = weights(&tensors)
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
            assert!(is_spare(fitgpt_model::naming(Family::Gpt2), name), "{name}");
        }
        for name in ["h.3.attn.c_attn.bias", "wte.weight", "h.0.crossattention.bias", "bias"] {
            assert!(!is_spare(fitgpt_model::naming(Family::Gpt2), name), "{name}");
        }
    }
}
