//! The product of two matrices.
//!
//! A cube of 256 units computes a tile of the product; tiles of both factors are loaded into shared
//! memory. With the ordinary units a tile is 64 × 64, each unit has 4 × 4 numbers in registers, and
//! factors are float32. With tensor cores it is 128 × 128: eight planes of 32 units compute 32 × 64
//! each, in fragments of 16 × 16, from factors in the activations' 16-bit type, with sums in
//! float32.
//!
//! Every number is one chain of additions over the inner axis, first to last, so its bits do not
//! depend on the other rows or their number.
//!
//! Tensor cores are used if a device has them in the shape that the kernel is written for
//! (fragments of 16 × 16 × 16, planes of 32, float16 and bfloat16 with sums in float32) and
//! activations have 16 bits: tiles of 128 × 128, with the next ones loaded meanwhile. Weights and
//! the gradient of logits are rounded to the 16-bit type as they enter shared memory, as PyTorch's
//! autocast does. Otherwise, and always in float32, the ordinary units multiply in float32; TF32 is
//! never used. The choice depends on the device and the program, never on a shape. WGSL has no
//! tensor cores; they need CUDA (feature `cuda`, which then runs NVIDIA cards).
//!
//! NVIDIA's cuBLASLt is not used. The simulated card executes CUDA C++ and could not execute it, so
//! nothing that it computes could be checked without a card; its workspace and its choice of
//! algorithm vary between versions, and plans and equal bits depend on both.
//!
//! `cubek-matmul` was considered and not used. Its launches assign a product. Two of three products
//! here add to their output, or continue with a bias, the activation, the residual stream or a
//! slope; with it, each would need the product in float32 as a temporary and a second pass. It also
//! copies operands of unsuitable layout into pool memory that no plan includes.

use cubecl::{
    cmma,
    ir::{DeviceProperties, ElemType, FloatKind},
    prelude::*,
};

/// Units along each side of a cube.
pub(crate) const SIDE: u32 = 16;
/// Numbers of a unit along each side.
const PER: usize = 4;
/// Rows and columns of a tile of the ordinary units.
const TILE: usize = SIDE as usize * PER;
/// Columns of the factors that are in shared memory at a time.
const DEPTH: usize = 16;
/// One more than a tile, so that units that read a column use different banks.
const PITCH: usize = TILE + 1;

/// Units of a plane on devices with tensor cores.
const PLANE: usize = 32;
/// Rows and columns of a fragment.
const FRAGMENT: usize = 16;
/// Fragments of a plane along the rows and along the columns.
const ROWS: usize = 2;
const COLUMNS: usize = 4;
/// Planes of a cube next to each other; there are four such rows.
const ABREAST: usize = 2;
/// Rows and columns of a tile of the tensor cores.
const BLOCK: usize = COLUMNS * FRAGMENT * ABREAST;
/// Padding after each row in shared memory, to use different banks; fragments are aligned to 32
/// bytes.
const GAP: usize = 8;
/// Numbers of a unit in one fragment.
const SHARE: usize = FRAGMENT * FRAGMENT / PLANE;

/// The units that multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ProductUnits {
    /// Each unit separately, in float32.
    Units,
    /// Tensor cores, one plane at a time.
    Tensor,
    /// The tiles of `Tensor`, computed by each unit separately, so that tests without tensor
    /// cores cover everything but the product of two fragments.
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests"))]
    Imitated,
}

impl ProductUnits {
    /// The units of a device for 16-bit types: tensor cores if they support both types, in the
    /// fragments and planes that the kernels are written for, with sums in float32.
    pub(crate) fn of(device: &DeviceProperties) -> Self {
        let side = FRAGMENT as u32;
        let takes = |kind: FloatKind| {
            device.features.matmul.cmma.iter().any(|c| {
                (c.m, c.n, c.k) == (side, side, side)
                    && [c.a_type, c.b_type] == [ElemType::Float(kind); 2]
                    && c.cd_type == ElemType::Float(FloatKind::F32)
            })
        };
        let plane = PLANE as u32;
        let planes = (device.hardware.plane_size_min, device.hardware.plane_size_max);
        let has_all = planes == (plane, plane) && takes(FloatKind::F16) && takes(FloatKind::BF16);
        if has_all { Self::Tensor } else { Self::Units }
    }

    /// Rows and columns of a tile.
    pub(crate) const fn tile(self) -> usize {
        match self {
            Self::Units => TILE,
            Self::Tensor | Self::Imitated => BLOCK,
        }
    }

    /// Columns of a plane's factors that are in shared memory at a time. An imitation has them in
    /// float32.
    const fn depth(self) -> usize {
        match self {
            Self::Units | Self::Imitated => FRAGMENT,
            Self::Tensor => 2 * FRAGMENT,
        }
    }

    /// Distance between rows of a tile of planes: the last axis in memory is the last axis of the
    /// tile.
    const fn pitch(self, layout: FactorLayout) -> usize {
        match layout {
            FactorLayout::InnerLast => self.depth() + GAP,
            FactorLayout::InnerFirst => BLOCK + GAP,
        }
    }

    const fn tile_length(self, layout: FactorLayout) -> usize {
        match layout {
            FactorLayout::InnerLast => BLOCK * self.pitch(layout),
            FactorLayout::InnerFirst => self.depth() * self.pitch(layout),
        }
    }

    /// Elements of each factor's tile that a unit loads.
    const fn fetched(self) -> usize {
        BLOCK * self.depth() / (SIDE * SIDE) as usize
    }

    /// Results of a unit.
    const fn numbers(self) -> usize {
        self.tile() * self.tile() / (SIDE * SIDE) as usize
    }

    /// Parts in which a unit gets its results: fragments, or one at a time.
    pub(crate) const fn parts(self) -> usize {
        self.numbers() / self.share()
    }

    /// Results in a part.
    pub(crate) const fn share(self) -> usize {
        match self {
            Self::Tensor => SHARE,
            Self::Units | Self::Imitated => 1,
        }
    }

    /// Floats of shared memory that fragments are copied through; at least one, because the length
    /// must not be zero.
    const fn passing(self) -> usize {
        match self {
            Self::Tensor => FRAGMENT * FRAGMENT * (SIDE * SIDE) as usize / PLANE,
            Self::Units | Self::Imitated => 1,
        }
    }
}

/// The memory layout of a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FactorLayout {
    /// The inner axis is the last: rows of x, rows of a weight.
    InnerLast,
    /// The inner axis is the first.
    InnerFirst,
}

/// `outer × inner` numbers of a factor, from element `first` on, with rows `stride` elements apart.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Factor {
    pub(crate) first: usize,
    pub(crate) stride: usize,
    pub(crate) outer: usize,
}

/// The element of a factor at (`row`, `column`); zero outside the factor.
#[cube]
fn element<F: Float, H: Float>(
    from: &[F],
    factor: &Factor,
    row: usize,
    column: usize,
    inners: usize,
    #[comptime] layout: FactorLayout,
) -> H {
    let mut value = H::cast_from(0.0f32);
    if row < factor.outer && column < inners {
        let at = if comptime!(layout == FactorLayout::InnerLast) {
            row * factor.stride + column
        } else {
            column * factor.stride + row
        };
        value = H::cast_from(from[factor.first + at]);
    }
    value
}

/// Loads a tile of a factor, transposed: a column of the factor is a row of `tile`.
#[cube]
fn load<F: Float>(
    tile: &mut Shared<[f32]>,
    from: &[F],
    factor: &Factor,
    outer: usize,
    inner: usize,
    inners: usize,
    #[comptime] layout: FactorLayout,
) {
    let unit = UNIT_POS as usize;
    let units = comptime!((SIDE * SIDE) as usize);
    #[unroll]
    for part in 0..comptime!(TILE * DEPTH / units) {
        let i = unit + part * units;
        let (o, k) = if comptime!(layout == FactorLayout::InnerLast) {
            (i / DEPTH, i % DEPTH)
        } else {
            (i % TILE, i / TILE)
        };
        tile[k * PITCH + o] = element::<F, f32>(from, factor, outer + o, inner + k, inners, layout);
    }
}

/// The position of this unit's element `part` of a tile of planes: (outer, inner).
#[cube]
fn own(
    #[comptime] part: usize,
    #[comptime] layout: FactorLayout,
    #[comptime] core: ProductUnits,
) -> (usize, usize) {
    let i = UNIT_POS as usize + comptime!(part * (SIDE * SIDE) as usize);
    let depth = comptime!(core.depth());
    // Neighbouring units read neighbouring elements.
    if comptime!(layout == FactorLayout::InnerLast) {
        (i / depth, i % depth)
    } else {
        (i % BLOCK, i / BLOCK)
    }
}

/// Loads this unit's elements of a tile, in the type of the tensor cores.
#[cube]
fn fetch<F: Float, H: Float>(
    own_elements: &mut Array<H>,
    from: &[F],
    factor: &Factor,
    outer: usize,
    inner: usize,
    inners: usize,
    #[comptime] layout: FactorLayout,
    #[comptime] core: ProductUnits,
) {
    #[unroll]
    for part in 0..comptime!(core.fetched()) {
        let (o, k) = own(part, layout, core);
        own_elements[part] = element::<F, H>(from, factor, outer + o, inner + k, inners, layout);
    }
}

/// Stores them in shared memory.
#[cube]
fn put<H: Float>(
    tile: &mut Shared<[H]>,
    own_elements: &Array<H>,
    #[comptime] layout: FactorLayout,
    #[comptime] core: ProductUnits,
) {
    #[unroll]
    for part in 0..comptime!(core.fetched()) {
        let (o, k) = own(part, layout, core);
        tile[place(o, k, layout, core)] = own_elements[part];
    }
}

/// The index of (`outer`, `inner`) in a tile of the tensor cores.
#[cube]
fn place(
    outer: usize,
    inner: usize,
    #[comptime] layout: FactorLayout,
    #[comptime] core: ProductUnits,
) -> usize {
    let pitch = comptime!(core.pitch(layout));
    if comptime!(layout == FactorLayout::InnerLast) {
        outer * pitch + inner
    } else {
        inner * pitch + outer
    }
}

/// This unit's results of a product.
#[derive(CubeType)]
pub(crate) struct ProductValues {
    /// With ordinary units.
    numbers: Array<f32>,
    /// With tensor cores. The layout of a fragment in registers is unspecified, so each is copied
    /// through shared memory.
    fragments: Sequence<cmma::Matrix<f32>>,
    passing: Shared<[f32]>,
}

/// Makes a part of this unit's results available to [`number`].
#[cube]
pub(crate) fn pass(
    made: &mut ProductValues,
    #[comptime] part: usize,
    #[comptime] core: ProductUnits,
) {
    if comptime!(core == ProductUnits::Tensor) {
        let size = comptime!(FRAGMENT * FRAGMENT);
        let start = UNIT_POS as usize / PLANE * size;
        sync_plane();
        cmma::store(
            &mut made.passing[start..start + size],
            made.fragments.index(part),
            comptime!(FRAGMENT as u32),
            cmma::MatrixLayout::RowMajor,
        );
        sync_plane();
    }
}

/// Result `e` of a part; its position is [`row_of`], [`column_of`].
#[cube]
pub(crate) fn number(
    made: &ProductValues,
    #[comptime] part: usize,
    e: usize,
    #[comptime] core: ProductUnits,
) -> f32 {
    if comptime!(core == ProductUnits::Tensor) {
        let (plane, lane) = (UNIT_POS as usize / PLANE, UNIT_POS as usize % PLANE);
        made.passing[plane * comptime!(FRAGMENT * FRAGMENT) + e * PLANE + lane]
    } else {
        made.numbers[part]
    }
}

/// `a · b`
#[cube]
pub(crate) fn product<A: Float, B: Float, H: Float>(
    a: &[A],
    b: &[B],
    of_a: &Factor,
    of_b: &Factor,
    inners: usize,
    #[comptime] layout_a: FactorLayout,
    #[comptime] layout_b: FactorLayout,
    #[comptime] core: ProductUnits,
) -> ProductValues {
    let mut fragments = Sequence::<cmma::Matrix<f32>>::new();
    let passing = Shared::<[f32]>::new_aligned_slice(comptime!(core.passing()), 32usize);
    let numbers = if comptime!(core == ProductUnits::Units) {
        by_units::<A, B>(a, b, of_a, of_b, inners, layout_a, layout_b)
    } else {
        by_planes::<A, B, H>(a, b, of_a, of_b, inners, &mut fragments, layout_a, layout_b, core)
    };
    ProductValues { numbers, fragments, passing }
}

#[cube]
fn by_units<A: Float, B: Float>(
    a: &[A],
    b: &[B],
    of_a: &Factor,
    of_b: &Factor,
    inners: usize,
    #[comptime] layout_a: FactorLayout,
    #[comptime] layout_b: FactorLayout,
) -> Array<f32> {
    let mut tile_a = Shared::<[f32]>::new_slice(DEPTH * PITCH);
    let mut tile_b = Shared::<[f32]>::new_slice(DEPTH * PITCH);
    let (row, column) = (CUBE_POS_Y as usize * TILE, CUBE_POS_X as usize * TILE);
    let (y, x) = (UNIT_POS_Y as usize, UNIT_POS_X as usize);
    let side = comptime!(SIDE as usize);
    let mut sums = Array::<f32>::new(PER * PER);
    #[unroll]
    for i in 0..PER * PER {
        sums[i] = 0.0;
    }
    let mut left = Array::<f32>::new(PER);
    let mut right = Array::<f32>::new(PER);
    let mut inner = 0usize;
    while inner < inners {
        load::<A>(&mut tile_a, a, of_a, row, inner, inners, layout_a);
        load::<B>(&mut tile_b, b, of_b, column, inner, inners, layout_b);
        sync_cube();
        for k in 0..DEPTH {
            #[unroll]
            for i in 0..PER {
                left[i] = tile_a[k * PITCH + y + i * side];
                right[i] = tile_b[k * PITCH + x + i * side];
            }
            #[unroll]
            for i in 0..PER {
                #[unroll]
                for j in 0..PER {
                    sums[i * PER + j] = fma(left[i], right[j], sums[i * PER + j]);
                }
            }
        }
        sync_cube();
        inner += DEPTH;
    }
    sums
}

#[cube]
fn by_planes<A: Float, B: Float, H: Float>(
    a: &[A],
    b: &[B],
    of_a: &Factor,
    of_b: &Factor,
    inners: usize,
    sums: &mut Sequence<cmma::Matrix<f32>>,
    #[comptime] layout_a: FactorLayout,
    #[comptime] layout_b: FactorLayout,
    #[comptime] core: ProductUnits,
) -> Array<f32> {
    // Tensor cores need an alignment of 32 bytes.
    let mut tile_a =
        Shared::<[H]>::new_aligned_slice(comptime!(core.tile_length(layout_a)), 32usize);
    let mut tile_b =
        Shared::<[H]>::new_aligned_slice(comptime!(core.tile_length(layout_b)), 32usize);
    let (row, column) = (CUBE_POS_Y as usize * BLOCK, CUBE_POS_X as usize * BLOCK);
    let mut numbers = Array::<f32>::new(comptime!(core.numbers()));
    if comptime!(core == ProductUnits::Tensor) {
        #[unroll]
        for _ in 0..ROWS * COLUMNS {
            sums.push(cmma::Matrix::<f32>::from_value(
                cmma::MatrixIdent::Accumulator,
                FRAGMENT,
                FRAGMENT,
                FRAGMENT,
                cmma::MatrixLayout::Undefined,
                0.0,
            ));
        }
    } else {
        #[unroll]
        for n in 0..comptime!(core.numbers()) {
            numbers[n] = 0.0;
        }
    }
    let mut own_a = Array::<H>::new(comptime!(core.fetched()));
    let mut own_b = Array::<H>::new(comptime!(core.fetched()));
    let mut inner = 0usize;
    fetch::<A, H>(&mut own_a, a, of_a, row, inner, inners, layout_a, core);
    fetch::<B, H>(&mut own_b, b, of_b, column, inner, inners, layout_b, core);
    while inner < inners {
        put::<H>(&mut tile_a, &own_a, layout_a, core);
        put::<H>(&mut tile_b, &own_b, layout_b, core);
        sync_cube();
        // The next tiles are loaded while these are multiplied; after the last there are zeros.
        inner += comptime!(core.depth());
        fetch::<A, H>(&mut own_a, a, of_a, row, inner, inners, layout_a, core);
        fetch::<B, H>(&mut own_b, b, of_b, column, inner, inners, layout_b, core);
        if comptime!(core == ProductUnits::Tensor) {
            multiply_fragments::<H>(sums, &tile_a, &tile_b, layout_a, layout_b, core);
        } else {
            imitate::<H>(&mut numbers, &tile_a, &tile_b, layout_a, layout_b, core);
        }
        sync_cube();
    }
    numbers
}

/// Adds the products of this plane's fragments.
#[cube]
fn multiply_fragments<H: Float>(
    sums: &mut Sequence<cmma::Matrix<f32>>,
    tile_a: &Shared<[H]>,
    tile_b: &Shared<[H]>,
    #[comptime] layout_a: FactorLayout,
    #[comptime] layout_b: FactorLayout,
    #[comptime] core: ProductUnits,
) {
    let (row, column) = (plane_row(), plane_column());
    #[unroll]
    for step in 0..comptime!(core.depth() / FRAGMENT) {
        let mut left = Sequence::<cmma::Matrix<H>>::new();
        #[unroll]
        for i in 0..ROWS {
            let at = place(row + i * FRAGMENT, step * FRAGMENT, layout_a, core);
            left.push(cmma::Matrix::<H>::from_slice(
                cmma::MatrixIdent::A,
                FRAGMENT,
                FRAGMENT,
                FRAGMENT,
                comptime!(rows_of(layout_a)),
                &tile_a[at..comptime!(core.tile_length(layout_a))],
                comptime!(core.pitch(layout_a) as u32),
            ));
        }
        #[unroll]
        for j in 0..COLUMNS {
            let at = place(column + j * FRAGMENT, step * FRAGMENT, layout_b, core);
            let right = cmma::Matrix::<H>::from_slice(
                cmma::MatrixIdent::B,
                FRAGMENT,
                FRAGMENT,
                FRAGMENT,
                comptime!(columns_of(layout_b)),
                &tile_b[at..comptime!(core.tile_length(layout_b))],
                comptime!(core.pitch(layout_b) as u32),
            );
            #[unroll]
            for i in 0..ROWS {
                let sum = sums.index(comptime!(i * COLUMNS + j));
                cmma::execute(left.index(i), &right, sum, sum);
            }
        }
    }
}

/// Adds the products of the fragments to this unit's results, without tensor cores.
#[cube]
fn imitate<H: Float>(
    numbers: &mut Array<f32>,
    tile_a: &Shared<[H]>,
    tile_b: &Shared<[H]>,
    #[comptime] layout_a: FactorLayout,
    #[comptime] layout_b: FactorLayout,
    #[comptime] core: ProductUnits,
) {
    let (row, column) = (CUBE_POS_Y as usize * BLOCK, CUBE_POS_X as usize * BLOCK);
    for k in 0..comptime!(core.depth()) {
        #[unroll]
        for n in 0..comptime!(core.numbers()) {
            let r = row_of(n, 0usize.runtime(), core) - row;
            let c = column_of(n, core) - column;
            let left = f32::cast_from(tile_a[place(r, k, layout_a, core)]);
            let right = f32::cast_from(tile_b[place(c, k, layout_b, core)]);
            numbers[n] = fma(left, right, numbers[n]);
        }
    }
}

/// The layout of the left factor, whose rows are rows of the product.
const fn rows_of(layout: FactorLayout) -> cmma::MatrixLayout {
    match layout {
        FactorLayout::InnerLast => cmma::MatrixLayout::RowMajor,
        FactorLayout::InnerFirst => cmma::MatrixLayout::ColMajor,
    }
}

const fn columns_of(layout: FactorLayout) -> cmma::MatrixLayout {
    match layout {
        FactorLayout::InnerLast => cmma::MatrixLayout::ColMajor,
        FactorLayout::InnerFirst => cmma::MatrixLayout::RowMajor,
    }
}

/// The first row of this plane's fragments in the tile.
#[cube]
fn plane_row() -> usize {
    UNIT_POS as usize / PLANE / ABREAST * comptime!(ROWS * FRAGMENT)
}

#[cube]
fn plane_column() -> usize {
    UNIT_POS as usize / PLANE % ABREAST * comptime!(COLUMNS * FRAGMENT)
}

/// The row of the product of result `e` of a part.
#[cube]
pub(crate) fn row_of(#[comptime] part: usize, e: usize, #[comptime] core: ProductUnits) -> usize {
    let first = CUBE_POS_Y as usize * comptime!(core.tile());
    if comptime!(core == ProductUnits::Units) {
        first + UNIT_POS_Y as usize + comptime!(part / PER * SIDE as usize)
    } else {
        // Fragments row by row, and in each fragment the plane's units row by row.
        let fragment = comptime!(fragment(part, core));
        let at = (comptime!(part % (SHARE / core.share())) + e) * PLANE + UNIT_POS as usize % PLANE;
        first + plane_row() + comptime!(fragment / COLUMNS * FRAGMENT) + at / FRAGMENT
    }
}

#[cube]
pub(crate) fn column_of(#[comptime] part: usize, #[comptime] core: ProductUnits) -> usize {
    let first = CUBE_POS_X as usize * comptime!(core.tile());
    if comptime!(core == ProductUnits::Units) {
        first + UNIT_POS_X as usize + comptime!(part % PER * SIDE as usize)
    } else {
        let fragment = comptime!(fragment(part, core));
        let inside = UNIT_POS as usize % FRAGMENT;
        first + plane_column() + comptime!(fragment % COLUMNS * FRAGMENT) + inside
    }
}

/// The fragment that a part belongs to.
const fn fragment(part: usize, core: ProductUnits) -> usize {
    part * core.share() / SHARE
}
