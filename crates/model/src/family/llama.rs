//! Llama and its relatives: Mistral, Qwen 2, Qwen 3.
//!
//! Rotary positions, RMS norm, separate projections to queries, keys and values with fewer
//! key/value heads than query heads, a gated MLP, a head that may share the embedding. Qwen 2 adds
//! biases on queries, keys and values; Qwen 3 normalises queries and keys head by head.

use fitgpt_config::{AttentionBias, Config, ConfigValue, Family, RopeSetting};
use fitgpt_program::{Rope, RopeScaling, units::Real};
use serde_json::{Map, Value as Json, json};

use super::{Description, FamilyError, Requirement, json::ConfigDocument};
use crate::{Biases, MlpKind, Model, NormKind, Positions};

/// The base of rotary positions if a config has none.
const THETA: f64 = 10_000.0;

pub(super) fn describe(family: Family, config: &Config, vocab: u32) -> Model {
    let attention_bias = config.attention_bias().unwrap_or(default_bias(family));
    Model {
        family,
        layers: config.n_layer(),
        channels: config.n_embd(),
        vocab,
        block: config.block_size(),
        heads: config.n_head(),
        kv_heads: config.n_kv_head(),
        head_channels: config.head_dim(),
        mlp_channels: config.ffn_dim(),
        positions: Positions::Rotary(Rope {
            theta: Real::new(config.rope_theta()),
            scaling: config.rope_scaling().scaling(),
        }),
        norm: NormKind::Rms,
        norm_epsilon: Real::new(config.norm_eps()),
        has_qk_norm: family == Family::Qwen3,
        mlp: MlpKind::SwiGlu,
        biases: Biases {
            norm: false,
            qkv: attention_bias != AttentionBias::None,
            attention_out: attention_bias == AttentionBias::All,
            mlp: config.mlp_bias(),
        },
        is_tied: config.tie_embeddings(),
    }
}

fn default_bias(family: Family) -> AttentionBias {
    if family == Family::Qwen2 { AttentionBias::Qkv } else { AttentionBias::None }
}

/// Reads `LlamaConfig`, `MistralConfig`, `Qwen2Config` and `Qwen3Config`. The sizes are
/// required; the rest has those classes' defaults.
pub(super) fn read(
    family: Family,
    document: ConfigDocument<'_>,
) -> Result<Description, FamilyError> {
    let layers = document.layers("num_hidden_layers")?;
    let channels = document.size("hidden_size")?;
    let heads = document.size("num_attention_heads")?;
    let kv_heads = document.optional_size("num_key_value_heads")?.unwrap_or(match family {
        Family::Mistral => 8,
        Family::Qwen2 | Family::Qwen3 => 32,
        Family::Gpt2 | Family::Llama => heads,
    });
    if !heads.is_multiple_of(kv_heads) {
        return Err(
            document.refuse("num_key_value_heads", Requirement::Divides("num_attention_heads"))
        );
    }
    let head_dim = match (document.optional_size("head_dim")?, family) {
        (Some(size), _) => size,
        (None, Family::Qwen3) => 128,
        (None, _) if channels.is_multiple_of(heads) => channels / heads,
        (None, _) => {
            return Err(document.refuse("num_attention_heads", Requirement::Divides("hidden_size")));
        }
    };
    if !head_dim.is_multiple_of(2) {
        return Err(FamilyError::UnsupportedValue {
            key: "head_dim",
            expected: Requirement::Even,
            found: head_dim.to_string(),
        });
    }
    if document.get("hidden_act").is_some_and(|act| act != "silu") {
        return Err(document.refuse("hidden_act", Requirement::Is("\"silu\"")));
    }
    if document.get("num_experts").or(document.get("num_local_experts")).is_some() {
        return Err(document.refuse("num_experts", Requirement::Is("absent")));
    }
    if document.positive("partial_rotary_factor")?.is_some_and(is_partial) {
        return Err(document.refuse("partial_rotary_factor", Requirement::Is("1")));
    }
    document.require("use_bidirectional_attention", false)?;
    let (theta, scaling) = rope(document)?;
    let attention_bias = match (family, document.flag("attention_bias")?) {
        // Qwen 2 always has its three biases, Mistral has none; neither reads the key.
        (Family::Qwen2, _) => AttentionBias::Qkv,
        (Family::Llama | Family::Qwen3, Some(true)) => AttentionBias::All,
        (Family::Llama | Family::Qwen3, None | Some(false))
        | (Family::Gpt2 | Family::Mistral, _) => AttentionBias::None,
    };
    let has_mlp_bias = family == Family::Llama && document.flag("mlp_bias")? == Some(true);
    // The defaults of `transformers`' classes, which differ from ours.
    let epsilon = document.positive("rms_norm_eps")?.unwrap_or(1e-6);
    let is_tied = document.flag("tie_word_embeddings")?.unwrap_or(false);
    let positions = document.optional_size("max_position_embeddings")?.unwrap_or(match family {
        Family::Llama => 2048,
        Family::Mistral => 131_072,
        Family::Gpt2 | Family::Qwen2 | Family::Qwen3 => 32_768,
    });
    Ok(Description {
        family,
        keys: vec![
            ("family", family.name().into()),
            ("n_layer", layers.into()),
            ("n_head", heads.into()),
            ("n_embd", channels.into()),
            ("bias", false.into()),
            ("gelu", "exact".into()),
            ("n_kv_head", kv_heads.into()),
            ("head_dim", head_dim.into()),
            ("ffn_dim", document.size("intermediate_size")?.into()),
            ("rope_theta", theta.into()),
            ("rope_scaling", ConfigValue::from(scaling.to_string())),
            ("norm_eps", epsilon.into()),
            ("tie_embeddings", is_tied.into()),
            ("attention_bias", ConfigValue::from(attention_bias.name())),
            ("mlp_bias", has_mlp_bias.into()),
        ],
        vocab: document.size("vocab_size")?,
        positions,
        window: window(family, layers, document)?,
        dropout: document.share("attention_dropout")?.unwrap_or(0.0),
    })
}

/// Base and scaling, from the keys of `transformers` 4 or those of version 5, which win.
fn rope(document: ConfigDocument<'_>) -> Result<(f64, RopeSetting), FamilyError> {
    let new = document.object("rope_parameters")?;
    let scaling = match new {
        Some(parameters) => Some(parameters),
        None => document.object("rope_scaling")?,
    };
    let theta = match new {
        Some(parameters) => parameters.positive("rope_theta")?,
        None => None,
    };
    let theta = theta.or(document.positive("rope_theta")?).unwrap_or(THETA);
    let Some(scaling) = scaling else { return Ok((theta, RopeSetting::default())) };
    if scaling.positive("partial_rotary_factor")?.is_some_and(is_partial) {
        return Err(scaling.refuse("partial_rotary_factor", Requirement::Is("1")));
    }
    let key = if scaling.get("rope_type").is_some() { "rope_type" } else { "type" };
    let kind = scaling.get(key).map_or(Some("default"), Json::as_str);
    let number = |key| scaling.positive(key)?.ok_or(FamilyError::Missing { key });
    let scaling = match kind {
        Some("default") => RopeScaling::None,
        Some("linear") => RopeScaling::Linear { factor: Real::new(number("factor")?) },
        Some("llama3") => RopeScaling::Llama3 {
            factor: Real::new(number("factor")?),
            low: Real::new(number("low_freq_factor")?),
            high: Real::new(number("high_freq_factor")?),
            original_positions: scaling.size("original_max_position_embeddings")?,
        },
        _ => return Err(scaling.refuse(key, Requirement::RopeType)),
    };
    Ok((theta, RopeSetting::new(scaling)))
}

/// Whether only some of a head's channels would be rotated.
fn is_partial(factor: f64) -> bool {
    factor.to_bits() != 1f64.to_bits()
}

/// The size of the attention window, if any layer has one.
fn window(
    family: Family,
    layers: u32,
    document: ConfigDocument<'_>,
) -> Result<Option<u32>, FamilyError> {
    let has_window = match family {
        Family::Mistral => true,
        Family::Qwen2 | Family::Qwen3 => {
            let first = document.get("max_window_layers").and_then(Json::as_u64);
            document.flag("use_sliding_window")? == Some(true)
                && first.is_none_or(|first| first < layers.into())
        }
        Family::Gpt2 | Family::Llama => false,
    };
    if has_window { document.optional_size("sliding_window") } else { Ok(None) }
}

pub(super) fn write(model: &Model, dropout: f64) -> Map<String, Json> {
    let (class, model_type) = match model.family {
        Family::Mistral => ("MistralForCausalLM", "mistral"),
        Family::Qwen2 => ("Qwen2ForCausalLM", "qwen2"),
        Family::Qwen3 => ("Qwen3ForCausalLM", "qwen3"),
        Family::Gpt2 | Family::Llama => ("LlamaForCausalLM", "llama"),
    };
    let rope = model.rope().unwrap_or(Rope::new(THETA));
    let mut scaling = match rope.scaling {
        RopeScaling::None => json!({ "rope_type": "default" }),
        RopeScaling::Linear { factor } => json!({ "rope_type": "linear", "factor": factor.get() }),
        RopeScaling::Llama3 { factor, low, high, original_positions } => json!({
            "rope_type": "llama3",
            "factor": factor.get(),
            "low_freq_factor": low.get(),
            "high_freq_factor": high.get(),
            "original_max_position_embeddings": original_positions,
        }),
    };
    // Version 4 of `transformers` reads the two keys, version 5 the one object.
    let old_scaling = if rope.scaling == RopeScaling::None { Json::Null } else { scaling.clone() };
    scaling["rope_theta"] = json!(rope.theta.get());
    let document = json!({
        "architectures": [class],
        "attention_bias": model.biases.attention_out,
        "attention_dropout": dropout,
        "bos_token_id": null,
        "eos_token_id": null,
        "head_dim": model.head_channels,
        "hidden_act": "silu",
        "hidden_size": model.channels,
        "initializer_range": 0.02,
        "intermediate_size": model.mlp_channels,
        "max_position_embeddings": model.block,
        "mlp_bias": model.biases.mlp,
        "model_type": model_type,
        "num_attention_heads": model.heads,
        "num_hidden_layers": model.layers,
        "num_key_value_heads": model.kv_heads,
        "rms_norm_eps": model.norm_epsilon.get(),
        "rope_parameters": scaling,
        "rope_scaling": old_scaling,
        "rope_theta": rope.theta.get(),
        "sliding_window": null,
        "tie_word_embeddings": model.is_tied,
        "torch_dtype": "float32",
        "use_sliding_window": false,
        "vocab_size": model.vocab,
    });
    let Json::Object(map) = document else { unreachable!("the literal above is an object") };
    map
}

#[cfg(test)]
mod tests {
    use fitgpt_config::Written;

    use super::*;

    fn smol() -> Json {
        json!({
            "model_type": "llama", "hidden_size": 576, "intermediate_size": 1536,
            "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
            "vocab_size": 49152, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0, "rope_scaling": null, "tie_word_embeddings": true,
            "hidden_act": "silu", "attention_bias": false,
        })
    }

    fn model(document: &Json) -> Model {
        let published = Description::read(document).unwrap();
        let written = Written::from_pairs("config.json", published.keys).unwrap();
        Model::new(&written.resolve().unwrap(), published.vocab)
    }

    #[test]
    fn smollm_has_its_published_parameter_count() {
        assert_eq!(model(&smol()).parameter_count(), 134_515_008);
    }

    #[test]
    fn a_document_reads_back_as_the_model_that_wrote_it() {
        let llama3 = json!({
            "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
        });
        for family in Family::ALL.into_iter().skip(1) {
            for (key, value) in [
                ("tie_word_embeddings", json!(false)),
                ("rope_scaling", llama3.clone()),
                ("rope_scaling", json!({ "type": "linear", "factor": 2.5 })),
                ("head_dim", json!(80)),
                ("rms_norm_eps", json!(1e-6)),
                ("attention_bias", json!(true)),
                ("mlp_bias", json!(true)),
            ] {
                let mut document = smol();
                document["model_type"] = json!(family.name());
                document[key] = value;
                let model = model(&document);
                let back = Json::Object(write(&model, 0.0));
                let model = Model { block: 1024, ..model };
                let again = self::model(&back);
                assert_eq!(Model { block: 1024, ..again }, model, "{family}, `{key}`");
            }
        }
    }

    #[test]
    fn an_unsupported_feature_is_refused_by_key() {
        for (key, value) in [
            ("hidden_act", json!("gelu")),
            ("num_key_value_heads", json!(2)),
            ("head_dim", json!(63)),
            ("rope_scaling", json!({ "rope_type": "yarn", "factor": 2.0 })),
            ("rope_scaling", json!({ "rope_type": "linear" })),
            ("rope_parameters", json!({ "rope_type": "dynamic", "factor": 2.0 })),
            ("partial_rotary_factor", json!(0.5)),
            ("num_local_experts", json!(8)),
            ("hidden_size", json!(-1)),
            ("hidden_size", json!(1e30)),
            ("rms_norm_eps", json!("small")),
        ] {
            let mut document = smol();
            document[key] = value;
            assert!(Description::read(&document).is_err(), "`{key}`");
        }
    }

    #[test]
    fn a_window_counts_only_if_it_is_used_and_shorter_than_the_block() {
        let mut document = smol();
        document["model_type"] = json!("mistral");
        document["sliding_window"] = json!(512);
        let published = Description::read(&document).unwrap();
        assert!(published.check_window(512).is_ok());
        assert!(published.check_window(513).is_err());
        document["model_type"] = json!("qwen2");
        assert_eq!(Description::read(&document).unwrap().window, None);
        document["use_sliding_window"] = json!(true);
        document["max_window_layers"] = json!(30);
        assert_eq!(Description::read(&document).unwrap().window, None);
        document["max_window_layers"] = json!(28);
        assert_eq!(Description::read(&document).unwrap().window, Some(512));
    }
}
