//! A decoder in any stack: its sizes, and its tensors that match the request.

use fitgpt_model::published::Published;
use fitgpt_program::units::DType;

use crate::{
    facts::{CandidateTensor, PhaseName, Role, TensorName},
    parse::{Log, PrintedSize, allocator_request},
};

/// The sizes of a model, from its name in the log or from a `config.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoder {
    /// Its common name.
    pub name: String,
    /// Number of parameters.
    pub parameters: u64,
    /// Width of the residual stream; 0 if only the parameters are known.
    pub width: u64,
    /// Inner width of the feed-forward layer.
    pub ffn: u64,
    /// Rows of the embedding.
    pub vocab: u64,
    /// Transformer blocks.
    pub layers: u64,
    /// Width of all queries.
    pub queries: u64,
    /// Width of all keys.
    pub keys: u64,
}

impl From<&Published> for Decoder {
    fn from(model: &Published) -> Self {
        let head_dim = u64::from(model.head_dim);
        Self {
            name: model.name().to_owned(),
            parameters: model.parameters,
            width: model.width.into(),
            ffn: model.ffn.into(),
            vocab: model.vocab.into(),
            layers: model.layers.into(),
            queries: u64::from(model.heads) * head_dim,
            keys: u64::from(model.kv_heads) * head_dim,
        }
    }
}

impl Decoder {
    /// The model that the log names. A printed number of parameters is more reliable than a name.
    pub(crate) fn find(log: &Log) -> Option<Self> {
        let named = log.setup.model().map(Self::from);
        let Some(parameters) = log.setup.parameters else {
            return named
                .or_else(|| log.setup.method.size().map(Self::of_millions))
                .or_else(|| Self::of_sizes(log));
        };
        match named {
            Some(model)
                if parameters.abs_diff(model.parameters).saturating_mul(10) < model.parameters =>
            {
                Some(model)
            }
            // A much smaller number counts only the adapter; then the name is more reliable.
            Some(model) if parameters.saturating_mul(4) < model.parameters => Some(model),
            _ => Some(Self {
                name: "this model".to_owned(),
                parameters,
                width: 0,
                ffn: 0,
                vocab: 0,
                layers: 0,
                queries: 0,
                keys: 0,
            }),
        }
    }

    /// A decoder of which the log prints width and layers.
    fn of_sizes(log: &Log) -> Option<Self> {
        let width = log.setup.width.filter(|width| *width >= 256 && width.is_multiple_of(64))?;
        let layers = log.setup.layers.filter(|layers| (2..=512).contains(layers))?;
        let vocab = log.setup.vocab.unwrap_or(0);
        // Twelve matrices of width × width in a block, and two embeddings.
        let block = width.saturating_mul(width).saturating_mul(12);
        let embeddings = vocab.saturating_mul(width).saturating_mul(2);
        let parameters = block.saturating_mul(layers).saturating_add(embeddings);
        let name = format!("a model of {layers} layers of {width}");
        let (ffn, queries, keys) = (width.saturating_mul(4), width, width);
        Some(Self { name, parameters, width, ffn, vocab, layers, queries, keys })
    }

    /// A model of which only the size is known: "a 7B model".
    fn of_millions(millions: u64) -> Self {
        let name = format!("a {}B model", millions as f64 / 1000.0);
        let parameters = millions.saturating_mul(1_000_000);
        Self { name, parameters, width: 0, ffn: 0, vocab: 0, layers: 0, queries: 0, keys: 0 }
    }

    /// Its tensors that match the request: logits and weights.
    pub(crate) fn tensors(&self, log: &Log, requested: PrintedSize) -> Vec<CandidateTensor> {
        let is_rounded = log.message.as_ref().is_some_and(crate::parse::Message::is_rounded);
        let prints_alike = |bytes: u64| {
            requested.admits(if is_rounded { allocator_request(bytes) } else { bytes })
        };
        let mut list = Vec::new();
        let mut add = |name: TensorName, shape: Vec<u64>, role: Role| {
            for dtype in [DType::Bf16, DType::F32] {
                let count = shape.iter().try_fold(1_u64, |n, axis| n.checked_mul(*axis));
                let bytes = count.and_then(|count| count.checked_mul(dtype.size()));
                if let Some(bytes) = bytes.filter(|bytes| *bytes > 0 && prints_alike(*bytes)) {
                    list.push(CandidateTensor {
                        name: name.clone(),
                        shape: shape.clone(),
                        dtype: dtype.name(),
                        bytes,
                        role,
                        phase: PhaseName::Unknown,
                        supposing: None,
                    });
                }
            }
        };
        for rows in rows(log) {
            add(TensorName::Logits, vec![rows, self.vocab], Role::Logits);
        }
        for (name, shape) in [
            (TensorName::FeedForwardWeight, vec![self.ffn, self.width]),
            (TensorName::Embedding, vec![self.vocab, self.width]),
            (TensorName::AttentionProjection, vec![self.queries, self.width]),
            (TensorName::KeyProjection, vec![self.keys, self.width]),
        ] {
            add(name, shape, Role::Weight);
        }
        list.dedup();
        list
    }

    /// Size of the weights in half precision or, if quantized, in 4 bits.
    pub(crate) fn weights_bytes(&self, is_quantized: bool) -> u64 {
        if is_quantized { self.parameters / 2 } else { self.parameters.saturating_mul(2) }
    }
}

/// Possible numbers of tokens per pass: from the log if it prints batch and length, otherwise
/// common ones.
fn rows(log: &Log) -> Vec<u64> {
    match (log.setup.batch, log.setup.seq) {
        (Some(batch), Some(seq)) => {
            let tokens = batch.saturating_mul(seq);
            vec![tokens, tokens.saturating_sub(batch)]
        }
        (Some(batch), None) => {
            [1024, 2048, 512, 4096].map(|seq| batch.saturating_mul(seq)).to_vec()
        }
        _ => (0..9).flat_map(|n| [1024 << n, 3 * (1024 << n)]).collect(),
    }
}
