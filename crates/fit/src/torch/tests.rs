//! The effect of options on the peaks; and the planner accepts every program.

use fitgpt_model::family::gpt2::Gpt2Sizes;
use fitgpt_program::{
    Gelu, TensorClass,
    memory::{place, profile, verify},
};

use super::*;

fn sizes() -> Gpt2Sizes {
    Gpt2Sizes {
        layers: 2,
        heads: 4,
        channels: 64,
        vocab: 4096,
        block: 32,
        has_bias: true,
        gelu: Gelu::Exact,
    }
}

fn model() -> Model {
    sizes().model()
}

fn options() -> TorchOptions {
    TorchOptions {
        batch: 4,
        seq: 32,
        eval_batch: 4,
        eval_seq: 32,
        compile: false,
        ..TorchOptions::default()
    }
}

fn peak(phase: TorchPhase, options: &TorchOptions) -> u64 {
    let programs = phases(&model(), options);
    let (_, program) = programs.iter().find(|(p, _)| *p == phase).unwrap();
    profile(program, &CachingAllocator).peak().unwrap().bytes.get()
}

/// Bytes of the half logits of a batch.
const LOGITS: u64 = 4 * 32 * 4096 * 2;

#[test]
fn every_program_can_be_placed_and_passes_the_checker() {
    let plain = options();
    let cases = [
        plain,
        TorchOptions { compile: true, dropout: true, ..plain },
        TorchOptions { compile: true, checkpoint_blocks: true, accumulation: 1, ..plain },
        TorchOptions { precision: TorchPrecision::F32, fused_attention: false, ..plain },
        TorchOptions { fused_attention: false, dropout: true, accumulation: 1, ..plain },
        TorchOptions { checkpoint_blocks: true, dropout: true, fused_adam: false, ..plain },
        TorchOptions { chunked_loss_rows: Some(48), resumed: true, ddp_world: 2, ..plain },
        TorchOptions {
            precision: TorchPrecision::F16,
            rules: Rules::Cpu,
            loss: LossForm::Float32,
            ..plain
        },
        TorchOptions { rules: Rules::Cpu, loss: LossForm::Float32, dropout: true, ..plain },
    ];
    for options in cases {
        for (phase, program) in phases(&model(), &options) {
            let bound = profile(&program, &CachingAllocator).peak().unwrap().bytes;
            let plan = place(vec![program], &CachingAllocator).unwrap();
            assert!(plan.arena_bytes() >= bound);
            let fault = verify(plan, &CachingAllocator).err();
            assert_eq!(fault, None, "{} with {options:?}", phase.name());
        }
    }
}

#[test]
fn names_are_unique_in_a_program() {
    let cases = [options(), TorchOptions { compile: true, ..options() }];
    for (phase, program) in cases.iter().flat_map(|o| phases(&model(), o)) {
        let mut names: Vec<_> = program.tensors().iter().map(|t| &t.name).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "in {}", phase.name());
    }
}

#[test]
fn logits_without_a_variable_are_gone_from_every_phase() {
    let (plain, patched) = (options(), TorchOptions { drop_stale_logits: true, ..options() });
    let saved = |phase| peak(phase, &plain) - peak(phase, &patched);
    assert_eq!(saved(TorchPhase::EvaluateFirst), LOGITS);
    assert_eq!(saved(TorchPhase::Evaluate), 2 * LOGITS); // the evaluation's own, and the training's
    assert_eq!(saved(TorchPhase::Update), LOGITS);
    assert_eq!(saved(TorchPhase::Train), LOGITS);
}

#[test]
fn a_half_softmax_saves_the_difference_of_one_float32_tensor() {
    let wide = TorchOptions { loss: LossForm::Float32, ..options() };
    for phase in [TorchPhase::EvaluateFirst, TorchPhase::Train, TorchPhase::Evaluate] {
        let saved = peak(phase, &wide) - peak(phase, &options());
        assert!(saved.abs_diff(LOGITS) < LOGITS / 50, "{} saves {saved}", phase.name());
    }
}

#[test]
fn flash_attention_keeps_wider_copies_of_heads_that_are_no_multiple_of_eight() {
    let wide = |heads, channels| {
        let model = Gpt2Sizes { heads, channels, ..sizes() }.model();
        let program = program(TorchPhase::Train, &model, &options(), Names::Kept);
        program.tensors().iter().filter(|t| t.name.ends_with("v padded")).count()
    };
    assert_eq!((wide(4, 64), wide(4, 80)), (0, 4)); // heads of 16 and of 20; values and gradients
}

#[test]
fn a_chunked_loss_never_holds_a_whole_batch_of_logits() {
    for compile in [false, true] {
        let plain = TorchOptions { compile, ..options() };
        let chunked = TorchOptions { chunked_loss_rows: Some(16), ..plain };
        for (phase, program) in phases(&model(), &chunked) {
            let mut logits = program.tensors().iter().filter(|t| t.class == TensorClass::Logits);
            assert!(logits.all(|t| t.rows() <= 16), "{}", phase.name());
            assert!(peak(phase, &chunked) <= peak(phase, &plain), "{}", phase.name());
        }
    }
}

#[test]
fn a_resumed_run_keeps_a_second_copy_of_the_weights() {
    let resumed = TorchOptions { resumed: true, ..options() };
    let weights: u64 =
        model().parameters().iter().map(|p| (4 * p.count()).next_multiple_of(512)).sum();
    for phase in [TorchPhase::Train, TorchPhase::Update, TorchPhase::Evaluate] {
        assert_eq!(peak(phase, &resumed) - peak(phase, &options()), weights);
    }
    let steps = 512 * model().parameters().len() as u64;
    assert_eq!(peak(TorchPhase::Resume, &resumed), 4 * weights + steps);
    assert!(phases(&model(), &options()).iter().all(|(phase, _)| *phase != TorchPhase::Resume));
}

#[test]
fn several_workers_keep_their_gradients_twice() {
    let two = TorchOptions { ddp_world: 2, ..options() };
    let gradients = 4 * model().parameter_count();
    let added = peak(TorchPhase::Train, &two) - peak(TorchPhase::Train, &options());
    assert!(added.abs_diff(gradients) <= 512, "{added} of {gradients}");
}

#[test]
fn foreach_adam_holds_a_square_root_of_every_matrix() {
    let foreach = TorchOptions { fused_adam: false, ..options() };
    let matrices: u64 =
        model().parameters().iter().filter(|p| p.decays()).map(|p| 4 * p.count()).sum();
    // Steps are counted in host memory in this case.
    let steps = 512 * model().parameters().len() as u64;
    let added = peak(TorchPhase::Update, &foreach) + steps - peak(TorchPhase::Update, &options());
    assert!(added.abs_diff(matrices) < matrices / 50, "{added} of {matrices}");
}

#[test]
fn one_micro_batch_a_step_has_no_gradients_at_the_loss() {
    let one = TorchOptions { accumulation: 1, ..options() };
    let saved = peak(TorchPhase::Train, &options()) - peak(TorchPhase::Train, &one);
    let gradients: u64 =
        model().parameters().iter().map(|p| (4 * p.count()).next_multiple_of(512)).sum();
    assert_eq!(saved, gradients);
}

#[test]
fn a_compiled_step_has_no_float32_logits() {
    let compiled = TorchOptions { compile: true, ..options() };
    for (_, program) in phases(&model(), &compiled).iter().take(4) {
        for tensor in program.tensors() {
            let is_whole = tensor.count() * 2 == LOGITS;
            assert!(!is_whole || tensor.dtype == DType::Bf16, "{}", tensor.name);
        }
    }
}

#[test]
fn options_that_a_phase_does_not_read_do_not_change_it() {
    let cases = [
        options(),
        TorchOptions { compile: true, dropout: true, accumulation: 1, ..options() },
        TorchOptions { checkpoint_blocks: true, eval_batch: 2, eval_seq: 16, ..options() },
        TorchOptions { resumed: true, chunked_loss_rows: Some(16), fused_adam: false, ..options() },
        TorchOptions { fused_attention: false, dropout: true, ..options() },
    ];
    for options in cases {
        for (phase, whole) in phases(&model(), &options) {
            assert_eq!(program(phase, &model(), &options.read_by(phase), Names::Kept), whole);
        }
    }
}

/// Peaks of nanoGPT with the patch `chunked-loss`, counted with `fitgpt.torch.pretend` on PyTorch
/// 2.15: rows of a chunk, first evaluation, training.
const COUNTED: [(u64, u64, u64); 3] = [
    (4096, 2_394_772_480, 8_645_910_016),
    (512, 968_183_296, 6_848_519_680),
    (64, 968_183_296, 6_786_194_432),
];

#[test]
fn a_chunked_loss_peaks_where_pytorch_does() {
    let gpt2 =
        Gpt2Sizes { layers: 12, heads: 12, channels: 768, vocab: 50304, block: 1024, ..sizes() };
    let model = Gpt2Sizes { has_bias: false, ..gpt2 }.model();
    for (rows, first, train) in COUNTED {
        let compile = false;
        let options =
            TorchOptions { compile, chunked_loss_rows: Some(rows), ..TorchOptions::default() };
        let peak = |phase| {
            let program = program(phase, &model, &options, Names::Kept);
            profile(&program, &CachingAllocator).peak().unwrap().bytes.get()
        };
        assert_eq!(peak(TorchPhase::EvaluateFirst), first, "{rows} rows");
        // Not counted here: the seeds of attention, 1 KiB per layer, and the rows of a chunk that
        // autograd releases after the gradient of the weights was added, 96 KiB of 64 rows.
        let missing = train - peak(TorchPhase::Train);
        assert!(missing <= 12 * 1024 + 98_304 + 512, "{rows} rows: {missing}");
    }
}

#[test]
fn the_number_of_chunks_changes_neither_the_size_of_a_program_nor_its_peaks() {
    for precision in [TorchPrecision::F32, TorchPrecision::Bf16] {
        let of_rows = |rows| TorchOptions {
            batch: 1 << 20,
            eval_batch: 1 << 20,
            chunked_loss_rows: Some(rows),
            precision,
            ..options()
        };
        for phase in TorchPhase::of_run(&options()) {
            let few = program(phase, &model(), &of_rows((32 << 20) / 6), Names::Kept);
            let many = program(phase, &model(), &of_rows(7), Names::Kept);
            assert!(many.ops().len() <= few.ops().len() + 1, "{}", phase.name());
        }
    }
}
