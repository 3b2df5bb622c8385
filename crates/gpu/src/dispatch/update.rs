//! The optimizer.

use fitgpt_plan::program::Op;

use super::{Call, cubes, elements, launch, line, misplaced};
use crate::kernels::update::{self, BLOCK, StepLaunch};

impl Call<'_> {
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
            Op::AdamW { norm, parameter, gradient, exp_avg, exp_avg_sq, decays, ref adam } => {
                let lr = f64::from(self.arguments.lr);
                let updates = self.arguments.updates as f64;
                let (beta1, beta2) = (f64::from(adam.beta1), f64::from(adam.beta2));
                let decay = if decays { lr * f64::from(adam.weight_decay) } else { 0.0 };
                let step = || {
                    StepLaunch::new(
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
                };
                let count = self.listing.get(parameter).count() as usize;
                for window in self.windows(count, &[4]) {
                    launch!(
                        self,
                        update::adamw,
                        elements(window.len()),
                        line(),
                        self.whole(norm),
                        self.shares(parameter, &window, count),
                        self.shares(gradient, &window, count),
                        self.shares(exp_avg, &window, count),
                        self.shares(exp_avg_sq, &window, count),
                        window.len(),
                        step(),
                    );
                }
            }
            _ => misplaced(self.op),
        }
    }
}
