//! Compares ten AdamW steps, every gradient and the evaluation of small GPTs with PyTorch.
//!
//! The golden values are float64, rounded once. Each file states the error of PyTorch's float32
//! relative to a tensor's largest magnitude; another order of summation may have a few times that
//! error.

use fitgpt_exec::{
    Arguments, Backend, Watch,
    cpu::{Cpu, CpuTarget, isa::Isa},
};
use fitgpt_model::{
    job::{self, Job},
    optimizer::Optimizer,
    programs::TrainingHandles,
    shard::Share,
    training::{Recompute, Training},
};
use fitgpt_program::{
    Adam, Names,
    units::{Bytes, DType, ProgramId, TensorId},
};

use super::golden::{CASES, Golden};

/// The allowed multiple of PyTorch's float32 error: sums run in another order, and the stated error
/// is one sample of such an error, not a bound.
const MULTIPLE: f64 = 8.0;

/// A backend with the case's plan and its initial weights.
struct GoldenRun {
    golden: Golden,
    backend: Cpu,
    programs: TrainingHandles,
}

impl GoldenRun {
    fn new(case: &str, isa: Isa) -> Self {
        let golden = Golden::read(case);
        let facts = &golden.facts;
        let (batch, seq) = (facts.case.batch as u64, u64::from(facts.case.block));
        let training = Training {
            batch,
            seq,
            accumulation: facts.case.micro_batches as u64,
            eval_batch: batch,
            eval_seq: seq,
            dropout: 0.0,
            optimizer: Optimizer::adamw(Adam {
                beta1: facts.betas[0],
                beta2: facts.betas[1],
                epsilon: facts.adam_eps,
                weight_decay: facts.weight_decay,
                grad_clip: facts.case.grad_clip,
            }),
            activations: DType::F32,
            recompute: Recompute::default(),
            loss_chunk_rows: 16, // does not divide the rows of most cases
            lanes: 1,
            sampled: 0,
            share: Share::WHOLE,
        };
        let model = facts.case.model();
        let sampled_matrices = DType::F32;
        let job = Job { model, training, eval_sequences: batch, samples: 1, sampled_matrices };
        let target = CpuTarget::new(2, isa);
        let programs = job.training_programs(Names::Kept);
        let handles = programs.handles();
        let plan = job::plan(programs, &target).unwrap();
        let backend = Cpu::new(plan, target, Watch::Off).unwrap();
        let mut run = Self { backend, programs: handles, golden };
        for (index, parameter) in (0..).zip(model.parameters()) {
            let values = run.golden.tensors.get(&format!("initial.{}", parameter.name)).f32s();
            let bytes = bytemuck::cast_slice(values);
            run.backend
                .write(run.programs.train.program, TensorId(index), Bytes::ZERO, bytes)
                .unwrap();
        }
        run
    }

    fn load(&mut self, program: ProgramId, step: usize, micro: usize) {
        let case = &self.golden.facts.case;
        let count = case.batch * case.block as usize;
        let first = (step * case.micro_batches + micro) * count;
        for name in ["tokens", "targets"] {
            let values = &self.golden.tensors.get(name).u32s()[first..][..count];
            let id = self.backend.plan().program(program).find(name).unwrap();
            self.backend.write(program, id, Bytes::ZERO, bytemuck::cast_slice(values)).unwrap();
        }
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
        let loss = self.backend.plan().program(self.programs.train.program).find("loss").unwrap();
        self.backend
            .write(self.programs.train.program, loss, Bytes::ZERO, &0f32.to_ne_bytes())
            .unwrap();
        for micro in 0..self.golden.facts.case.micro_batches {
            self.load(self.programs.train.program, step, micro);
            self.backend.run(self.programs.train.program, &Arguments::default()).unwrap();
        }
        self.read(self.programs.train.program, "loss")[0]
    }

    fn allowed(&self, quantity: &str) -> f64 {
        MULTIPLE * self.golden.facts.float32_error[quantity].max(f64::from(f32::EPSILON))
    }

    fn compare(&self, what: &str, ours: &[f32], theirs: &[f32], quantity: &str) {
        let largest = theirs.iter().fold(0f64, |most, v| most.max(f64::from(v.abs())));
        let pairs = ours.iter().zip(theirs);
        let worst = pairs.map(|(a, b)| f64::from((a - b).abs())).fold(0f64, f64::max) / largest;
        let allowed = self.allowed(quantity);
        // Written so that a NaN fails.
        assert!(
            worst <= allowed,
            "{what}: off by {worst:e} of its largest element, {allowed:e} allowed"
        );
    }
}

/// Runs `check` for every case and every instruction set of this machine.
fn everywhere(check: impl Fn(&str, Isa)) {
    for isa in Isa::all() {
        for case in CASES {
            check(case, isa);
        }
    }
}

#[test]
fn every_gradient_of_the_first_step_matches_pytorch() {
    everywhere(|case, isa| {
        let mut run = GoldenRun::new(case, isa);
        run.micro_batches(0);
        for parameter in run.golden.facts.case.model().parameters() {
            let name = &parameter.name;
            let ours = run.read(run.programs.train.program, &format!("d_{name}"));
            let tensor = run.golden.tensors.get(&format!("gradient.{name}"));
            let theirs = tensor.f32s();
            if name.ends_with("c_attn.bias") {
                // Key biases add the same number to every score of a row, so their gradient is
                // zero up to rounding, which is compared with the gradients of the other biases.
                let third = theirs.len() / 3;
                let zeroed: Vec<_> = theirs.iter().copied().enumerate().collect();
                let theirs: Vec<_> = zeroed
                    .into_iter()
                    .map(|(i, v)| if (third..2 * third).contains(&i) { 0.0 } else { v })
                    .collect();
                run.compare(&format!("{case}: {name}"), &ours, &theirs, "gradients");
            } else {
                run.compare(&format!("{case}: {name}"), &ours, theirs, "gradients");
            }
        }
    });
}

#[test]
fn the_losses_norms_and_weights_of_ten_steps_match_pytorch() {
    everywhere(|case, isa| {
        let mut run = GoldenRun::new(case, isa);
        let (mut losses, mut norms) = (Vec::new(), Vec::new());
        for step in 0..run.golden.facts.steps {
            losses.push(run.micro_batches(step));
            let lr = run.golden.tensors.get("learning_rates").f32s()[step];
            let updates = step as u64 + 1;
            let arguments = Arguments { lr, updates, ..Arguments::default() };
            run.backend.run(run.programs.update.program, &arguments).unwrap();
            norms.push(run.read(run.programs.update.program, "norm")[0]);
        }
        let theirs = run.golden.tensors.get("losses").f32s();
        run.compare(&format!("{case}: losses"), &losses, theirs, "losses");
        let theirs = run.golden.tensors.get("gradient_norms").f32s();
        run.compare(&format!("{case}: norms"), &norms, theirs, "gradient_norms");
        for parameter in run.golden.facts.case.model().parameters() {
            let name = &parameter.name;
            let ours = run.read(run.programs.train.program, name);
            let theirs = run.golden.tensors.get(&format!("final.{name}")).f32s();
            let is_key = name.ends_with("c_attn.bias");
            let quantity = if is_key { "final_key_bias" } else { "final" };
            run.compare(&format!("{case}: {name}"), &ours, theirs, quantity);
        }
    });
}

#[test]
fn the_loss_of_every_evaluated_sequence_matches_pytorch() {
    everywhere(|case, isa| {
        let mut run = GoldenRun::new(case, isa);
        run.load(run.programs.evaluate.program, 0, 0);
        run.backend.run(run.programs.evaluate.program, &Arguments::default()).unwrap();
        let ours = run.read(run.programs.evaluate.program, "losses");
        let theirs = run.golden.tensors.get("evaluation_losses").f32s();
        run.compare(&format!("{case}: evaluation"), &ours, theirs, "evaluation_losses");
    });
}
