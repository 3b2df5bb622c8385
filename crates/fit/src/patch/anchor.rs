//! The code that patches look for, as reported if it is missing.

use std::fmt;

/// A piece of `train.py` or `model.py` that a patch needs. `Display` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// This code.
    Code(&'static str),
    /// The function that fetches a batch.
    GetBatch,
    /// Its call in the evaluation.
    EvaluationBatch,
    /// The list of keys that the command line may set.
    ConfigKeys,
    /// A key's default.
    Default,
    /// The dataclass of the model's sizes.
    GptConfig,
    /// The call that moves the model to its device.
    ToDevice,
    /// The import.
    ImportTorch,
    /// The attribute that holds the model's sizes.
    SelfConfig,
    /// The model's result in the evaluation.
    LogitsInEvaluation,
    /// The model's result in the loop.
    LogitsInLoop,
    /// The model's result anywhere.
    LogitsUnread,
    /// Head and loss.
    LossBranch,
    /// The loop over blocks.
    Blocks,
    /// The save after an evaluation.
    SaveAfterEvaluation,
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Code(code) => return write!(f, "`{code}`"),
            Self::GetBatch => {
                "`def get_batch(split):` after the configuration, taking `batch_size` sequences \
                 of `block_size`"
            }
            Self::EvaluationBatch => "`get_batch(split)` in `estimate_loss`",
            Self::ConfigKeys => "`config_keys = […]` after the configuration's defaults",
            Self::Default => "a default such as `batch_size = 12`",
            Self::GptConfig => "`class GPTConfig:` with fields such as `dropout: float = 0.0`",
            Self::ToDevice => "`model.to(device)` after the model is made",
            Self::ImportTorch => "`import torch` at the top",
            Self::SelfConfig => "`self.config = config` in the model's `__init__`",
            Self::LogitsInEvaluation => {
                "`logits, loss = model(X, Y)` in `estimate_loss`, with `logits` read nowhere else"
            }
            Self::LogitsInLoop => {
                "`logits, loss = model(X, Y)` in the training loop, with `logits` read nowhere \
                 else"
            }
            Self::LogitsUnread => "`logits, loss = model(X, Y)` with `logits` read nowhere else",
            Self::LossBranch => {
                "`if targets is not None:` around `logits = self.lm_head(x)` and \
                 `loss = F.cross_entropy(…)` over all rows, and nothing else"
            }
            Self::Blocks => "`x = block(x)` in `for block in self.transformer.h:`",
            Self::SaveAfterEvaluation => {
                "`losses = estimate_loss()` and, after it, an `if` that reads \
                 `always_save_checkpoint`; in that, `if iter_num > 0:` around \
                 `torch.save(checkpoint, …)`, reading no result of the evaluation"
            }
        })
    }
}

/// Why a text cannot be split into Python statements. `Display` describes the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxFault {
    /// `(` without `)`.
    OpenBracket,
    /// `)` without `(`.
    StrayBracket,
    /// A quote without its counterpart.
    OpenString,
}

impl fmt::Display for SyntaxFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenBracket => "an unclosed bracket",
            Self::StrayBracket => "an unmatched closing bracket",
            Self::OpenString => "an unclosed string",
        })
    }
}
