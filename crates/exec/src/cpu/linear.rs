//! Linear layers: products fused with the ops that follow them.
//!
//! ```text
//! out (M, N) = x (M, K) · weight (N, K)ᵀ + bias
//! ```
//!
//! The products are in [`matmul`]. This file sets up their operands and dropout masks.

use fitgpt_program::{Gelu, Products};

use crate::cpu::{
    Machine,
    dropout::Masks,
    element::Element,
    matmul::{
        self, AddInto, AddResidual, AddStored, ColumnSums, Product, ResultDropout, RowSegment,
        Store, StoreGelu, StoreSwiGlu, TimesGeluSlope, TimesSwiGluSlopes, View,
    },
    parts::Grid,
};

/// The sizes of a layer: M rows, K input columns, N output columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LinearShape {
    pub(super) rows: usize,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// One of a layer's three products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LinearProduct {
    Forward,
    BackwardInput,
    BackwardWeight,
}

/// Floats of scratch.
pub(super) fn scratch(
    shape: LinearShape,
    part: LinearProduct,
    products: Products,
    threads: usize,
) -> usize {
    floats(product(shape, part).in_slots(products).scratch_bytes(threads))
}

/// Floats of scratch that are enough for up to `shape.rows` rows: fewer rows may need more.
pub(super) fn most_scratch(
    shape: LinearShape,
    part: LinearProduct,
    products: Products,
    threads: usize,
) -> usize {
    assert!(part != LinearProduct::BackwardWeight, "its rows are a depth, and prompts have none");
    floats(product(shape, part).in_slots(products).most_scratch_bytes(threads))
}

fn product(shape: LinearShape, part: LinearProduct) -> matmul::ProductShape {
    let LinearShape { rows, inputs, outputs } = shape;
    match part {
        LinearProduct::Forward => matmul::ProductShape { rows, columns: outputs, depth: inputs },
        LinearProduct::BackwardInput => {
            matmul::ProductShape { rows, columns: inputs, depth: outputs }
        }
        LinearProduct::BackwardWeight => {
            matmul::ProductShape { rows: outputs, columns: inputs, depth: rows }
        }
    }
}

fn floats(bytes: u64) -> usize {
    bytes.div_ceil(size_of::<f32>() as u64) as usize
}

/// Operands of every forward. Sampling may store the weights in bfloat16, as it only reads them.
pub(super) struct LinearForward<'a, E, W> {
    pub(super) shape: LinearShape,
    pub(super) x: &'a [E],
    pub(super) weight: &'a [W],
    pub(super) bias: Option<&'a [f32]>,
    pub(super) scratch: &'a mut [f32],
}

impl<'a, E: Element, W: Element> LinearForward<'a, E, W> {
    fn factors(&self) -> (View<'a, E>, View<'a, W>) {
        let LinearShape { rows, inputs, outputs } = self.shape;
        assert!(self.bias.is_none_or(|bias| bias.len() == outputs));
        (View::new(self.x, rows, inputs), View::new(self.weight, outputs, inputs).transposed())
    }
}

/// `out = x · weightᵀ + bias`
pub(super) fn forward<E: Element, W: Element, O: Element>(
    machine: &mut Machine,
    layer: LinearForward<'_, E, W>,
    out: &mut [O],
) {
    let (a, b) = layer.factors();
    let LinearForward { shape, bias, scratch, .. } = layer;
    let out = Grid::new(out, shape.outputs);
    let epilogue = Store { bias, scale: 1.0 };
    let products = machine.products::<E>();
    Product { a, b, out, epilogue, products, scratch }.run(machine.isa, &mut machine.pool);
}

/// `pre = x · weightᵀ + bias`, `out = gelu(pre)`
pub(super) fn forward_gelu<E: Element, W: Element>(
    machine: &mut Machine,
    layer: LinearForward<'_, E, W>,
    pre: Option<&mut [E]>,
    out: &mut [E],
    gelu: Gelu,
) {
    let (a, b) = layer.factors();
    let LinearForward { shape, bias, scratch, .. } = layer;
    let out = (pre.map(|pre| Grid::new(pre, shape.outputs)), Grid::new(out, shape.outputs));
    let epilogue = StoreGelu { bias, gelu };
    let products = machine.products::<E>();
    Product { a, b, out, epilogue, products, scratch }.run(machine.isa, &mut machine.pool);
}

/// `up = x · weightᵀ + bias`, `out = silu(gate) * up`
pub(super) fn forward_swiglu<E: Element, W: Element>(
    machine: &mut Machine,
    layer: LinearForward<'_, E, W>,
    gate: &[E],
    up: Option<&mut [E]>,
    out: &mut [E],
) {
    assert_eq!(gate.len(), out.len());
    let (a, b) = layer.factors();
    let LinearForward { shape, bias, scratch, .. } = layer;
    let columns = shape.outputs;
    let out = (up.map(|up| Grid::new(up, columns)), Grid::new(out, columns));
    let epilogue = StoreSwiGlu { bias, gate, columns };
    let products = machine.products::<E>();
    Product { a, b, out, epilogue, products, scratch }.run(machine.isa, &mut machine.pool);
}

/// `out = residual + drop(x · weightᵀ + bias)`
pub(super) fn forward_residual<E: Element, W: Element>(
    machine: &mut Machine,
    layer: LinearForward<'_, E, W>,
    residual: &[E],
    out: &mut [E],
    dropout: Option<Masks<'_>>,
) {
    assert_eq!(residual.len(), out.len());
    let (a, b) = layer.factors();
    let LinearForward { shape, bias, scratch, .. } = layer;
    let columns = shape.outputs;
    let out = Grid::new(out, columns);
    let epilogue = AddResidual { bias, residual, columns, dropout };
    let products = machine.products::<E>();
    Product { a, b, out, epilogue, products, scratch }.run(machine.isa, &mut machine.pool);
}

impl ResultDropout for Masks<'_> {
    #[inline(always)]
    fn apply(&self, at: &RowSegment, columns: usize, sums: &mut [f32]) {
        self.of_row(at.row, columns).apply(at.columns.start, sums);
    }
}

/// Operands of every backward to the input.
pub(super) struct LinearInputGradient<'a, E> {
    pub(super) shape: LinearShape,
    pub(super) d_out: &'a [E],
    pub(super) weight: &'a [f32],
    pub(super) scratch: &'a mut [f32],
}

impl<'a, E: Element> LinearInputGradient<'a, E> {
    fn factors(&self) -> (View<'a, E>, View<'a, f32>) {
        let LinearShape { rows, inputs, outputs } = self.shape;
        (View::new(self.d_out, rows, outputs), View::new(self.weight, outputs, inputs))
    }
}

/// `d_x = d_out · weight`
pub(super) fn backward_input<E: Element>(
    machine: &mut Machine,
    layer: LinearInputGradient<'_, E>,
    d_x: &mut [E],
) {
    let (a, b) = layer.factors();
    let LinearInputGradient { shape, scratch, .. } = layer;
    let out = Grid::new(d_x, shape.inputs);
    let epilogue = Store::default();
    let products = machine.products::<E>();
    Product { a, b, out, epilogue, products, scratch }.run(machine.isa, &mut machine.pool);
}

/// `d_x += d_out · weight`
pub(super) fn backward_input_add<E: Element>(
    machine: &mut Machine,
    layer: LinearInputGradient<'_, E>,
    d_x: &mut [E],
) {
    let (a, b) = layer.factors();
    let LinearInputGradient { shape, scratch, .. } = layer;
    let out = Grid::new(d_x, shape.inputs);
    let (epilogue, products) = (AddStored, machine.products::<E>());
    Product { a, b, out, epilogue, products, scratch }.run(machine.isa, &mut machine.pool);
}

/// Computes `out = silu(gate) * up`, then overwrites `gate` and `up` with their gradients.
pub(super) fn backward_swiglu<E: Element>(
    machine: &mut Machine,
    layer: LinearInputGradient<'_, E>,
    gate: &mut [E],
    up: &mut [E],
    out: &mut [E],
) {
    assert_eq!((gate.len(), up.len()), (out.len(), out.len()));
    let (a, b) = layer.factors();
    let LinearInputGradient { shape, scratch, .. } = layer;
    let columns = shape.inputs;
    let out = (Grid::new(gate, columns), Grid::new(up, columns), Grid::new(out, columns));
    let epilogue = TimesSwiGluSlopes;
    let products = machine.products::<E>();
    Product { a, b, out, epilogue, products, scratch }.run(machine.isa, &mut machine.pool);
}

/// `d_pre = (d_out · weight) * gelu'(pre)`, `pre = gelu(pre)`
pub(super) fn backward_gelu<E: Element>(
    machine: &mut Machine,
    layer: LinearInputGradient<'_, E>,
    pre: &mut [E],
    d_pre: &mut [E],
    gelu: Gelu,
) {
    assert_eq!(pre.len(), d_pre.len());
    let (a, b) = layer.factors();
    let LinearInputGradient { shape, scratch, .. } = layer;
    let columns = shape.inputs;
    let out = (Grid::new(pre, columns), Grid::new(d_pre, columns));
    let epilogue = TimesGeluSlope { gelu };
    let products = machine.products::<E>();
    Product { a, b, out, epilogue, products, scratch }.run(machine.isa, &mut machine.pool);
}

/// Operands of [`backward_weight`].
pub(super) struct LinearWeightGradient<'a, E> {
    pub(super) shape: LinearShape,
    pub(super) d_out: &'a [E],
    pub(super) x: &'a [E],
    pub(super) d_weight: &'a mut [f32],
    pub(super) d_bias: Option<&'a mut [f32]>,
    pub(super) scratch: &'a mut [f32],
}

/// `d_weight += d_outᵀ · x`, `d_bias += Σ d_out`
pub(super) fn backward_weight<E: Element>(
    machine: &mut Machine,
    args: LinearWeightGradient<'_, E>,
) {
    let LinearWeightGradient { shape, d_out, x, d_weight, d_bias, scratch } = args;
    let LinearShape { rows, inputs, outputs } = shape;
    Product {
        a: View::new(d_out, rows, outputs).transposed(),
        b: View::new(x, rows, inputs),
        out: Grid::new(d_weight, inputs),
        epilogue: AddInto::default(),
        products: machine.products::<E>(),
        scratch,
    }
    .run(machine.isa, &mut machine.pool);
    if let Some(out) = d_bias {
        assert_eq!(out.len(), outputs);
        ColumnSums { data: d_out, out }.run(machine.isa, &mut machine.pool);
    }
}
