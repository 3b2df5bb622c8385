//! Plans of decoder programs: sizes, placement, recomputation.

use fitgpt_config::Written;
use fitgpt_model::{
    Model, Parameter, ParameterRole, decoder,
    family::gpt2::Gpt2Sizes,
    optimizer::Optimizer,
    shard::Share,
    state::{SampledTypes, SamplingState},
    training::{Recompute, Training},
};
use fitgpt_program::{
    Adam, Gelu, Names, Op, Program, TensorClass,
    memory::{Limits, Plan, Target, place, profile, verify},
    units::{Bytes, DType, TensorId},
};

/// A host whose kernels need no scratch.
struct Host;

impl Target for Host {
    fn limits(&self) -> Limits {
        Limits::HOST
    }

    fn scratch(&self, _: &Program, _: &Op) -> Bytes {
        Bytes::ZERO
    }
}

/// How these tests sample.
const FLOAT32: SampledTypes = SampledTypes::float32_weights(DType::F32);

fn sizes() -> Gpt2Sizes {
    Gpt2Sizes {
        layers: 12,
        heads: 12,
        channels: 768,
        vocab: 50304,
        block: 1024,
        has_bias: false,
        gelu: Gelu::Exact,
    }
}

fn gpt2() -> Model {
    sizes().model()
}

fn four_sequences() -> Training {
    Training {
        batch: 4,
        seq: 1024,
        accumulation: 1,
        eval_batch: 4,
        eval_seq: 1024,
        dropout: 0.0,
        optimizer: Optimizer::adamw(Adam {
            beta1: 0.9,
            beta2: 0.95,
            epsilon: 1e-8,
            weight_decay: 0.1,
            grad_clip: 1.0,
        }),
        activations: DType::F32,
        recompute: Recompute::default(),
        loss_chunk_rows: decoder::default_loss_chunk_rows(50304, 4096),
        lanes: 1,
        sampled: 0,
        share: Share::WHOLE,
    }
}

fn programs(model: &Model, training: &Training) -> Vec<Program> {
    vec![
        decoder::train(model, training, Names::Kept).program,
        decoder::update(model, training, Names::Kept).program,
        decoder::evaluate(model, training, Names::Kept).program,
    ]
}

/// Places and verifies; also checks that placement ends within 2 % of the bound.
fn planned(model: &Model, training: &Training) -> Plan {
    let programs = programs(model, training);
    let bound = programs.iter().map(|p| profile(p, &Host).peak().unwrap().bytes).max().unwrap();
    let plan = place(programs, &Host).unwrap();
    let share = plan.arena_bytes().get() as f64 / bound.get() as f64;
    assert!((1.0..1.02).contains(&share), "{share}");
    verify(plan.clone(), &Host).unwrap();
    plan
}

fn activations(program: &Program) -> u64 {
    profile(program, &Host).peak().unwrap().classes[TensorClass::Activation as usize].get()
}

#[test]
fn gpt2_keeping_all_activations_stays_below_its_limit() {
    let plan = planned(&gpt2(), &four_sequences());
    assert!(plan.arena_bytes() <= Bytes::new(4_600_000_000), "{}", plan.arena_bytes());
}

#[test]
fn gpt2_recomputing_every_block_stays_below_its_limit() {
    let training = Training { recompute: Recompute { blocks: 12, cheap: 0 }, ..four_sequences() };
    let plan = planned(&gpt2(), &training);
    assert!(plan.arena_bytes() <= Bytes::new(2_700_000_000), "{}", plan.arena_bytes());
}

#[test]
fn each_level_of_recomputation_needs_less_than_the_one_before() {
    let arena = |blocks, cheap| {
        let recompute = Recompute { blocks, cheap };
        planned(&gpt2(), &Training { recompute, ..four_sequences() }).arena_bytes()
    };
    assert!(arena(0, 12) < arena(0, 6));
    assert!(arena(0, 6) < arena(0, 0));
    assert!(arena(12, 0) < arena(6, 6));
    assert!(arena(6, 6) < arena(0, 12));
}

#[test]
fn half_precision_halves_the_activations() {
    let half = Training { activations: DType::Bf16, ..four_sequences() };
    let full = activations(&decoder::train(&gpt2(), &four_sequences(), Names::Kept).program);
    let half = activations(&decoder::train(&gpt2(), &half, Names::Kept).program);
    assert!((half as f64) < 0.51 * full as f64, "{half} of {full}");
}

#[test]
fn evaluation_and_update_never_add_to_the_plan() {
    let training = four_sequences();
    let all = planned(&gpt2(), &training).arena_bytes();
    let train = place(vec![decoder::train(&gpt2(), &training, Names::Kept).program], &Host)
        .unwrap()
        .arena_bytes();
    assert_eq!(all, train);
}

#[test]
fn small_odd_and_biased_models_can_be_planned() {
    for (layers, heads, channels, vocab, has_bias) in
        [(1, 1, 8, 17, true), (3, 3, 60, 65, false), (6, 6, 384, 65, true), (2, 5, 40, 101, true)]
    {
        let model = Gpt2Sizes { layers, heads, channels, vocab, has_bias, ..sizes() }.model();
        for dropout in [0.0, 0.1] {
            let training = Training { batch: 3, seq: 37, dropout, ..four_sequences() };
            let plan = place(programs(&model, &training), &Host).unwrap();
            verify(plan, &Host).unwrap();
        }
        for program in [decoder::prefill, decoder::decode] {
            let plan = place(vec![program(&model, 3, FLOAT32).program], &Host).unwrap();
            verify(plan, &Host).unwrap();
        }
    }
}

/// A Llama-class model from a config's keys.
fn llama(keys: &str) -> Model {
    let mut written = Written::new();
    for pair in keys.split_whitespace() {
        let (key, value) = pair.split_once('=').unwrap();
        written.set(key, value).unwrap();
    }
    let config = written.resolve().unwrap();
    Model::new(&config, config.vocab_size())
}

/// SmolLM-135M.
const SMOL: &str = "family=llama n_layer=30 n_head=9 n_kv_head=3 n_embd=576 ffn_dim=1536 vocab_size=49152 block_size=512";

#[test]
fn a_llama_is_placed_as_tightly_as_gpt2_at_every_level_of_recomputation() {
    let model = llama(SMOL);
    let arena = |blocks, cheap| {
        let recompute = Recompute { blocks, cheap };
        let training = Training { seq: 512, eval_seq: 512, recompute, ..four_sequences() };
        planned(&model, &training).arena_bytes()
    };
    assert!(arena(0, 30) < arena(0, 0));
    assert!(arena(15, 15) < arena(0, 30));
    assert!(arena(30, 0) < arena(15, 15));
}

#[test]
fn fewer_key_heads_make_a_smaller_cache() {
    let bytes = |model: &Model| {
        let state = SamplingState::new(model, 2, FLOAT32);
        state.caches.iter().flatten().map(|id| state.tensors[id.index()].bytes().get()).sum()
    };
    let (grouped, whole): (u64, u64) =
        (bytes(&llama(SMOL)), bytes(&llama(&SMOL.replace("n_kv_head=3", "n_kv_head=9"))));
    assert_eq!(whole, 3 * grouped);
    assert_eq!(grouped, 30 * 2 * 2 * 512 * 3 * 64 * 4);
}

#[test]
fn rounded_matrices_take_half_and_the_table_of_tokens_stays_float32() {
    let types = SampledTypes { activations: DType::Bf16, matrices: DType::Bf16 };
    for is_tied in [true, false] {
        let model = Model { is_tied, ..llama(SMOL) };
        let [whole, half] = [SampledTypes { matrices: DType::F32, ..types }, types].map(|types| {
            let state = SamplingState::new(&model, 2, types);
            assert_eq!(state.tensors[state.embedding.index()].dtype, DType::F32);
            let of = |id: &TensorId| state.tensors[id.index()].bytes().get();
            let lookup = (!state.weights.contains(&state.embedding)).then_some(state.embedding);
            state.weights.iter().chain(&lookup).map(of).sum::<u64>()
        });
        let table = u64::from(model.vocab * model.channels);
        let multiplied =
            |p: &&Parameter| matches!(p.role, ParameterRole::Matrix | ParameterRole::Head);
        let parameters = model.parameters();
        let matrices = parameters.iter().filter(multiplied).map(Parameter::count).sum::<u64>();
        // Tied, the head is a second table, of 2 bytes a number.
        let saved = if is_tied { 2 * matrices - 2 * table } else { 2 * matrices };
        assert_eq!(whole - half, saved, "tied: {is_tied}");
    }
}

#[test]
fn every_kind_of_llama_can_be_planned() {
    for family in ["llama", "mistral", "qwen2", "qwen3"] {
        for keys in [
            "n_layer=1 n_head=1 n_embd=8",
            "n_layer=2 n_head=3 n_kv_head=1 n_embd=60 ffn_dim=77 tie_embeddings=False",
            "n_layer=3 n_head=6 n_kv_head=2 n_embd=50 head_dim=10 mlp_bias=True attention_bias=all",
        ] {
            let model = llama(&format!("family={family} {keys} vocab_size=65 block_size=64"));
            for dropout in [0.0, 0.1] {
                let recompute = Recompute { blocks: 1, cheap: model.layers - 1 };
                let training = Training {
                    batch: 3,
                    seq: 37,
                    eval_seq: 37,
                    dropout,
                    recompute,
                    ..four_sequences()
                };
                verify(place(programs(&model, &training), &Host).unwrap(), &Host).unwrap();
            }
            for program in [decoder::prefill, decoder::decode] {
                let plan = place(vec![program(&model, 3, FLOAT32).program], &Host).unwrap();
                verify(plan, &Host).unwrap();
            }
        }
    }
}

#[test]
fn a_program_prints_one_op_per_line() {
    let model = Gpt2Sizes { layers: 1, heads: 1, channels: 8, vocab: 17, ..sizes() }.model();
    let training = Training { batch: 1, seq: 4, ..four_sequences() };
    let text = decoder::evaluate(&model, &training, Names::Kept).program.to_string();
    let expected = "   0  embedded = embed tokens, wte.weight, wpe.weight\n   \
        1  h.0.ln_1, h.0.ln_1.mean, h.0.ln_1.rstd = layer_norm embedded, h.0.ln_1.weight\n";
    assert!(text.starts_with(expected), "{text}");
}
