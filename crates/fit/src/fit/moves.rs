//! The moves and their levels.

use fitgpt_config::{GradCheckpoint, divisors};
use fitgpt_model::job::Job;

use super::{Effect, Engine, FitRequest};

/// One kind of change. Each has levels from 0 (not made) upwards; a higher level never needs
/// more memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// PyTorch: `forward` returns no logits while training.
    LossAlone,
    /// PyTorch: evaluations have a separate batch size.
    OwnEval,
    /// PyTorch: logits are freed after their batch.
    DropLogits,
    /// PyTorch: AdamW is one kernel.
    FusedAdam,
    /// PyTorch: attention is one kernel.
    FusedAttention,
    /// PyTorch: `torch.compile`, which fuses the loss.
    Compile,
    /// Head and loss for fewer rows at a time.
    ChunkLoss,
    /// Blocks are recomputed: level 1 as many as the budget needs, level 2 all of them.
    Recompute,
    /// The micro-batch divided by a divisor, the accumulation multiplied by it.
    Split,
}

impl Move {
    pub(super) const ALL: [Self; 9] = [
        Self::LossAlone,
        Self::OwnEval,
        Self::DropLogits,
        Self::FusedAdam,
        Self::FusedAttention,
        Self::Compile,
        Self::ChunkLoss,
        Self::Recompute,
        Self::Split,
    ];

    pub(super) fn effect(self) -> Effect {
        match self {
            Self::LossAlone | Self::OwnEval | Self::DropLogits => Effect::ChangesNothing,
            Self::FusedAdam | Self::FusedAttention | Self::Compile | Self::ChunkLoss => {
                Effect::SameMathematics
            }
            Self::Recompute => Effect::Recompute,
            Self::Split => Effect::MicroBatch,
        }
    }
}

/// A level of every move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MoveSet([usize; Move::ALL.len()]);

impl MoveSet {
    pub(super) fn level(&self, of: Move) -> usize {
        self.0[of as usize]
    }

    pub(super) fn with(mut self, of: Move, level: usize) -> Self {
        self.0[of as usize] = level;
        self
    }

    /// Whether `other` includes all of its moves.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(level, most)| level <= most)
    }

    pub(super) fn effect(&self) -> Effect {
        let made = Move::ALL.into_iter().filter(|m| self.level(*m) > 0);
        made.map(Move::effect).max().unwrap_or(Effect::ChangesNothing)
    }
}

/// The moves that are available for a request.
pub(super) struct AvailableMoves {
    most: MoveSet,
    is_torch: bool,
    /// Divisors of the micro-batch, smallest first.
    pub(super) splits: Vec<u32>,
    /// Rows of logits at each level of [`Move::ChunkLoss`], from level 1.
    pub(super) chunk_rows: Vec<u32>,
}

/// Fewer rows than this make matrix products slow and save next to nothing.
const FEWEST_CHUNK_ROWS: u64 = 64;

impl AvailableMoves {
    pub(super) fn new(request: &FitRequest<'_>) -> Self {
        let config = request.config;
        let job = Job::unadapted(config, request.vocab, request.engine.precision(), request.share);
        let rows = job.training.loss_chunk_rows; // the config's, or derived from the shapes
        let splits: Vec<u32> =
            divisors(config.batch_size().into()).into_iter().map(|d| d as u32).collect();
        let mut most = MoveSet::default().with(Move::Split, splits.len() - 1);
        let chunk_rows: Vec<u64> = match request.engine {
            Engine::Fitgpt { .. } => {
                // FitGPT always does the other moves.
                let recompute = match config.grad_checkpoint() {
                    GradCheckpoint::Off => 2,
                    GradCheckpoint::Auto | GradCheckpoint::Every => 0,
                };
                most = most.with(Move::Recompute, recompute);
                let halves = std::iter::successors(Some(rows / 2), |rows| Some(rows / 2));
                halves.take_while(|rows| *rows >= FEWEST_CHUNK_ROWS).take(3).collect()
            }
            Engine::Torch { kernels, .. } => {
                let is_checkpointed = config.grad_checkpoint() == GradCheckpoint::Every;
                let is_chunked = config.loss_chunk_rows() > 0;
                most = most
                    .with(Move::LossAlone, usize::from(!config.loss_alone() && !is_chunked))
                    .with(Move::OwnEval, usize::from(config.eval_batch_size() > 1))
                    .with(Move::DropLogits, usize::from(!config.drop_stale_logits() && !is_chunked))
                    .with(Move::FusedAdam, usize::from(!kernels.fused_adam))
                    .with(Move::FusedAttention, usize::from(!kernels.fused_attention))
                    .with(Move::Compile, usize::from(!config.compile() && kernels.has_triton))
                    .with(Move::Recompute, usize::from(!is_checkpointed));
                if is_chunked { Vec::new() } else { vec![rows] }
            }
        };
        let chunk_rows: Vec<u32> =
            chunk_rows.into_iter().filter_map(|rows| rows.try_into().ok()).collect();
        most = most.with(Move::ChunkLoss, chunk_rows.len());
        let is_torch = matches!(request.engine, Engine::Torch { .. });
        Self { most, is_torch, splits, chunk_rows }
    }

    pub(super) fn most(&self, of: Move) -> usize {
        self.most.level(of)
    }

    /// Every move that lowers the peak much. Compiling is left out because it may not be available,
    /// and smaller chunks of a loss that is chunked already because they save little.
    pub(super) fn strongest(&self) -> MoveSet {
        let mut moves = self.most.with(Move::Compile, 0);
        if self.is_torch && moves.level(Move::ChunkLoss) > 0 {
            // A chunked loss leaves none to return or to drop.
            moves = moves.with(Move::DropLogits, 0).with(Move::LossAlone, 0);
        } else {
            moves = moves.with(Move::ChunkLoss, 0);
        }
        moves.with(Move::Recompute, self.most(Move::Recompute).min(1))
    }

    pub(super) fn strongest_without_split(&self) -> MoveSet {
        self.strongest().with(Move::Split, 0)
    }

    /// Every combination of moves except [`Move::Split`], smaller ones first.
    pub(super) fn mixes(&self) -> Vec<MoveSet> {
        let mut mixes = vec![MoveSet::default()];
        for of in Move::ALL.into_iter().filter(|of| *of != Move::Split) {
            // Level 2 of recomputation never needs more memory than level 1.
            let most = if of == Move::Recompute { self.most(of).min(1) } else { self.most(of) };
            let before = std::mem::take(&mut mixes);
            for level in 0..=most {
                mixes.extend(before.iter().map(|moves| moves.with(of, level)));
            }
        }
        // Compiled code fuses the loss and keeps half logits, so these moves do not apply.
        let compiled = MoveSet::default().with(Move::Compile, 1);
        mixes.retain(|moves| moves.level(Move::Compile) == 0 || *moves == compiled);
        mixes.sort_by_key(|moves| moves.0.iter().sum::<usize>());
        mixes
    }
}
