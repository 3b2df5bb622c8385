//! Measures every op: time, GFLOP/s or GB/s, and the share of the machine's peak.
//!
//! Each op is first compared with the reference at a small shape, then timed at the shapes of
//! GPT-2 124M (4 sequences of 1024) and of a character model. The machine's peak rates, fused
//! multiply-adds on registers and a copy of memory, are measured in the same run.
//!
//!     cargo run --release -p fitgpt-exec --example op_rate [-- THREADS [ISA [PART-OF-A-NAME]]]

#![expect(clippy::print_stdout, reason = "prints its results")]

use std::time::Instant;

use fitgpt_exec::{
    Arguments, Backend, Watch,
    cpu::{
        Cpu, CpuTarget,
        isa::Isa,
        pool::Pool,
        rates::{peak_bytes_per_s, peak_flops_per_s, peak_pair_flops_per_s},
    },
    reference::{Reference, ReferenceTarget},
};
use fitgpt_program::{
    Access, Adam, Dropout, DropoutSite, ElementRule, Gelu, Heads, Life, Op, Operand, Products,
    Program, ProgramKind, Qkv, Tensor, TensorClass, TensorRole,
    memory::{Limits, Target, VerifiedPlan, place, verify},
    units::{Bytes, DType, ProgramId, TensorId},
};
use half::{bf16, f16};

/// B sequences of T tokens, C channels in H heads, V tokens in the vocabulary.
#[derive(Clone, Copy)]
struct CaseSizes {
    name: &'static str,
    batch: u64,
    seq: u64,
    channels: u64,
    heads: u32,
    vocab: u64,
    chunk: u64,
}

const CHECKED: CaseSizes =
    CaseSizes { name: "small", batch: 2, seq: 70, channels: 48, heads: 3, vocab: 100, chunk: 64 };

const TIMED: [CaseSizes; 2] = [
    CaseSizes {
        name: "124M",
        batch: 4,
        seq: 1024,
        channels: 768,
        heads: 12,
        vocab: 50304,
        chunk: 512,
    },
    CaseSizes {
        name: "characters",
        batch: 64,
        seq: 256,
        channels: 384,
        heads: 6,
        vocab: 65,
        chunk: 16384,
    },
];

fn main() {
    let mut words = std::env::args().skip(1);
    let threads = words.next().map_or(2, |word| word.parse().expect("a number of threads"));
    let isa = words.next().map_or(Some(Isa::best()), |name| Isa::named(&name));
    let isa = isa.expect("an instruction set that this machine has");
    let part = words.next().unwrap_or_default();
    let target = CpuTarget::new(threads, isa);

    let mut pool = Pool::new(threads).expect("threads");
    let (flops, bytes) =
        (peak_flops_per_s(isa, &mut pool) / 1e9, peak_bytes_per_s(&mut pool) / 1e9);
    println!("{threads} threads, {}: {flops:.0} GFLOP/s, {bytes:.1} GB/s", isa.name());
    let pair_flops = peak_pair_flops_per_s(isa, &mut pool).map(|flops| flops / 1e9);
    if let Some(flops) = pair_flops {
        println!("products of bfloat16 pairs: {flops:.0} GFLOP/s");
    }
    let runs = [
        (DType::F32, Products::Float32),
        (DType::Bf16, Products::Float32),
        (DType::Bf16, Products::Bfloat16),
        (DType::F16, Products::Float32),
    ];
    for (dtype, products) in runs {
        let target = target.with_products(products);
        let flops = match products {
            Products::Float32 => flops,
            Products::Bfloat16 => match pair_flops {
                Some(flops) => flops,
                None => continue, // emulated
            },
        };
        for sizes in TIMED {
            println!("{} in {dtype}, products in {}", sizes.name, products.name());
            for (small, large) in ops(CHECKED, dtype).into_iter().zip(ops(sizes, dtype)) {
                if large.name.contains(&part) {
                    check(&small, target);
                    time(&large, target, flops, bytes);
                }
            }
        }
    }
}

/// One op alone in its program.
struct TimedOp {
    name: &'static str,
    program: Program,
}

/// The sizes and the type of the ops being listed.
struct List {
    sizes: CaseSizes,
    dtype: DType,
    cases: Vec<TimedOp>,
}

type Axes = Vec<u64>;

impl List {
    /// Adds an op over operands of these shapes.
    fn add<const N: usize>(
        &mut self,
        name: &'static str,
        operands: [(&str, Axes, DType); N],
        op: impl Fn([TensorId; N]) -> Op,
    ) {
        let ids = std::array::from_fn(|i| TensorId(i as u32));
        let op = op(ids);
        let mut program = Program::new(ProgramKind::Other("one"), Vec::new());
        let access: Vec<Operand> = op.operands();
        for (id, (name, shape, dtype)) in ids.into_iter().zip(operands) {
            let written = access.iter().any(|o| o.tensor == id && o.access == Access::Writes);
            program.tensor(Tensor {
                name: name.into(),
                shape,
                dtype,
                class: TensorClass::Activation,
                life: if written { Life::Output } else { Life::Input },
                role: TensorRole::General,
            });
        }
        program.op(op);
        self.cases.push(TimedOp { name, program });
    }
}

const ADAM: Adam =
    Adam { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1, grad_clip: 1.0 };

fn ops(sizes: CaseSizes, dtype: DType) -> Vec<TimedOp> {
    let mut list = List { sizes, dtype, cases: Vec::new() };
    list.embed();
    list.norms();
    list.linear();
    list.attention();
    list.dropout();
    list.loss();
    list.cached_attention();
    if dtype == DType::F32 {
        list.update();
    }
    list.cases
}

/// Dropout at a place of the first layer.
fn dropout_at(site: DropoutSite) -> Dropout {
    Dropout { rate: 0.1, layer: 0, site }
}

impl CaseSizes {
    /// As many key/value heads as query heads.
    fn all_heads(self) -> Heads {
        let Self { heads, channels, .. } = self;
        Heads { query: heads, kv: heads, channels: channels as u32 / heads }
    }
}

impl List {
    /// Both tables.
    fn embed(&mut self) {
        let CaseSizes { batch, seq, channels, vocab, .. } = self.sizes;
        let (e, f) = (self.dtype, DType::F32);
        let x = || vec![batch, seq, channels];
        let tokens = |name| (name, vec![batch, seq], DType::U32);
        for (name, dropout) in
            [("embed", None), ("embed, dropout", Some(dropout_at(DropoutSite::Embedding)))]
        {
            let tables = [("wte", vec![vocab, channels], f), ("wpe", vec![seq, channels], f)];
            let [wte, wpe] = tables;
            self.add(
                name,
                [tokens("tokens"), wte.clone(), wpe.clone(), ("out", x(), e)],
                |[tokens, wte, wpe, out]| Op::Embed { tokens, wte, wpe: Some(wpe), out, dropout },
            );
            let name = if dropout.is_some() { "embed_backward, dropout" } else { "embed_backward" };
            self.add(
                name,
                [tokens("tokens"), ("d_x", x(), e), wte, wpe],
                |[tokens, d_x, d_wte, d_wpe]| Op::EmbedBackward {
                    tokens,
                    d_x,
                    d_wte,
                    d_wpe: Some(d_wpe),
                    dropout,
                },
            );
        }
    }

    /// `LayerNorm`.
    fn norms(&mut self) {
        let CaseSizes { batch, seq, channels, .. } = self.sizes;
        let (e, f) = (self.dtype, DType::F32);
        let x = || vec![batch, seq, channels];
        let row = || vec![batch, seq];
        let weight = || ("weight", vec![channels], f);
        let bias = || ("bias", vec![channels], f);
        let (mean, rstd) = (|| ("mean", row(), f), || ("rstd", row(), f));
        self.add(
            "layer_norm",
            [("x", x(), e), weight(), bias(), ("out", x(), e), mean(), rstd()],
            |[x, weight, bias, out, mean, rstd]| {
                let bias = Some(bias);
                Op::Norm { x, weight, bias, out, mean: Some(mean), rstd, epsilon: 1e-5 }
            },
        );
        self.add(
            "layer_norm_again",
            [("x", x(), e), weight(), bias(), ("out", x(), e), mean(), rstd()],
            |[x, weight, bias, out, mean, rstd]| {
                let bias = Some(bias);
                Op::NormAgain { x, weight, bias, mean: Some(mean), rstd, out }
            },
        );
        self.add(
            "layer_norm_backward_add",
            [
                ("x", x(), e),
                weight(),
                mean(),
                rstd(),
                ("d_out", x(), e),
                ("d_x", x(), e),
                ("d_weight", vec![channels], f),
                ("d_bias", vec![channels], f),
            ],
            |[x, weight, mean, rstd, d_out, d_x, d_weight, d_bias]| {
                let d_bias = Some(d_bias);
                Op::NormBackwardAdd {
                    x,
                    weight,
                    mean: Some(mean),
                    rstd,
                    d_out,
                    d_x,
                    d_weight,
                    d_bias,
                }
            },
        );
    }

    /// Over whole sequences.
    fn attention(&mut self) {
        let CaseSizes { batch, seq, channels, heads, .. } = self.sizes;
        let (e, f) = (self.dtype, DType::F32);
        let x = || vec![batch, seq, channels];
        let all = self.sizes.all_heads();
        for (name, backward, dropout) in [
            ("attention", "attention_backward", None),
            (
                "attention, dropout",
                "attention_backward, dropout",
                Some(dropout_at(DropoutSite::Attention)),
            ),
        ] {
            let lse = || ("lse", vec![batch, heads.into(), seq], f);
            let qkv = |name| (name, vec![batch, seq, 3 * channels], e);
            self.add(name, [qkv("qkv"), ("out", x(), e), lse()], |[qkv, out, lse]| Op::Attention {
                qkv: Qkv::Joined(qkv),
                out,
                lse,
                heads: all,
                dropout,
            });
            self.add(
                backward,
                [qkv("qkv"), ("out", x(), e), lse(), ("d_out", x(), e), qkv("d_qkv")],
                |[qkv, out, lse, d_out, d_qkv]| Op::AttentionBackward {
                    qkv: Qkv::Joined(qkv),
                    out,
                    lse,
                    d_out,
                    d_qkv: Qkv::Joined(d_qkv),
                    heads: all,
                    dropout,
                },
            );
        }
    }

    /// Alone.
    fn dropout(&mut self) {
        let CaseSizes { batch, seq, channels, .. } = self.sizes;
        let e = self.dtype;
        let x = || vec![batch, seq, channels];
        self.add("dropout", [("x", x(), e), ("out", x(), e)], |[x, out]| Op::Dropout {
            x,
            out,
            dropout: dropout_at(DropoutSite::MlpOut),
        });
    }

    /// The loss with its product over the vocabulary.
    fn loss(&mut self) {
        let CaseSizes { batch, seq, channels, vocab, chunk, .. } = self.sizes;
        let (e, f) = (self.dtype, DType::F32);
        let x = || vec![batch, seq, channels];
        let tokens = |name| (name, vec![batch, seq], DType::U32);
        let wte = || ("wte", vec![vocab, channels], f);
        let logits = || ("logits", vec![chunk.min(batch * seq), vocab], f);
        self.add(
            "cross_entropy",
            [("x", x(), e), wte(), tokens("targets"), logits(), ("losses", vec![batch], f)],
            |[x, weight, targets, logits, losses]| Op::CrossEntropy {
                x,
                weight,
                targets,
                logits,
                losses,
            },
        );
        self.add(
            "cross_entropy_backward",
            [
                ("x", x(), e),
                wte(),
                tokens("targets"),
                logits(),
                ("loss", vec![1], f),
                ("d_x", x(), e),
                ("d_wte", vec![vocab, channels], f),
            ],
            |[x, weight, targets, logits, loss, d_x, d_weight]| Op::CrossEntropyBackward {
                x,
                weight,
                targets,
                logits,
                loss,
                d_x,
                d_weight,
                mean_over: batch * seq,
            },
        );
    }

    /// Of one token with all earlier ones.
    fn cached_attention(&mut self) {
        let CaseSizes { batch, seq, channels, .. } = self.sizes;
        let e = self.dtype;
        let x = || vec![batch, seq, channels];
        let all = self.sizes.all_heads();
        let cache = |name| (name, x(), e);
        self.add(
            "cached_attention",
            [
                ("qkv", vec![batch, 1, 3 * channels], e),
                cache("keys"),
                cache("values"),
                ("out", vec![batch, 1, channels], e),
            ],
            |[qkv, keys, values, out]| Op::CachedAttention {
                qkv: Qkv::Joined(qkv),
                keys,
                values,
                out,
                heads: all,
            },
        );
    }

    /// Products with a matrix.
    fn linear(&mut self) {
        let CaseSizes { batch, seq, channels: c, .. } = self.sizes;
        let e = self.dtype;
        let f = DType::F32;
        let rows = |columns| vec![batch, seq, columns];
        let bias = |n| ("bias", vec![n], f);
        self.add(
            "linear",
            [
                ("x", rows(c), e),
                ("weight", vec![3 * c, c], f),
                bias(3 * c),
                ("out", rows(3 * c), e),
            ],
            |[x, weight, bias, out]| Op::Linear { x, weight, bias: Some(bias), out },
        );
        if e == DType::Bf16 {
            let weight = ("weight", vec![3 * c, c], e);
            self.add(
                "linear, stored in bfloat16",
                [("x", rows(c), e), weight, bias(3 * c), ("out", rows(3 * c), e)],
                |[x, weight, bias, out]| Op::Linear { x, weight, bias: Some(bias), out },
            );
        }
        self.add(
            "linear_gelu",
            [
                ("x", rows(c), e),
                ("weight", vec![4 * c, c], f),
                ("pre", rows(4 * c), e),
                ("out", rows(4 * c), e),
            ],
            |[x, weight, pre, out]| Op::LinearGelu {
                x,
                weight,
                bias: None,
                pre: Some(pre),
                out,
                gelu: Gelu::Exact,
            },
        );
        for (name, rate) in [("linear_residual", 0.0), ("linear_residual, dropout", 0.1)] {
            let dropout = (rate > 0.0).then_some(dropout_at(DropoutSite::MlpOut));
            self.add(
                name,
                [
                    ("x", rows(4 * c), e),
                    ("weight", vec![c, 4 * c], f),
                    ("residual", rows(c), e),
                    ("out", rows(c), e),
                ],
                |[x, weight, residual, out]| Op::LinearResidual {
                    x,
                    weight,
                    bias: None,
                    residual,
                    out,
                    dropout,
                },
            );
        }
        self.add(
            "linear_backward_input",
            [("d_out", rows(4 * c), e), ("weight", vec![4 * c, c], f), ("d_x", rows(c), e)],
            |[d_out, weight, d_x]| Op::LinearBackwardInput { d_out, weight, d_x },
        );
        self.add(
            "linear_backward_gelu",
            [
                ("d_out", rows(c), e),
                ("weight", vec![c, 4 * c], f),
                ("pre", rows(4 * c), e),
                ("d_pre", rows(4 * c), e),
            ],
            |[d_out, weight, pre, d_pre]| Op::LinearBackwardGelu {
                d_out,
                weight,
                pre,
                d_pre,
                gelu: Gelu::Exact,
            },
        );
        self.add(
            "linear_backward_weight",
            [
                ("d_out", rows(4 * c), e),
                ("x", rows(c), e),
                ("d_weight", vec![4 * c, c], f),
                ("d_bias", vec![4 * c], f),
            ],
            |[d_out, x, d_weight, d_bias]| Op::LinearBackwardWeight {
                d_out,
                x,
                d_weight,
                d_bias: Some(d_bias),
            },
        );
    }

    /// Updates of parameters.
    fn update(&mut self) {
        let CaseSizes { channels, vocab, .. } = self.sizes;
        let f = DType::F32;
        let table = |name| (name, vec![vocab, channels], f);
        self.add("gradient_norm", [table("d_wte"), ("norm", vec![1], f)], |[gradient, norm]| {
            Op::GradientNorm { gradients: vec![gradient], norm }
        });
        let names = ["wte", "d_wte", "exp_avg", "exp_avg_sq"];
        let [p, g, m, v] = names.map(table);
        self.add("adamw", [("norm", vec![1], f), p, g, m, v], |[norm, p, g, m, v]| Op::Update {
            norm,
            parameter: p,
            gradient: g,
            states: vec![m, v],
            first: 0,
            decays: true,
            rule: ElementRule::AdamW(ADAM),
        });
    }
}

fn plan(program: &Program, target: &impl Target) -> VerifiedPlan {
    let programs = vec![program.clone()];
    let plan = place(programs, target).expect("one op can be placed");
    verify(plan, target).expect("the checker accepts what the placer made")
}

/// Fills tensors with values similar to activations, the same for every backend.
fn fill(backend: &mut dyn Backend, vocab: u64) {
    let program = backend.plan().program(ProgramId(0)).clone();
    let mut state = 1_u32;
    for (index, tensor) in program.tensors().iter().enumerate() {
        if tensor.life != Life::Input {
            continue;
        }
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        let mut float = || next() as f32 / 8_388_608.0 - 1.0; // in -1..1
        let count = tensor.count() as usize;
        // Some tensors must be positive or similar to what the forward computes.
        let positive = ["rstd", "exp_avg_sq", "norm"].contains(&tensor.name.as_str());
        let bytes: Vec<u8> = match tensor.dtype {
            DType::U32 => {
                let tokens: Vec<u32> = (0..count).map(|_| next() % vocab as u32).collect();
                bytemuck::cast_slice(&tokens).to_vec()
            }
            dtype => {
                let mut values: Vec<f32> = (0..count).map(|_| float()).collect();
                if positive {
                    for x in &mut values {
                        *x = x.abs() + 0.1;
                    }
                }
                if tensor.name == "lse" {
                    for x in &mut values {
                        *x += (tensor.shape[2] as f32).ln();
                    }
                }
                match dtype {
                    DType::Bf16 => {
                        let half: Vec<_> = values.iter().map(|x| bf16::from_f32(*x)).collect();
                        bytemuck::cast_slice(&half).to_vec()
                    }
                    DType::F16 => {
                        let half: Vec<_> = values.iter().map(|x| f16::from_f32(*x)).collect();
                        bytemuck::cast_slice(&half).to_vec()
                    }
                    _ => bytemuck::cast_slice(&values).to_vec(),
                }
            }
        };
        let id = TensorId(index as u32);
        backend.write(ProgramId(0), id, Bytes::ZERO, &bytes).expect("the write succeeds");
    }
}

fn arguments(program: &Program) -> Arguments {
    let cached = program.find("keys").map(|keys| program.get(keys).shape[1] - 1);
    Arguments { lr: 1e-3, length: cached.unwrap_or(0), ..Arguments::default() }
}

/// Every float of every tensor that the op changes.
fn results(backend: &mut dyn Backend) -> Vec<(String, DType, Vec<f32>)> {
    let program = backend.plan().program(ProgramId(0)).clone();
    let changed = program.ops()[0].operands().into_iter();
    let changed = changed.filter(|o| o.access != Access::Reads).map(|o| o.tensor);
    let mut results = Vec::new();
    for id in changed {
        let tensor = program.get(id);
        if tensor.name == "logits" {
            continue; // working memory, not a result
        }
        let mut bytes = vec![0; tensor.bytes().index()];
        backend.read(ProgramId(0), id, Bytes::ZERO, &mut bytes).expect("the read succeeds");
        let values = match tensor.dtype {
            DType::Bf16 => {
                bytemuck::cast_slice::<_, bf16>(&bytes).iter().map(|x| x.to_f32()).collect()
            }
            DType::F16 => {
                bytemuck::cast_slice::<_, f16>(&bytes).iter().map(|x| x.to_f32()).collect()
            }
            _ => bytemuck::cast_slice::<_, f32>(&bytes).to_vec(),
        };
        results.push((tensor.name.clone(), tensor.dtype, values));
    }
    results
}

/// Compares the op with the reference at a small shape. The tolerance, relative to the largest
/// number of its tensor, covers f32 sums of some hundred terms, rounding to the stored type, and
/// that of float32 factors of a loss to bfloat16.
fn check(case: &TimedOp, target: CpuTarget) {
    let arguments = arguments(&case.program);
    let mut cpu = Cpu::new(plan(&case.program, &target), target, Watch::Off).expect("a backend");
    let device = ReferenceTarget(Limits::HOST);
    let mut reference =
        Reference::new(plan(&case.program, &device), Limits::HOST, Watch::Off).expect("a backend");
    let mut both = [&mut cpu as &mut dyn Backend, &mut reference].map(|backend| {
        fill(backend, CHECKED.vocab);
        backend.run(ProgramId(0), &arguments).expect("the op runs");
        results(backend)
    });
    let [found, expected] = &mut both;
    for ((name, dtype, found), (_, _, expected)) in found.iter().zip(expected) {
        let most = expected.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
        let rounding = match dtype {
            DType::Bf16 => 1.0 / 128.0,
            DType::F16 => 1.0 / 1024.0,
            _ => 0.0,
        };
        let factors = match target.products {
            Products::Bfloat16 if case.name.contains("cross_entropy") => 1.0 / 128.0,
            Products::Bfloat16 | Products::Float32 => 0.0,
        };
        let allowed = most * (2e-5 + rounding + factors);
        for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert!(
                (found - *expected).abs() <= allowed,
                "{}: `{name}` at {i}: {found}, the reference has {expected}",
                case.name
            );
        }
    }
}

fn time(case: &TimedOp, target: CpuTarget, peak_flops: f64, peak_bytes: f64) {
    let program = &case.program;
    let op = &program.ops()[0];
    let arguments = arguments(program);
    let vocab = program.find("wte").map_or(u64::from(u16::MAX), |wte| program.get(wte).shape[0]);
    let vocab = program
        .find("wte")
        .or(program.find("d_wte"))
        .map_or(vocab, |wte| program.get(wte).shape[0]);
    let mut cpu = Cpu::new(plan(program, &target), target, Watch::Off).expect("a backend");
    fill(&mut cpu, vocab);
    cpu.run(ProgramId(0), &arguments).expect("the op runs");
    let mut best = f64::INFINITY;
    let begin = Instant::now();
    let mut runs = 0;
    while runs < 3 || (begin.elapsed().as_secs_f64() < 0.5 && runs < 200) {
        let start = Instant::now();
        cpu.run(ProgramId(0), &arguments).expect("the op runs");
        best = best.min(start.elapsed().as_secs_f64());
        runs += 1;
    }
    let flops = op.flops(program) as f64;
    let rate = if flops > 0.0 {
        let rate = flops / best / 1e9;
        format!("{rate:7.1} GFLOP/s {:4.0} %", 100.0 * rate / peak_flops)
    } else {
        let bytes = |o: Operand| {
            let times = if o.access == Access::Updates { 2 } else { 1 };
            let tensor = program.get(o.tensor);
            // Only the tokens' rows of a table are touched.
            let touched = if matches!(op, Op::Embed { .. } | Op::EmbedBackward { .. })
                && tensor.shape.len() == 2
                && tensor.dtype == DType::F32
            {
                program.get(op.operands()[0].tensor).count() * tensor.columns() * 4
            } else {
                tensor.bytes().get()
            };
            (times * touched) as f64
        };
        let rate = op.operands().into_iter().map(bytes).sum::<f64>() / best / 1e9;
        format!("{rate:7.1} GB/s    {:4.0} %", 100.0 * rate / peak_bytes)
    };
    println!("  {:28} {:9.3} ms {rate}", case.name, best * 1e3);
}
