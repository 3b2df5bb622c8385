//! Checks the golden files themselves: every parameter by name and shape, tokens inside the
//! vocabulary, and ten finite steps.

use std::collections::BTreeSet;

use fitgpt_model::family::gpt2::Gpt2Sizes;
use fitgpt_program::Gelu;

use super::golden::{self, CASES, Golden, GoldenTensor, GoldenTensors};

fn shape_of(tensor: &GoldenTensor) -> Vec<u64> {
    tensor.shape.iter().map(|&extent| extent as u64).collect()
}

#[test]
fn every_case_is_listed_and_every_file_is_a_case() {
    let files: BTreeSet<_> = std::fs::read_dir(golden::path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".safetensors").map(str::to_owned))
        .collect();
    assert_eq!(files, CASES.map(str::to_owned).into());
}

#[test]
fn a_golden_file_has_the_parameters_of_its_model() {
    for case in CASES {
        let Golden { facts, tensors } = Golden::read(case);
        let parameters = facts.case.model().parameters();

        let others = [
            "tokens",
            "targets",
            "learning_rates",
            "losses",
            "gradient_norms",
            "evaluation_losses",
        ];
        let mut expected: BTreeSet<_> = others.map(str::to_owned).into();
        for kind in ["initial", "gradient", "final"] {
            for parameter in &parameters {
                let name = format!("{kind}.{}", parameter.name);
                let tensor = tensors.get(&name);
                assert_eq!(shape_of(tensor), parameter.shape, "`{case}`: `{name}`");
                assert!(tensor.f32s().iter().all(|v| v.is_finite()), "`{case}`: `{name}`");
                expected.insert(name);
            }
        }
        let found: BTreeSet<_> = tensors.names().map(str::to_owned).collect();
        assert_eq!(found, expected, "`{case}`");
    }
}

#[test]
fn a_golden_file_has_batches_and_answers_for_every_step() {
    for case in CASES {
        let Golden { facts, tensors } = Golden::read(case);
        let (batch, block) = (facts.case.batch, facts.case.block as usize);
        let batches = [facts.steps, facts.case.micro_batches, batch, block];
        for name in ["tokens", "targets"] {
            let tensor = tensors.get(name);
            assert_eq!(tensor.shape, batches, "`{case}`: `{name}`");
            assert!(tensor.u32s().iter().all(|&id| id < facts.case.vocab), "`{case}`: `{name}`");
        }
        // A target is the next token of its sequence.
        let (tokens, targets) = (tensors.get("tokens").u32s(), tensors.get("targets").u32s());
        for (tokens, targets) in tokens.chunks(block).zip(targets.chunks(block)) {
            assert_eq!(tokens[1..], targets[..block - 1], "`{case}`");
        }
        for name in ["learning_rates", "losses", "gradient_norms"] {
            let tensor = tensors.get(name);
            assert_eq!(tensor.shape, [facts.steps], "`{case}`: `{name}`");
            assert!(tensor.f32s().iter().all(|&v| v.is_finite() && v > 0.0), "`{case}`: `{name}`");
        }
        assert_eq!(tensors.get("evaluation_losses").shape, [batch], "`{case}`");
    }
}

#[test]
fn the_first_loss_is_the_mean_of_the_evaluation_if_a_step_is_one_micro_batch() {
    for case in CASES {
        let Golden { facts, tensors } = Golden::read(case);
        if facts.case.micro_batches > 1 {
            continue;
        }
        let evaluation = tensors.get("evaluation_losses").f32s();
        let mean = evaluation.iter().map(|&v| f64::from(v)).sum::<f64>() / evaluation.len() as f64;
        let first = f64::from(tensors.get("losses").f32s()[0]);
        // Each loss was rounded to float32 once, by half an ulp.
        assert!((first - mean).abs() <= f64::from(f32::EPSILON) * first, "`{case}`");
    }
}

#[test]
fn the_first_norm_is_that_of_the_gradients_before_clipping() {
    for case in CASES {
        let Golden { facts, tensors } = Golden::read(case);
        let gradients = tensors.names().filter(|name| name.starts_with("gradient."));
        let squares = gradients.flat_map(|name| tensors.get(name).f32s());
        let norm = squares.map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
        let norms = tensors.get("gradient_norms").f32s();
        // As above: one rounding of every gradient, one of the norm.
        let first = f64::from(norms[0]);
        assert!((first - norm).abs() <= f64::from(f32::EPSILON) * norm, "`{case}`");

        let limit = facts.case.grad_clip;
        let clipped = norms.iter().filter(|&&norm| limit > 0.0 && norm > limit).count();
        assert_eq!(clipped, facts.clipped_steps, "`{case}`");
    }
}

#[test]
fn the_files_state_the_optimizer_and_the_error_of_float32() {
    for case in CASES {
        let Golden { facts, .. } = Golden::read(case);
        let optimizer = (facts.betas, facts.adam_eps, facts.weight_decay, facts.steps);
        assert_eq!(optimizer, ([0.9, 0.95], 1e-8, 0.1, 10), "`{case}`");

        let mut quantities =
            vec!["evaluation_losses", "final", "gradient_norms", "gradients", "losses"];
        if facts.case.bias {
            quantities.insert(2, "final_key_bias");
        }
        assert!(facts.float32_error.keys().eq(quantities), "`{case}`");
    }
}

#[test]
fn the_folder_of_transformers_has_the_parameters_of_its_config() {
    let text = std::fs::read_to_string(golden::path("transformers_gpt2/config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    let size = |key: &str| u32::try_from(config[key].as_u64().unwrap()).unwrap();
    assert_eq!(config["activation_function"], "gelu_new");
    let model = Gpt2Sizes {
        layers: size("n_layer"),
        heads: size("n_head"),
        channels: size("n_embd"),
        vocab: size("vocab_size"),
        block: size("n_positions"),
        has_bias: true,
        gelu: Gelu::Tanh,
    }
    .model();

    let tensors = GoldenTensors::read("transformers_gpt2/model.safetensors");
    let parameters = model.parameters();
    for parameter in &parameters {
        let mut shape = parameter.shape.clone();
        if parameter.name.starts_with("h.") {
            shape.reverse(); // GPT-2's matrices are (in, out) in transformers
        }
        let name = format!("transformer.{}", parameter.name);
        assert_eq!(shape_of(tensors.get(&name)), shape, "`{name}`");
    }
    assert_eq!(tensors.names().count(), parameters.len());
}

#[test]
fn the_folder_of_transformers_expects_the_losses_of_its_logits() {
    let tensors = GoldenTensors::read("transformers_gpt2/expected.safetensors");
    let logits = tensors.get("logits");
    let [sequences, seq, vocab] = logits.shape[..] else {
        panic!("the logits have the shape {:?}", logits.shape);
    };
    let targets = tensors.get("targets");
    assert_eq!(targets.shape, [sequences, seq]);
    assert_eq!(tensors.get("tokens").shape, [sequences, seq]);

    let rows = logits.f32s().chunks(vocab).zip(targets.u32s());
    let losses: Vec<f64> = rows
        .map(|(row, &target)| {
            let total: f64 = row.iter().map(|&v| f64::from(v).exp()).sum();
            total.ln() - f64::from(row[target as usize])
        })
        .collect();
    let expected = tensors.get("losses");
    assert_eq!(expected.shape, [sequences]);
    for (rows, &expected) in losses.chunks(seq).zip(expected.f32s()) {
        let mean = rows.iter().sum::<f64>() / seq as f64;
        // The logits were rounded to float32: 6e-8 of values below 4.
        assert!((mean - f64::from(expected)).abs() <= 1e-6, "{mean} and {expected}");
    }
}
