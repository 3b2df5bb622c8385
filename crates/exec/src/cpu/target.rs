//! The CPU as a planning target: the scratch that its kernels need for each op.

use std::{cell::RefCell, collections::HashMap};

use fitgpt_program::{
    Op, Products, Program, ProgramKind,
    memory::{Limits, Target},
    units::{Bytes, DType, TensorId},
};

use super::{attention, cross_entropy, isa::Isa, linear, muon, norm, rotary, update};

/// A CPU as a planner sees it.
#[derive(Clone, Copy, Debug)]
pub struct CpuTarget {
    /// Threads that run kernels, including the caller's.
    pub threads: usize,
    /// Which instructions they use.
    pub isa: Isa,
    /// How bfloat16 activations are multiplied.
    pub products: Products,
    /// Alignment, and guards for tests.
    pub limits: Limits,
}

impl CpuTarget {
    /// A target for runs, with a host's limits, that multiplies factors as they are stored.
    pub fn new(threads: usize, isa: Isa) -> Self {
        let products = Products::default();
        Self { threads: threads.max(1), isa, products, limits: Limits::HOST }
    }

    /// The same target with another arithmetic of products.
    #[must_use]
    pub fn with_products(self, products: Products) -> Self {
        Self { products, ..self }
    }
}

impl Target for CpuTarget {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn scratch(&self, program: &Program, op: &Op) -> Bytes {
        let floats = Scratch { program, threads: self.threads, products: self.products }.floats(op);
        Bytes::of(floats as u64, DType::F32).expect("scratch is smaller than the op's tensors")
    }

    fn sampled_matrices(&self, activations: DType) -> DType {
        match (activations, self.products) {
            (DType::Bf16, Products::Bfloat16) => DType::Bf16,
            _ => DType::F32,
        }
    }
}

/// The scratch of a product; of a prompt, of any number of rows up to those of the shape.
///
/// A program has many layers but few shapes, and `fit` plans the same programs repeatedly, so
/// results are cached: computing them was a fifth of the time to plan 1,000 layers.
fn linear_scratch(key: ScratchKey) -> usize {
    thread_local! {
        static CACHE: RefCell<HashMap<ScratchKey, usize>> = RefCell::default();
    }
    CACHE.with_borrow_mut(|cache| {
        if cache.len() == MOST_CACHED {
            cache.clear();
        }
        *cache.entry(key).or_insert_with(|| {
            let ScratchKey { shape, product, products, threads, is_prompt } = key;
            let scratch = if is_prompt { linear::most_scratch } else { linear::scratch };
            scratch(shape, product, products, threads)
        })
    })
}

/// What determines the scratch of a product.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ScratchKey {
    shape: linear::LinearShape,
    product: linear::LinearProduct,
    products: Products,
    threads: usize,
    is_prompt: bool,
}

/// Limits the cache, because a server may run for weeks.
const MOST_CACHED: usize = 1 << 12;

struct Scratch<'a> {
    program: &'a Program,
    threads: usize,
    products: Products,
}

impl Scratch<'_> {
    fn floats(&self, op: &Op) -> usize {
        use linear::LinearProduct;
        let threads = self.threads;
        match *op {
            Op::Norm { x, weight, .. } | Op::NormAgain { x, weight, .. } => {
                norm::forward_scratch(self.dtype(x), self.columns(weight), threads)
            }
            Op::NormBackward { x, weight, .. } | Op::NormBackwardAdd { x, weight, .. } => {
                let columns = self.columns(weight);
                norm::backward_scratch(self.dtype(x), self.count(x) / columns, columns, threads)
            }
            Op::Rotary { x, table, .. } => {
                rotary::scratch(self.dtype(x), self.columns(table), threads)
            }
            Op::Linear { x, weight, .. }
            | Op::LinearGelu { x, weight, .. }
            | Op::LinearSwiGlu { x, weight, .. }
            | Op::LinearResidual { x, weight, .. } => {
                self.linear(x, weight, LinearProduct::Forward)
            }
            Op::LinearBackwardInput { d_out, weight, .. }
            | Op::LinearBackwardInputAdd { d_out, weight, .. }
            | Op::LinearBackwardSwiGlu { d_out, weight, .. }
            | Op::LinearBackwardGelu { d_out, weight, .. } => {
                self.linear(d_out, weight, LinearProduct::BackwardInput)
            }
            Op::LinearBackwardWeight { d_out, d_weight, .. } => {
                self.linear(d_out, d_weight, LinearProduct::BackwardWeight)
            }
            Op::Attention { out, heads, .. } => {
                let seq = self.program.get(out).shape[1] as usize;
                let products = self.products(self.dtype(out));
                attention::forward_scratch(seq, heads.channels as usize, products, threads)
            }
            Op::AttentionBackward { out, heads, .. } => {
                let seq = self.program.get(out).shape[1] as usize;
                let products = self.products(self.dtype(out));
                attention::backward_scratch(seq, heads.channels as usize, products, threads)
            }
            Op::CachedAttention { keys, heads, .. } => {
                let capacity = self.program.get(keys).shape[1] as usize;
                attention::cached_scratch(capacity, heads.channels as usize, threads)
            }
            Op::CrossEntropy { x, weight, logits, .. } => {
                let shape = self.loss(x, weight, logits);
                cross_entropy::forward_scratch(shape, self.products(self.dtype(x)), threads)
            }
            Op::CrossEntropyBackward { x, weight, logits, .. } => {
                let shape = self.loss(x, weight, logits);
                cross_entropy::backward_scratch(shape, self.products(self.dtype(x)), threads)
            }
            Op::GradientNorm { ref gradients, .. } => {
                let blocks = |id: &TensorId| update::norm_blocks(self.count(*id));
                2 * gradients.iter().map(blocks).sum::<usize>() // f64
            }
            Op::Muon { parameter, ref muon, .. } => {
                let (out, inputs) = (self.rows(parameter), self.columns(parameter));
                muon::scratch(muon::MatrixShape { out, inputs }, muon.dtype, threads)
            }
            Op::Embed { .. }
            | Op::Dropout { .. }
            | Op::EmbedBackward { .. }
            | Op::Update { .. }
            | Op::AdamW8bit { .. }
            | Op::StoreCache { .. }
            | Op::LastRow { .. }
            | Op::Named { .. } => 0,
        }
    }

    fn linear(&self, x: TensorId, weight: TensorId, product: linear::LinearProduct) -> usize {
        let shape = &self.program.get(weight).shape;
        let (outputs, inputs) = (shape[0] as usize, shape[1] as usize);
        let shape = linear::LinearShape { rows: self.rows(x), inputs, outputs };
        let is_prompt = self.program.kind() == ProgramKind::Prefill;
        let products = self.products(self.dtype(x));
        linear_scratch(ScratchKey { shape, product, products, threads: self.threads, is_prompt })
    }

    /// How activations of this type are multiplied.
    fn products(&self, activations: DType) -> Products {
        if activations == DType::Bf16 { self.products } else { Products::Float32 }
    }

    fn loss(&self, x: TensorId, weight: TensorId, logits: TensorId) -> cross_entropy::LossShape {
        cross_entropy::LossShape {
            rows: self.rows(x),
            channels: self.columns(x),
            vocab: self.rows(weight),
            chunk: self.rows(logits),
        }
    }

    fn dtype(&self, id: TensorId) -> DType {
        self.program.get(id).dtype
    }

    fn rows(&self, id: TensorId) -> usize {
        self.program.get(id).rows() as usize
    }

    fn columns(&self, id: TensorId) -> usize {
        self.program.get(id).columns() as usize
    }

    fn count(&self, id: TensorId) -> usize {
        self.program.get(id).count() as usize
    }
}
