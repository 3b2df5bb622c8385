//! The loss: logits, their softmax, and the backward of both.
//!
//! For each token on CUDA: half logits (2V bytes), their log-softmax (2V), its float32 copy (4V), the
//! gradient of that (4V), its half copy (2V), the gradient of the logits (2V). On a CPU the logits
//! are copied to float32 first, and the softmax and both gradients are float32. At GPT-2's sizes
//! this outweighs everything else.

use std::fmt;

use fitgpt_program::{
    Life, TensorClass, TensorRole,
    memory::Target as _,
    units::{DType, TensorId},
};

use super::{CachingAllocator, LossForm, eager::LinearFactors, pass::ModelPass};

/// What the backward of the loss needs.
struct LossTensors {
    head: LinearFactors,
    /// The float32 copy of the softmax's input or output.
    wide: Option<TensorId>,
    log_softmax: TensorId,
    loss: TensorId,
    total_weight: TensorId,
}

/// The gradient of the head's weights from the chunks so far.
#[derive(Clone, Copy)]
enum HeadGradient {
    None,
    One(TensorId),
    Sum(TensorId),
}

impl ModelPass<'_> {
    /// (rows, V).
    pub(super) fn scores(&mut self, name: impl fmt::Display, rows: u64, dtype: DType) -> TensorId {
        let shape = [rows, self.tape.model.vocab.into()];
        self.tape.tensor(name, &shape, dtype, (TensorClass::Logits, Life::Inner))
    }

    /// The same for the softmax of the logits or its gradient.
    fn log_softmax(&mut self, name: impl fmt::Display, rows: u64, dtype: DType) -> TensorId {
        let scores = self.scores(name, rows, dtype);
        self.tape.mark(scores, TensorRole::LogSoftmax);
        scores
    }

    /// Scores over the vocabulary for `rows` rows.
    pub(super) fn head(
        &mut self,
        x: TensorId,
        rows: u64,
        suffix: &str,
    ) -> (LinearFactors, TensorId) {
        let weight = self.tape.state("wte.weight");
        let (weight, input) = match (self.is_autocast(), self.options.chunked_loss_rows) {
            (false, _) => (weight, x),
            (true, None) => (self.operand(weight), self.tape.cast(x, self.compute())),
            // The patch passes a view of the weights, which autocast does not keep, and some rows.
            (true, Some(_)) => {
                let weight = self.tape.cast(weight, self.compute());
                let shape = [rows, self.channels()];
                let input = self.tape.value(format_args!("ln_f{suffix}"), &shape, self.compute());
                self.tape.run("_to_copy", &[x], &[input]);
                (weight, input)
            }
        };
        let shape = [rows, self.tape.model.vocab.into()];
        let life = self.life_of_logits();
        let name = format_args!("logits{suffix}");
        let logits = self.tape.tensor(name, &shape, self.compute(), (TensorClass::Logits, life));
        if suffix.is_empty() {
            self.tape.mark(logits, TensorRole::Logits);
        }
        self.tape.run("mm", &[input, weight], &[logits]);
        (LinearFactors { x, input, weight, bias: None }, logits)
    }

    fn loss(&mut self, x: TensorId, targets: TensorId, rows: u64, suffix: &str) -> LossTensors {
        let (head, logits) = self.head(x, rows, suffix);
        let name = format_args!("log_softmax{suffix}");
        let (wide, log_softmax) = match (self.is_autocast(), self.options.loss) {
            (false, _) => {
                let log_softmax = self.log_softmax(name, rows, DType::F32);
                self.tape.run("_log_softmax", &[logits], &[log_softmax]);
                (None, log_softmax)
            }
            (true, LossForm::Float32) => {
                let wide = self.tape.cast(logits, DType::F32);
                let log_softmax = self.log_softmax(name, rows, DType::F32);
                self.tape.run("_log_softmax", &[wide], &[log_softmax]);
                (Some(wide), log_softmax)
            }
            (true, LossForm::HalfSoftmax) => {
                let log_softmax = self.log_softmax(name, rows, self.compute());
                self.tape.run("_log_softmax", &[logits], &[log_softmax]);
                (Some(self.tape.cast(log_softmax, DType::F32)), log_softmax)
            }
        };
        let loss = self.tape.scalar(format_args!("loss{suffix}"));
        let total_weight = self.tape.scalar(format_args!("total weight{suffix}"));
        let from = [log_softmax, targets, logits];
        self.tape.run("nll_loss_forward", &from, &[loss, total_weight]);
        self.tape.hold(wide.as_slice());
        LossTensors { head, wide, log_softmax, loss, total_weight }
    }

    /// The loss without a backward; `names` are held until it is computed.
    pub(super) fn forward_loss(&mut self, x: TensorId, targets: TensorId, names: &[TensorId]) {
        match self.options.chunked_loss_rows {
            Some(rows) => _ = self.sum_of_chunks(x, targets, rows),
            None => _ = self.loss(x, targets, self.batch * self.seq, ""),
        }
        self.tape.hold(names);
        self.leave_autocast();
    }

    /// The loss of all rows at once and its backward: the gradients of `x` and of the head.
    pub(super) fn whole_loss(
        &mut self,
        x: TensorId,
        targets: TensorId,
        names: &[TensorId],
    ) -> (TensorId, TensorId) {
        let rows = self.batch * self.seq;
        let scores = self.loss(x, targets, rows, "");
        self.tape.hold(names);
        self.end_forward(scores.loss);
        self.begin_backward();
        let d_loss = self.gradient_of_division();
        let (d_x, d_weight) = self.loss_backward(&scores, d_loss, targets, rows, "");
        (self.widen(d_x), self.widen(d_weight))
    }

    /// The losses of all chunks, added one by one.
    fn sum_of_chunks(&mut self, x: TensorId, targets: TensorId, rows: u64) -> TensorId {
        let mut sum = None;
        for (index, rows) in chunks(self.batch * self.seq, rows) {
            let LossTensors { loss, .. } = self.loss(x, targets, rows, &suffix(index));
            let next = self.tape.scalar(format_args!("loss up to chunk {index}"));
            let terms: Vec<_> = sum.into_iter().chain([loss]).collect();
            self.tape.run("add", &terms, &[next]);
            sum = Some(next);
        }
        sum.expect("a batch has rows")
    }

    /// The same for some rows at a time; each chunk runs forward twice.
    pub(super) fn chunked_loss(
        &mut self,
        x: TensorId,
        targets: TensorId,
        rows: u64,
        names: &[TensorId],
    ) -> (TensorId, TensorId) {
        let all = self.batch * self.seq;
        let sum = self.sum_of_chunks(x, targets, rows);
        self.tape.hold(names);
        self.end_forward(sum);
        self.begin_backward();
        // Additions pass their gradient on, so all chunks have the same one.
        let d_loss = self.gradient_of_division();
        let mut pieces = Vec::new(); // the gradients of the chunks' rows
        let mut gradient_of_head = HeadGradient::None;
        let mut later = None;
        for (index, rows) in chunks(all, rows).into_iter().rev() {
            pieces.extend(later.and_then(|later| self.pieces_between(index, later, rows)));
            later = Some(index);
            let suffix = format!("{} again", suffix(index));
            let scores = self.loss(x, targets, rows, &suffix);
            self.leave_autocast();
            let (d_rows, d_weight) = self.loss_backward(&scores, d_loss, targets, rows, &suffix);
            self.tape.hold(&[x, targets]); // arguments of the checkpointed function
            // The copy of the rows is newer than that of the weights, so its backward runs first.
            pieces.push(self.widen(d_rows));
            let d_weight = self.widen(d_weight);
            gradient_of_head = self.added_to_head(gradient_of_head, d_weight);
        }
        let d_x = self.tape.value("d_ln_f", &[all, self.channels()], DType::F32);
        self.tape.run("cat", &pieces, &[d_x]);
        match gradient_of_head {
            HeadGradient::One(d_head) | HeadGradient::Sum(d_head) => (d_x, d_head),
            HeadGradient::None => unreachable!("a batch has rows"),
        }
    }

    /// The gradients of the rows of the chunks between two, which are not written one by one.
    fn pieces_between(&mut self, first: u64, last: u64, rows: u64) -> Option<TensorId> {
        let count = (last - first).checked_sub(1).filter(|count| *count > 0)?;
        let piece = rows * self.channels() * DType::F32.size();
        let piece = piece.next_multiple_of(CachingAllocator.limits().alignment);
        let shape = [count, piece / DType::F32.size()];
        let name = format_args!("d_ln_f, chunks {} to {}", first + 1, last - 1);
        let pieces = self.tape.value(name, &shape, DType::F32);
        self.tape.run("_to_copy", &[], &[pieces]);
        Some(pieces)
    }

    /// Autograd adds the first two gradients to a new tensor, and later ones to that tensor.
    fn added_to_head(&mut self, before: HeadGradient, d_weight: TensorId) -> HeadGradient {
        match before {
            HeadGradient::None => HeadGradient::One(d_weight),
            HeadGradient::One(first) => {
                let shape = self.tape.shape_of(d_weight);
                let gradient = (TensorClass::Gradient, Life::Inner);
                let sum = self.tape.tensor("d_lm_head.weight", &shape, DType::F32, gradient);
                self.tape.run("add", &[first, d_weight], &[sum]);
                HeadGradient::Sum(sum)
            }
            HeadGradient::Sum(sum) => {
                self.tape.run_in_place("add_", &[d_weight], &[sum]);
                HeadGradient::Sum(sum)
            }
        }
    }

    /// Divides by the number of micro-batches, the last op under autocast; then loads the next batch.
    fn end_forward(&mut self, loss: TensorId) {
        let scalar = (TensorClass::Scratch, Life::Output);
        let divided = self.tape.tensor("loss / accumulation", &[], DType::F32, scalar);
        self.tape.run("div", &[loss], &[divided]);
        self.leave_autocast();
        let (tokens, targets) = self.inputs("next ", Life::Output);
        self.tape.run("to", &[], &[tokens, targets]);
    }

    /// The gradient of the loss itself, which `backward` holds until it returns.
    fn begin_backward(&mut self) {
        let scalar = (TensorClass::Scratch, Life::Output);
        let one = self.tape.tensor("d_loss / accumulation", &[], DType::F32, scalar);
        self.tape.mark(one, TensorRole::LossGradient);
        self.tape.run("ones_like", &[], &[one]);
    }

    /// The gradient of the loss before it was divided.
    fn gradient_of_division(&mut self) -> TensorId {
        let d_loss = self.tape.scalar("d_loss");
        self.tape.run("div", &[], &[d_loss]);
        d_loss
    }

    /// The gradients of the head's input and weights, in the type of its product.
    fn loss_backward(
        &mut self,
        scores: &LossTensors,
        d_loss: TensorId,
        targets: TensorId,
        rows: u64,
        suffix: &str,
    ) -> (TensorId, TensorId) {
        let is_half = self.tape.dtype_of(scores.log_softmax) != DType::F32;
        let chosen_from = match scores.wide {
            Some(wide) if is_half => wide,
            _ => scores.log_softmax,
        };
        let mut d = self.log_softmax(format_args!("d_log_softmax{suffix}"), rows, DType::F32);
        let from = [d_loss, chosen_from, targets, scores.total_weight, scores.log_softmax];
        self.tape.run("nll_loss_backward", &from, &[d]);
        if is_half {
            d = self.tape.cast(d, self.compute());
        }
        let d_logits = self.scores(format_args!("d_logits{suffix}"), rows, self.tape.dtype_of(d));
        self.tape.run("_log_softmax_backward_data", &[d, scores.log_softmax], &[d_logits]);
        let is_cast = self.tape.dtype_of(d_logits) != self.compute();
        let d_logits = if is_cast { self.tape.cast(d_logits, self.compute()) } else { d_logits };

        let LinearFactors { input, weight, .. } = scores.head;
        let shape = self.tape.shape_of(weight);
        let name = format_args!("d_lm_head.weight{suffix}");
        let gradient = (TensorClass::Gradient, Life::Inner);
        let d_weight = self.tape.tensor(name, &shape, self.compute(), gradient);
        self.tape.run("mm", &[d_logits, input], &[d_weight]);
        let shape = [rows, self.channels()];
        let d_x = self.tape.value(format_args!("d_ln_f{suffix}"), &shape, self.compute());
        self.tape.run("mm", &[d_logits, weight], &[d_x]);
        self.tape.hold(&[input]);
        (d_x, d_weight)
    }

    /// The backward of a cast to half.
    fn widen(&mut self, tensor: TensorId) -> TensorId {
        if self.is_autocast() { self.tape.cast(tensor, DType::F32) } else { tensor }
    }
}

/// The end of the names of a chunk's tensors.
fn suffix(chunk: u64) -> String {
    format!(", chunk {chunk}")
}

/// How many chunks at each end are counted.
const ENDS: u64 = 3;

/// Numbered chunks of `chunk_rows` rows; the last may be shorter. Of many, only some at both ends:
/// those in between allocate and free the same, and there may be millions.
fn chunks(rows: u64, chunk_rows: u64) -> Vec<(u64, u64)> {
    let chunk_rows = chunk_rows.clamp(1, rows.max(1));
    let count = rows.div_ceil(chunk_rows);
    let (first, last) = (0..ENDS.min(count), count.saturating_sub(ENDS).max(ENDS)..count);
    first.chain(last).map(|index| (index, chunk_rows.min(rows - index * chunk_rows))).collect()
}

#[cfg(test)]
mod tests {
    use super::chunks;

    #[test]
    fn chunks_cover_the_rows_and_many_are_folded() {
        assert_eq!(chunks(10, 4), [(0, 4), (1, 4), (2, 2)]);
        assert_eq!(chunks(4, 9), [(0, 4)]);
        assert_eq!(chunks(24, 4).iter().map(|(_, rows)| rows).sum::<u64>(), 24);
        let folded = [(0, 4), (1, 4), (2, 4), (22, 4), (23, 4), (24, 3)];
        assert_eq!(chunks(99, 4), folded);
        assert_eq!(chunks(1 << 60, 1).len(), 6);
    }
}
