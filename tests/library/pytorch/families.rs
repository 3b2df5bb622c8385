//! Compares ten AdamW steps, every gradient and the logits of small Llamas, Mistrals and Qwens with
//! `transformers`, from the folders that it wrote.

use std::collections::BTreeMap;

use fitgpt_checkpoint::{PositionRows, StoreError, TensorPiece, TensorSink, Tensors, Weights};
use fitgpt_config::Family;
use fitgpt_exec::{
    Arguments, Backend, Watch,
    cpu::{Cpu, CpuTarget, isa::Isa},
};
use fitgpt_model::{
    Model,
    job::{self, Job},
    optimizer::Optimizer,
    programs::TrainingHandles,
    shard::Share,
    state::TrainingState,
    training::{Recompute, Training},
};
use fitgpt_program::{
    Adam, Names,
    units::{Bytes, DType, ProgramId},
};
use fitgpt_run::init;
use serde::Deserialize;

use super::golden::{self, facts_of};

/// The folders that `tests/golden/families.py` writes.
pub(crate) const FOLDERS: [&str; 6] = [
    "families/llama_tied",
    "families/llama_biases",
    "families/llama_ragged",
    "families/mistral",
    "families/qwen2",
    "families/qwen3",
];

/// The allowed multiple of PyTorch's float32 error, as in `steps.rs`.
const MULTIPLE: f64 = 8.0;
/// The absolute limit on the error of losses.
const LOSSES: f64 = 1e-4;

/// The settings of the steps.
#[derive(Deserialize)]
struct FamilyFacts {
    batch: u64,
    micro_batches: u64,
    steps: usize,
    betas: [f32; 2],
    adam_eps: f32,
    weight_decay: f32,
    grad_clip: f32,
    float32_error: BTreeMap<String, f64>,
}

struct FamilyRun {
    model: Model,
    facts: FamilyFacts,
    expected: golden::GoldenTensors,
    state: TrainingState,
    backend: Cpu,
    programs: TrainingHandles,
}

impl FamilyRun {
    fn new(folder: &str, isa: Isa, recompute: Recompute) -> Self {
        let mut weights = Weights::open(&golden::path(folder)).unwrap();
        let model = weights.architecture().model;
        let file = format!("{folder}/expected.safetensors");
        let facts: FamilyFacts = serde_json::from_str(&facts_of(&file)).unwrap();
        let seq = u64::from(model.block);
        let optimizer = Optimizer::adamw(Adam {
            beta1: facts.betas[0],
            beta2: facts.betas[1],
            epsilon: facts.adam_eps,
            weight_decay: facts.weight_decay,
            grad_clip: facts.grad_clip,
        });
        let training = Training {
            batch: facts.batch,
            seq,
            accumulation: facts.micro_batches,
            eval_batch: facts.batch,
            eval_seq: seq,
            dropout: 0.0,
            optimizer,
            activations: DType::F32,
            recompute,
            loss_chunk_rows: 16,
            lanes: 1,
            sampled: 0,
            share: Share::WHOLE,
        };
        let sampled_matrices = DType::F32;
        let job =
            Job { model, training, eval_sequences: facts.batch, samples: 1, sampled_matrices };
        let target = CpuTarget::new(2, isa);
        let programs = job.training_programs(Names::Kept);
        let handles = programs.handles();
        let plan = job::plan(programs, &target).unwrap();
        let mut backend = Cpu::new(plan, target, Watch::Off).unwrap();
        let state = TrainingState::new(&model, &training);
        init::rotary(&mut backend, state.rotary, &model).unwrap();
        let expected = golden::GoldenTensors::read(&file);
        let mut run = Self { model, facts, expected, state, programs: handles, backend };
        weights.read(&Tensors::weights_of(&model), PositionRows::Exact, &mut run).unwrap();
        run
    }

    fn read(&mut self, program: ProgramId, name: &str) -> Vec<f32> {
        let listing = self.backend.plan().program(program);
        let id = listing.find(name).unwrap();
        let mut values = vec![0f32; listing.get(id).count() as usize];
        let bytes = bytemuck::cast_slice_mut(&mut values);
        self.backend.read(program, id, Bytes::ZERO, bytes).unwrap();
        values
    }

    /// Runs forward and backward of every micro-batch and returns the mean loss.
    fn micro_batches(&mut self, step: usize) -> f32 {
        let loss = self.state.loss;
        self.backend
            .write(self.programs.train.program, loss, Bytes::ZERO, &0f32.to_ne_bytes())
            .unwrap();
        let count = (self.facts.batch * u64::from(self.model.block)) as usize;
        for micro in 0..self.facts.micro_batches as usize {
            let first = (step * self.facts.micro_batches as usize + micro) * count;
            for name in ["tokens", "targets"] {
                let values = &self.expected.get(name).u32s()[first..][..count];
                let id =
                    self.backend.plan().program(self.programs.train.program).find(name).unwrap();
                let bytes = bytemuck::cast_slice(values);
                self.backend.write(self.programs.train.program, id, Bytes::ZERO, bytes).unwrap();
            }
            self.backend.run(self.programs.train.program, &Arguments::default()).unwrap();
        }
        self.read(self.programs.train.program, "loss")[0]
    }

    fn compare(&self, what: &str, ours: &[f32], theirs: &[f32], quantity: &str) {
        let largest = theirs.iter().fold(0f64, |most, v| most.max(f64::from(v.abs())));
        let pairs = ours.iter().zip(theirs);
        let worst = pairs.map(|(a, b)| f64::from((a - b).abs())).fold(0f64, f64::max) / largest;
        let allowed = MULTIPLE * self.facts.float32_error[quantity].max(f64::from(f32::EPSILON));
        // Written so that a NaN fails.
        assert!(
            worst <= allowed,
            "{what}: off by {worst:e} of its largest element, {allowed:e} allowed"
        );
    }
}

impl TensorSink for FamilyRun {
    fn write(&mut self, piece: TensorPiece<'_>, bytes: &[u8]) -> Result<(), StoreError> {
        let id =
            self.backend.plan().program(self.programs.train.program).find(&piece.entry.parameter);
        let start = Bytes::new(piece.start as u64);
        Ok(self.backend.write(
            self.programs.train.program,
            id.expect("a parameter"),
            start,
            bytes,
        )?)
    }
}

#[test]
fn every_gradient_of_the_first_step_matches_transformers() {
    for isa in Isa::all() {
        for folder in FOLDERS {
            let mut run = FamilyRun::new(folder, isa, Recompute::default());
            run.micro_batches(0);
            for parameter in run.model.parameters() {
                let name = &parameter.name;
                let ours = run.read(run.programs.train.program, &format!("d_{name}"));
                let theirs = run.expected.get(&format!("gradient.{name}")).f32s();
                run.compare(&format!("{folder}: {name}"), &ours, theirs, "gradients");
            }
        }
    }
}

#[test]
fn the_losses_and_norms_of_ten_steps_match_transformers() {
    for isa in Isa::all() {
        for folder in FOLDERS {
            let mut run = FamilyRun::new(folder, isa, Recompute::default());
            let (mut losses, mut norms) = (Vec::new(), Vec::new());
            for step in 0..run.facts.steps {
                losses.push(run.micro_batches(step));
                let lr = run.expected.get("learning_rates").f32s()[step];
                let updates = step as u64 + 1;
                run.backend
                    .run(
                        run.programs.update.program,
                        &Arguments { lr, updates, ..Arguments::default() },
                    )
                    .unwrap();
                norms.push(run.read(run.programs.update.program, "norm")[0]);
            }
            let theirs = run.expected.get("losses").f32s();
            for (ours, theirs) in losses.iter().zip(theirs) {
                let far = f64::from((ours - theirs).abs());
                assert!(far <= LOSSES, "{folder}: {ours}, expected {theirs}");
            }
            run.compare(&format!("{folder}: losses"), &losses, theirs, "losses");
            let theirs = run.expected.get("gradient_norms").f32s();
            run.compare(&format!("{folder}: norms"), &norms, theirs, "gradient_norms");
        }
    }
}

#[test]
fn recomputing_blocks_changes_no_bit_of_a_gradient() {
    for folder in FOLDERS {
        let layers = FamilyRun::new(folder, Isa::best(), Recompute::default()).model.layers;
        let gradients = |recompute| {
            let mut run = FamilyRun::new(folder, Isa::best(), recompute);
            run.micro_batches(0);
            let names = run.model.parameters().into_iter().map(|p| p.name);
            names
                .flat_map(|name| run.read(run.programs.train.program, &format!("d_{name}")))
                .map(f32::to_bits)
                .collect()
        };
        let kept: Vec<u32> = gradients(Recompute::default());
        assert!(gradients(Recompute { blocks: layers, cheap: 0 }) == kept, "{folder}: blocks");
        assert!(gradients(Recompute { blocks: 0, cheap: layers }) == kept, "{folder}: cheap parts");
    }
}

#[test]
fn every_family_except_gpt2_has_a_folder() {
    let family = |folder| Weights::open(&golden::path(folder)).unwrap().architecture().model.family;
    let here: Vec<_> = FOLDERS.iter().map(|folder| family(folder)).collect();
    for wanted in Family::ALL {
        assert!(wanted == Family::Gpt2 || here.contains(&wanted), "{wanted}");
    }
}
