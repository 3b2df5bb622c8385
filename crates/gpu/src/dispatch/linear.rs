//! Linear layers, alone and fused, and their gradients.
//!
//! Promise: the tiles of the tensor cores give the bits of the ordinary ones, except for the tensor
//! cores themselves. Test: this file.

use std::ops::Range;

use cubecl::{
    ir::ElemType,
    prelude::{BufferArg, CubeCount, CubeDim},
};
use fitgpt_program::{
    Op, Tensor,
    units::{DType, TensorId},
};

use super::{F32, OpLaunch, OptionalMask, elem_type, launch, misplaced, optional};
use crate::kernels::{
    linear::{self, CornerLaunch},
    product::{FactorLaunch, FactorLayout, ProductUnits, SIDE},
};

/// A factor or the result of a product, as a matrix in a bound buffer.
pub(super) struct BoundMatrix {
    pub(super) buffer: BufferArg,
    pub(super) stored: ElemType,
    /// Elements bound before its first one.
    pub(super) first: usize,
    /// Distance between rows in memory.
    pub(super) stride: usize,
}

/// The rows of the left factor, the rows of the right one, and the length of the sums.
#[derive(Clone, Copy)]
pub(super) struct Extents {
    pub(super) left: usize,
    pub(super) right: usize,
    pub(super) inner: usize,
}

/// Whether a product replaces the contents of its output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreMode {
    Assign,
    Add,
}

impl OpLaunch<'_> {
    #[expect(clippy::too_many_lines, reason = "a table: the launches of every op")]
    pub(super) fn linear(&self) {
        let (core, factors) = self.core();
        match *self.op {
            Op::Linear { x, weight, bias, out } => {
                let inner = self.columns(x);
                for rows in self.windows(self.used(x), &[self.row_bytes(x), self.row_bytes(out)]) {
                    for table in self.windows(self.rows(weight), &[self.row_bytes(weight), 4]) {
                        let left = self.matrix(x, &rows);
                        let right = self.matrix(weight, &table);
                        let mut product = self.matrix(out, &rows);
                        product.first += table.start;
                        let bias = bias.map(|bias| self.shares(bias, &table, self.columns(bias)));
                        let extents = Extents { left: rows.len(), right: table.len(), inner };
                        let layouts = (FactorLayout::InnerLast, FactorLayout::InnerLast);
                        self.multiply(
                            left,
                            right,
                            bias,
                            product,
                            extents,
                            layouts,
                            StoreMode::Assign,
                        );
                    }
                }
            }
            Op::LinearGelu { x, weight, bias, pre, out, gelu } => {
                for rows in self.windows(self.used(x), &[self.row_bytes(x), self.row_bytes(out)]) {
                    let extents = self.layer(weight, rows.len());
                    launch!(
                        self,
                        linear::activate,
                        tiles(extents, core),
                        square(),
                        self.rows_of(x, &rows),
                        self.whole(weight),
                        optional(bias.map(|bias| self.whole(bias))),
                        optional(pre.map(|pre| self.rows_of(pre, &rows))),
                        self.rows_of(out, &rows),
                        factor(0, extents.inner, extents.left),
                        factor(0, extents.inner, extents.right),
                        extents.inner,
                        gelu,
                        core,
                        self.stored(x),
                        factors,
                    );
                }
            }
            Op::LinearSwiGlu { x, weight, bias, gate, up, out } => {
                for rows in self.windows(self.used(x), &[self.row_bytes(x), self.row_bytes(out)]) {
                    let extents = self.layer(weight, rows.len());
                    launch!(
                        self,
                        linear::gated,
                        tiles(extents, core),
                        square(),
                        self.rows_of(x, &rows),
                        self.whole(weight),
                        optional(bias.map(|bias| self.whole(bias))),
                        self.rows_of(gate, &rows),
                        optional(up.map(|up| self.rows_of(up, &rows))),
                        self.rows_of(out, &rows),
                        factor(0, extents.inner, extents.left),
                        factor(0, extents.inner, extents.right),
                        extents.inner,
                        core,
                        self.stored(x),
                        factors,
                    );
                }
            }
            Op::LinearResidual { x, weight, bias, residual, out, ref dropout } => {
                let keys = dropout.as_ref().map(|dropout| self.keys(dropout, out));
                for rows in self.windows(self.used(x), &[self.row_bytes(x), self.row_bytes(out)]) {
                    let extents = self.layer(weight, rows.len());
                    launch!(
                        self,
                        linear::onto_residual,
                        tiles(extents, core),
                        square(),
                        self.rows_of(x, &rows),
                        self.whole(weight),
                        optional(bias.map(|bias| self.whole(bias))),
                        self.rows_of(residual, &rows),
                        self.rows_of(out, &rows),
                        OptionalMask::from(keys.as_ref().map(|keys| keys())),
                        factor(0, extents.inner, extents.left),
                        factor(0, extents.inner, extents.right),
                        extents.inner,
                        rows.start,
                        self.seq(out),
                        core,
                        self.stored(x),
                        factors,
                    );
                }
            }
            Op::LinearBackwardInput { d_out, weight, d_x }
            | Op::LinearBackwardInputAdd { d_out, weight, d_x } => {
                let adds = matches!(self.op, Op::LinearBackwardInputAdd { .. });
                let units = [self.row_bytes(d_out), self.row_bytes(d_x)];
                for rows in self.windows(self.rows(d_out), &units) {
                    let (inner, right) = (self.rows(weight), self.columns(weight));
                    self.multiply(
                        self.matrix(d_out, &rows),
                        self.matrix(weight, &(0..inner)),
                        None,
                        self.matrix(d_x, &rows),
                        Extents { left: rows.len(), right, inner },
                        (FactorLayout::InnerLast, FactorLayout::InnerFirst),
                        if adds { StoreMode::Add } else { StoreMode::Assign },
                    );
                }
            }
            Op::LinearBackwardGelu { d_out, weight, pre, d_pre, gelu } => {
                let units = [self.row_bytes(d_out), self.row_bytes(d_pre)];
                for rows in self.windows(self.rows(d_out), &units) {
                    let (inner, right) = (self.rows(weight), self.columns(weight));
                    let extents = Extents { left: rows.len(), right, inner };
                    launch!(
                        self,
                        linear::through_gelu,
                        tiles(extents, core),
                        square(),
                        self.rows_of(d_out, &rows),
                        self.whole(weight),
                        self.rows_of(pre, &rows),
                        self.rows_of(d_pre, &rows),
                        factor(0, inner, extents.left),
                        factor(0, right, right),
                        inner,
                        gelu,
                        core,
                        self.stored(d_out),
                        factors,
                    );
                }
            }
            Op::LinearBackwardSwiGlu { d_out, weight, gate, up, out } => {
                let units = [self.row_bytes(d_out), self.row_bytes(out)];
                for rows in self.windows(self.rows(d_out), &units) {
                    let (inner, right) = (self.rows(weight), self.columns(weight));
                    let extents = Extents { left: rows.len(), right, inner };
                    launch!(
                        self,
                        linear::through_swiglu,
                        tiles(extents, core),
                        square(),
                        self.rows_of(d_out, &rows),
                        self.whole(weight),
                        self.rows_of(gate, &rows),
                        self.rows_of(up, &rows),
                        self.rows_of(out, &rows),
                        factor(0, inner, extents.left),
                        factor(0, right, right),
                        inner,
                        core,
                        self.stored(d_out),
                        factors,
                    );
                }
            }
            Op::LinearBackwardWeight { d_out, x, d_weight, d_bias } => {
                let units = [self.row_bytes(d_out), self.row_bytes(x)];
                for rows in self.windows(self.rows(x), &units) {
                    self.add_weight_gradient((d_out, &rows), (x, &rows), d_weight);
                }
                if let Some(d_bias) = d_bias {
                    self.add_column_sums(d_out, d_bias);
                }
            }
            _ => misplaced(self.op),
        }
    }

    /// `d_weight += d_outᵀ · x` over some rows of each.
    pub(super) fn add_weight_gradient(
        &self,
        (d_out, d_rows): (TensorId, &Range<usize>),
        (x, rows): (TensorId, &Range<usize>),
        d_weight: TensorId,
    ) {
        for table in self.windows(self.rows(d_weight), &[self.row_bytes(d_weight)]) {
            let mut left = self.matrix(d_out, d_rows);
            left.first += table.start;
            self.multiply(
                left,
                self.matrix(x, rows),
                None,
                self.matrix(d_weight, &table),
                Extents { left: table.len(), right: self.columns(x), inner: rows.len() },
                (FactorLayout::InnerFirst, FactorLayout::InnerFirst),
                StoreMode::Add,
            );
        }
    }

    /// Rows of a tensor, aligned or not.
    pub(super) fn matrix(&self, id: TensorId, rows: &Range<usize>) -> BoundMatrix {
        let (buffer, first) = self.part(id, rows, self.rows(id));
        BoundMatrix { buffer, stored: self.stored(id), first, stride: self.columns(id) }
    }

    #[expect(clippy::too_many_arguments, reason = "two factors, an output and sizes")]
    pub(super) fn multiply(
        &self,
        left: BoundMatrix,
        right: BoundMatrix,
        bias: Option<BufferArg>,
        product: BoundMatrix,
        extents: Extents,
        layouts: (FactorLayout, FactorLayout),
        to: StoreMode,
    ) {
        let (core, factors) = self.core();
        launch!(
            self,
            linear::multiply,
            tiles(extents, core),
            square(),
            left.buffer,
            right.buffer,
            optional(bias),
            product.buffer,
            factor(left.first, left.stride, extents.left),
            factor(right.first, right.stride, extents.right),
            extents.inner,
            CornerLaunch::new(product.first, product.stride),
            layouts,
            to == StoreMode::Add,
            core,
            left.stored,
            right.stored,
            product.stored,
            factors,
        );
    }

    /// The units that multiply, and the type of both factors: tensor cores if the device has
    /// them and activations have 16 bits, else ordinary units in float32. Depends on the device
    /// and the program, never on a shape, so that recomputing and splitting use the same units.
    fn core(&self) -> (ProductUnits, ElemType) {
        let is_half = |tensor: &&Tensor| matches!(tensor.dtype, DType::F16 | DType::Bf16);
        match (self.properties().core, self.listing.tensors().iter().find(is_half)) {
            (ProductUnits::Tensor, Some(tensor)) => (ProductUnits::Tensor, elem_type(tensor.dtype)),
            (ProductUnits::Tensor, None) => (ProductUnits::Units, F32),
            (core @ (ProductUnits::Units | ProductUnits::Imitated), _) => (core, F32),
        }
    }

    /// The extents of `rows` rows times a weight (outputs, inputs).
    fn layer(&self, weight: TensorId, rows: usize) -> Extents {
        Extents { left: rows, right: self.rows(weight), inner: self.columns(weight) }
    }
}

/// A matrix of 4-byte floats in scratch.
pub(super) fn floats(buffer: BufferArg, stride: usize) -> BoundMatrix {
    BoundMatrix { buffer, stored: F32, first: 0, stride }
}

fn factor(first: usize, stride: usize, outer: usize) -> FactorLaunch {
    FactorLaunch::new(first, stride, outer)
}

fn tiles(extents: Extents, core: ProductUnits) -> CubeCount {
    let tile = core.tile();
    let (x, y) = (extents.right.div_ceil(tile), extents.left.div_ceil(tile));
    CubeCount::Static(x as u32, y as u32, 1)
}

fn square() -> CubeDim {
    CubeDim::new_2d(SIDE, SIDE)
}

#[cfg(test)]
mod tests {
    use fitgpt_config::{Precision, Written};
    use fitgpt_exec::{Arguments, Backend, Watch};
    use fitgpt_model::job::{self, Job};
    use fitgpt_program::{Life, Names, TensorClass, units::Bytes};

    use super::*;
    use crate::{AdapterKind, Gpu, GpuDevice, GpuProperties, GpuTarget, adapters};

    /// The keys that differ between families.
    const FAMILIES: [&[(&str, &str)]; 2] = [
        &[("bias", "True")],
        &[("family", "llama"), ("n_kv_head", "1"), ("ffn_dim", "200"), ("mlp_bias", "True")],
    ];

    /// The loss and every gradient of one micro-batch, of a model whose matrices end inside
    /// tiles.
    fn trained(device: &GpuDevice, family: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
        let mut written = Written::new();
        let sizes = [
            ("n_layer", "1"),
            ("n_head", "2"),
            ("n_embd", "72"), // 216 columns of `qkv`, 288 of the MLP
            ("block_size", "45"),
            ("batch_size", "3"), // 135 rows
            ("vocab_size", "131"),
            ("dropout", "0.1"),
        ];
        for (key, value) in sizes.iter().chain(family) {
            written.set(key, value).unwrap();
        }
        let config = written.resolve().unwrap();
        let target = GpuTarget::new(device.properties());
        let budget = Bytes::new(1 << 30);
        let job = Job::new(&config, 131, Precision::Float32, &target, budget);
        let programs = job.training_programs(Names::Kept);
        let train = programs.handles().train.program;
        let plan = job::plan(programs, &target).unwrap();
        let program = plan.program(train).clone();
        let mut gpu = Gpu::new(device.clone(), plan, Watch::Off, Bytes::ZERO).unwrap();
        for (id, tensor) in (0..).map(TensorId).zip(program.tensors()) {
            let mix = |i: u64| (i * 2_654_435_761 + u64::from(id.0) * 97) % 1009;
            let words: Vec<u32> = match (tensor.class, tensor.life) {
                (TensorClass::Parameter, _) => {
                    let value = |i| ((mix(i) as f32 - 504.0) / 5040.0).to_bits();
                    (0..tensor.count()).map(value).collect()
                }
                (TensorClass::Input, Life::Input) => {
                    (0..tensor.count()).map(|i| (mix(i) % 131) as u32).collect()
                }
                _ => continue,
            };
            gpu.write(train, id, Bytes::ZERO, bytemuck::cast_slice(&words)).unwrap();
        }
        gpu.run(train, &Arguments::default()).unwrap();
        let kept = |tensor: &Tensor| {
            tensor.class == TensorClass::Gradient && tensor.life == Life::Always
                || tensor.life == Life::Output
        };
        let tensors = (0..).map(TensorId).zip(program.tensors());
        let kept = tensors.filter(|(_, tensor)| kept(tensor));
        kept.map(|(id, tensor)| {
            let mut bytes = vec![0; tensor.bytes().index()];
            gpu.read(train, id, Bytes::ZERO, &mut bytes).unwrap();
            (tensor.name.clone(), bytes)
        })
        .collect()
    }

    /// Tests the code around the tensor cores without the tensor cores: the same sums in the same
    /// order give the same bits.
    #[test]
    fn the_tiles_of_the_tensor_cores_give_the_bits_of_the_ordinary_ones() {
        let adapter = adapters().into_iter().find(|adapter| adapter.kind == AdapterKind::Software);
        let adapter = adapter.expect("a software Vulkan driver (Debian: mesa-vulkan-drivers)");
        let device = GpuDevice::open(&adapter).unwrap();
        let imitating =
            device.as_if(GpuProperties { core: ProductUnits::Imitated, ..device.properties() });
        for family in FAMILIES {
            let (expected, found) = (trained(&device, family), trained(&imitating, family));
            assert!(expected.len() > 10, "too few tensors for a layer's gradients");
            for ((name, expected), (_, found)) in expected.iter().zip(&found) {
                assert!(expected.iter().any(|byte| *byte != 0), "`{name}` is all zeros");
                assert!(expected == found, "`{name}` has different bits");
            }
        }
    }
}
