//! The optimizer.

use std::ops::Range;

use cubecl::prelude::BufferArg;
use fitgpt_program::{Adam, ElementRule, Lion, Op, QUANTISED_BLOCK, units::TensorId};

use super::{OpLaunch, cubes, elements, launch, line, misplaced};
use crate::kernels::{
    update::{self, AdamConstantsLaunch, BLOCK, LionConstantsLaunch},
    update_8bit,
};

impl OpLaunch<'_> {
    pub(super) fn update(&self) {
        match *self.op {
            Op::GradientNorm { ref gradients, norm } => {
                let mut blocks = 0;
                for gradient in gradients {
                    let count = self.listing.get(*gradient).count() as usize;
                    for window in self.windows(count, &[4]) {
                        launch!(
                            self,
                            update::squares,
                            cubes(window.len().div_ceil(BLOCK)),
                            line(),
                            self.shares(*gradient, &window, count),
                            self.floats(),
                            blocks,
                            window.len(),
                            self.properties().sums,
                        );
                        blocks += window.len().div_ceil(BLOCK);
                    }
                }
                launch!(
                    self,
                    update::norm,
                    cubes(1),
                    line(),
                    self.floats(),
                    self.whole(norm),
                    blocks,
                    self.arguments.loss_scale,
                    self.properties().sums,
                );
            }
            Op::Update { norm, parameter, gradient, ref states, first, decays, ref rule } => {
                let count = self.listing.get(states[0]).count() as usize;
                let (first, whole) = (first as usize, self.listing.get(parameter).count() as usize);
                for window in self.windows(count, &[4]) {
                    let owned = first + window.start..first + window.end;
                    let state = |at: usize| self.shares(states[at], &window, count);
                    match rule {
                        ElementRule::AdamW(adam) => launch!(
                            self,
                            update::adamw,
                            elements(window.len()),
                            line(),
                            self.whole(norm),
                            self.shares(parameter, &owned, whole),
                            self.shares(gradient, &owned, whole),
                            state(0),
                            state(1),
                            window.len(),
                            self.step(adam, decays),
                        ),
                        ElementRule::Lion(lion) => launch!(
                            self,
                            update::lion,
                            elements(window.len()),
                            line(),
                            self.whole(norm),
                            self.shares(parameter, &owned, whole),
                            self.shares(gradient, &owned, whole),
                            state(0),
                            window.len(),
                            self.lion_step(lion, decays),
                        ),
                    }
                }
            }
            _ => misplaced(self.op),
        }
    }

    pub(super) fn update_8bit(&self) {
        let Op::AdamW8bit {
            norm,
            parameter,
            gradient,
            exp_avg,
            exp_avg_scale,
            exp_avg_sq,
            exp_avg_sq_scale,
            first,
            decays,
            ref adam,
        } = *self.op
        else {
            misplaced(self.op)
        };
        let count = self.listing.get(exp_avg).count();
        let blocks = count.div_ceil(QUANTISED_BLOCK) as usize;
        // The floats, codes and scale of a block.
        for window in self.windows(blocks, &[4 * QUANTISED_BLOCK, QUANTISED_BLOCK, 4]) {
            let (start, end) = (window.start as u64, window.end as u64);
            let elements = start * QUANTISED_BLOCK..count.min(end * QUANTISED_BLOCK);
            let floats =
                |id| self.words_of(id, (first + elements.start) * 4..(first + elements.end) * 4);
            let codes = |id| self.words_of(id, elements.clone());
            let scales = |id| self.words_of(id, start * 4..end * 4);
            launch!(
                self,
                update_8bit::adamw,
                cubes(window.len()),
                line(),
                self.whole(norm),
                floats(parameter),
                floats(gradient),
                codes(exp_avg),
                scales(exp_avg_scale),
                codes(exp_avg_sq),
                scales(exp_avg_sq_scale),
                (elements.end - elements.start) as usize,
                self.step(adam, decays),
                self.properties().sums,
            );
        }
    }

    /// Bytes of a tensor, bound as whole words; the last word may extend past the tensor.
    fn words_of(&self, id: TensorId, bytes: Range<u64>) -> BufferArg {
        let words = (bytes.end - bytes.start).div_ceil(4);
        self.bind(self.plan.slot(self.program, id), bytes, words as usize)
    }

    /// AdamW's constants of this step.
    fn step(&self, adam: &Adam, decays: bool) -> AdamConstantsLaunch {
        let lr = f64::from(self.arguments.lr);
        let updates = self.arguments.updates as f64;
        let (beta1, beta2) = (f64::from(adam.beta1), f64::from(adam.beta2));
        let decay = if decays { lr * f64::from(adam.weight_decay) } else { 0.0 };
        AdamConstantsLaunch::new(
            1.0 / self.arguments.loss_scale,
            adam.grad_clip,
            (1.0 - decay) as f32,
            adam.beta1,
            adam.beta2,
            (1.0 - beta1) as f32,
            (1.0 - beta2) as f32,
            (lr / (1.0 - beta1.powf(updates))) as f32,
            (1.0 - beta2.powf(updates)).sqrt() as f32,
            adam.epsilon,
        )
    }
    /// Lion's constants of this step.
    fn lion_step(&self, lion: &Lion, decays: bool) -> LionConstantsLaunch {
        let lr = f64::from(self.arguments.lr);
        let decay = if decays { lr * f64::from(lion.weight_decay) } else { 0.0 };
        LionConstantsLaunch::new(
            1.0 / self.arguments.loss_scale,
            lion.grad_clip,
            (1.0 - decay) as f32,
            lion.beta1,
            lion.beta2,
            (1.0 - f64::from(lion.beta1)) as f32,
            (1.0 - f64::from(lion.beta2)) as f32,
            self.arguments.lr,
        )
    }
}
