//! Checks that training GPT-2 gives the bits it gave when these hashes were recorded.
//!
//! A refactoring of the model, the programs or the kernels must not change them. A change that is
//! meant to (another order of summation, another default) replaces them and mentions it in its
//! commit: `cargo test --test library gpt2_bits` prints the new table if it differs.
//!
//! Instruction sets round differently, so each one of this machine is forced in turn and compared
//! with its own hashes; the last line of each test names those that ran. The portable one runs
//! everywhere. Its arithmetic has no fused operation, so only the C library could make it differ
//! between machines: `ln`, `sin`, `cos` and `pow` in float64, whose last bit is lost in float32,
//! and `ln` in float32, which glibc and musl compute in float64. glibc's last bits do differ on
//! machines without FMA, but with `GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA,-AVX2` the hashes are the
//! same. Other systems have other libraries, so the test runs on Linux only.

use std::{
    fmt::{self, Write as _},
    fs,
    io::{self, Write as _},
    path::Path,
};

use fitgpt_checkpoint as checkpoint;
use fitgpt_checkpoint::{Checkpoint, Contents, Document, Label, Retention, Scaler};
use fitgpt_config::{Precision, Written};
use fitgpt_data::Dataset;
use fitgpt_exec::cpu::{CpuTarget, isa::Isa};
use fitgpt_files::disk::Disk;
use fitgpt_run::{
    device::Runner,
    setup::{self, RunSetup},
    stop::StopFlag,
    trainer::Trainer,
};

const STEPS: u64 = 50;
const VOCAB: u32 = 61;

/// Sizes that are not a multiple of a vector, a tile or a chunk.
const TINY: &[(&str, &str)] = &[
    ("n_layer", "3"),
    ("n_head", "3"),
    ("n_embd", "42"),
    ("block_size", "39"),
    ("batch_size", "3"),
    ("gradient_accumulation_steps", "1"),
    ("eval_iters", "2"),
    ("loss_chunk_rows", "64"),
    ("learning_rate", "0.003"),
    ("warmup_iters", "5"),
    ("lr_decay_iters", "40"),
    ("dropout", "0.0"),
    ("bias", "False"),
    ("memory_budget", "1GiB"),
];

type Keys = &'static [(&'static str, &'static str)];

/// Keys on top of [`TINY`], by the name that the table uses.
const CASES: &[(&str, Keys)] = &[
    ("float32", &[("dtype", "float32")]),
    ("bfloat16", &[("dtype", "bfloat16")]),
    ("float16", &[("dtype", "float16")]),
    ("dropout", &[("dtype", "float32"), ("dropout", "0.2")]),
    ("bias", &[("dtype", "float32"), ("bias", "True"), ("gelu", "tanh")]),
    (
        "all",
        &[
            ("dtype", "bfloat16"),
            ("dropout", "0.1"),
            ("bias", "True"),
            ("gradient_accumulation_steps", "2"),
        ],
    ),
    ("factors", FACTORS),
];

/// Products of bfloat16 factors. Machines without the instruction emulate it: the same bits.
const FACTORS: Keys = &[
    ("dtype", "bfloat16"),
    ("matmul_dtype", "bfloat16"),
    ("dropout", "0.1"),
    ("bias", "True"),
    ("gradient_accumulation_steps", "2"),
];

/// (instruction set, case, hash of the losses, of the gradient norms, of the final weights).
const BITS: &[(&str, &str, u64, u64, u64)] = &[
    ("avx512", "float32", 0x3eff_73b0_65fa_d348, 0x0ff3_339b_dce1_88d9, 0x2750_7be8_b056_6f72),
    ("avx512", "bfloat16", 0x3cf1_f47e_d98c_de09, 0xae63_fa58_3948_ced6, 0x9199_82cb_2963_f9c8),
    ("avx512", "float16", 0x75e2_d425_2fc4_049e, 0x5dfd_1cf6_a035_221d, 0xf555_083b_e361_f58c),
    ("avx512", "dropout", 0x3e8f_6a60_95d9_fbc8, 0xb002_ea8e_27b5_5e9c, 0xdf15_7d46_de32_fbbd),
    ("avx512", "bias", 0xca4e_07c4_8b9f_275b, 0xe3d1_5e98_a3bf_b8e4, 0x0bee_8bd5_7df0_f4b2),
    ("avx512", "all", 0xed05_fb4b_b0cb_1b6f, 0x575a_3acf_c830_8137, 0xcbb3_a80f_1c5f_c1e3),
    ("avx512", "factors", 0x199f_8e95_dd98_7b5c, 0x20f7_150a_2207_9ab4, 0x9150_6a2a_50fb_a88b),
    ("avx2", "float32", 0x517a_58b6_13d6_2cc4, 0x0e97_8061_676e_e73a, 0xfaa4_2c57_eb13_9d16),
    ("avx2", "bfloat16", 0x0a89_a305_52b2_1376, 0x35e8_c701_982b_c025, 0x9faa_f656_577f_f585),
    ("avx2", "float16", 0xff66_380d_bae6_43a4, 0x10de_a007_0474_3ab2, 0xc916_6731_a134_f7d6),
    ("avx2", "dropout", 0x9458_fb28_65e6_3c2c, 0x9a24_2975_8b81_e16d, 0x6c8f_767d_18d6_e948),
    ("avx2", "bias", 0x9ec5_6b5b_f4e9_c5ee, 0x943e_f733_eafd_d104, 0xc943_1a81_b863_9743),
    ("avx2", "all", 0xf892_6848_d05b_2e2a, 0x3b60_f374_9480_72d0, 0x93a4_d725_3e66_78e7),
    ("avx2", "factors", 0x351b_9a3e_c2c2_e69d, 0xfdfc_03f6_24b3_f11a, 0x8498_e449_955f_b315),
    ("portable", "float32", 0x489a_2751_e9cb_812d, 0xd0cf_2354_89e3_82d9, 0x57b4_9263_8fe9_2793),
    ("portable", "bfloat16", 0x4d29_bd75_b37a_686b, 0xa024_98d9_ac6d_dda9, 0x9298_4098_5ddc_d607),
    ("portable", "float16", 0xda3f_ac6e_a398_bf97, 0x2792_6175_21c7_2879, 0x55d5_d96f_8277_6f6b),
    ("portable", "dropout", 0x05a5_58ed_3022_ff28, 0xb64d_425c_9a40_3ce6, 0xe513_c025_3eb9_f3ad),
    ("portable", "bias", 0x9773_7cb0_05f0_cdfb, 0xc6fa_8d56_9b04_a93b, 0xef43_dfa6_0996_ae76),
    ("portable", "all", 0xcba5_effc_e830_f323, 0xc0d2_8c75_ea8e_3be8, 0x29eb_8cd2_2503_dd63),
    ("portable", "factors", 0x43b3_1fc9_f610_340a, 0xc5c8_aacf_5834_30e6, 0x04fd_6c9d_3d75_9477),
];

/// The instruction sets of the machine that the table was written on.
const NAMES: [&str; 3] = ["avx512", "avx2", "portable"];

/// The hashes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bits {
    losses: u64,
    norms: u64,
    weights: u64,
}

impl fmt::Display for Bits {
    /// Formats a row of the table above.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grouped = |hash: u64| {
            let digits = format!("{hash:016x}");
            format!("0x{}_{}_{}_{}", &digits[..4], &digits[4..8], &digits[8..12], &digits[12..])
        };
        let Self { losses, norms, weights } = *self;
        write!(f, "{}, {}, {}", grouped(losses), grouped(norms), grouped(weights))
    }
}

/// FNV-1a.
struct Hash(u64);

impl Hash {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn add_number(&mut self, x: f64) {
        // The bits of a NaN differ between machines.
        let x = if x.is_nan() { f64::NAN } else { x };
        self.add(&x.to_bits().to_le_bytes());
    }
}

/// Writes a dataset of pseudorandom tokens, three of four among the first eight, so that there is
/// something to learn.
fn write_data(folder: &Path) {
    for (name, count, seed) in [("train.bin", 6_000u32, 1u32), ("val.bin", 1_000, 2)] {
        let mut state = seed;
        let tokens = (0..count).flat_map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let symbols = if state >> 30 == 0 { VOCAB as u16 } else { 8 };
            ((state >> 14) as u16 % symbols).to_le_bytes()
        });
        fs::write(folder.join(name), tokens.collect::<Vec<u8>>()).unwrap();
    }
}

fn trainer(folder: &Path, target: CpuTarget, keys: &[(&str, &str)]) -> Trainer {
    let mut written = Written::new();
    for (key, value) in TINY.iter().chain(keys) {
        written.set(key, value).unwrap();
    }
    let config = written.resolve().unwrap();
    let products = config.matmul_dtype().unwrap_or_default();
    let runner = Runner::Cpu(target.with_products(products));
    let device = runner.device(&config).unwrap();
    let precision = runner.precision(&config);
    let setup =
        RunSetup::new(&config, VOCAB, precision, &runner, device, runner.overhead()).unwrap();
    let data = Dataset::open(folder.to_str().unwrap(), Path::new("/")).unwrap();
    let scaler = if precision == Precision::Float16 { Scaler::DYNAMIC } else { Scaler::NONE };
    Trainer::new(setup.backend().unwrap(), config, setup.job, setup.handles, data, scaler).unwrap()
}

fn save(folder: &Path, trainer: &mut Trainer) {
    let config = trainer.config().clone();
    let architecture = setup::architecture(&config, VOCAB);
    let tensors = &trainer.tensors().clone();
    let step = trainer.position.step;
    let label = Label { run_id: "bits", step, keep: Retention::ONE, fingerprint: 0, nanogpt: None };
    let contents = Contents { architecture: &architecture, tensors, label, held: None };
    let document = Document::new(&trainer.position, &config, None, None);
    checkpoint::save(&Disk::real(), folder, contents, &document, trainer).unwrap();
}

/// Trains. With `resume_at`, saves before that step and resumes from the files in a new arena, with
/// one more thread.
fn train(isa: Isa, keys: &[(&str, &str)], resume_at: Option<u64>) -> Bits {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_data(folder);
    let stop = StopFlag::default();
    let mut trainer = trainer(folder, CpuTarget::new(1, isa), keys);
    trainer.initialise().unwrap();
    let (mut losses, mut norms, mut weights) = (Hash::new(), Hash::new(), Hash::new());
    let mut each = Vec::new();
    for step in 0..STEPS {
        if resume_at == Some(step) {
            save(folder, &mut trainer);
            trainer = self::trainer(folder, CpuTarget::new(2, isa), keys);
            let mut checkpoint = Checkpoint::open(folder).unwrap();
            let tensors = trainer.tensors().clone();
            checkpoint.read(&tensors, &mut trainer).unwrap();
            trainer.position = checkpoint.document::<Document>().unwrap().position;
        }
        if step == STEPS / 2 {
            let evaluated = trainer.evaluate(&stop).unwrap().unwrap();
            losses.add_number(evaluated.train.mean);
            losses.add_number(evaluated.val.mean);
        }
        let stepped = trainer.step(&stop).unwrap().unwrap();
        each.push(stepped.loss);
        losses.add_number(stepped.loss);
        norms.add_number(stepped.grad_norm);
    }
    assert!(each[STEPS as usize - 1] < each[0] - 0.5, "the run learns nothing: {each:?}");
    save(folder, &mut trainer);
    let file = fs::read(folder.join(checkpoint::MODEL_FILE)).unwrap();
    let file = safetensors::SafeTensors::deserialize(&file).unwrap();
    let mut tensors = file.tensors();
    tensors.sort_by(|(first, _), (second, _)| first.cmp(second));
    for (name, tensor) in tensors {
        weights.add(name.as_bytes());
        weights.add(tensor.data());
    }
    Bits { losses: losses.0, norms: norms.0, weights: weights.0 }
}

/// The hashes of a case. Resumed and recomputing runs have the same ones.
fn expected(isa: Isa, case: &str) -> Option<Bits> {
    let row = BITS.iter().find(|row| row.0 == isa.name() && row.1 == case);
    row.map(|&(_, _, losses, norms, weights)| Bits { losses, norms, weights })
}

/// Runs every case with every instruction set that this machine and the table have, each with
/// `more` keys.
fn check(more: Keys, resume_at: Option<u64>) {
    let mut table = String::new();
    let mut differ = Vec::new();
    let (here, unknown): (Vec<_>, Vec<_>) = Isa::all().partition(|isa| NAMES.contains(&isa.name()));
    for &isa in &here {
        for (case, keys) in CASES {
            let bits = train(isa, &[keys, more].concat(), resume_at);
            writeln!(table, "    (\"{}\", \"{case}\", {bits}),", isa.name()).unwrap();
            if expected(isa, case) != Some(bits) {
                differ.push(format!("{} {case}", isa.name()));
            }
        }
    }
    // Written directly, because the harness hides the output of a passing test.
    let names = |list: &[Isa]| list.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ");
    let _ = writeln!(
        io::stderr(),
        "gpt2_bits: compared {}; without hashes: {}",
        names(&here),
        if unknown.is_empty() { "none".to_owned() } else { names(&unknown) }
    );
    assert!(differ.is_empty(), "different bits: {}; this run's table:\n{table}", differ.join(", "));
}

#[test]
fn fifty_steps_have_the_recorded_bits() {
    check(&[], None);
}

#[test]
fn recomputing_blocks_changes_no_bit() {
    check(&[("grad_checkpoint", "True")], None);
}

#[test]
fn a_resumed_run_has_the_bits_of_an_uninterrupted_one() {
    check(&[], Some(STEPS / 2 + 3));
}

#[test]
fn emulated_products_of_bfloat16_factors_have_the_bits_of_the_instruction() {
    for isa in Isa::all().filter(|isa| isa.has_pairs()) {
        assert_eq!(Some(train(isa.without_pairs(), FACTORS, None)), expected(isa, "factors"));
    }
}

#[test]
fn every_instruction_set_of_the_table_has_every_case() {
    for name in NAMES {
        let listed: Vec<_> = BITS.iter().filter(|row| row.0 == name).map(|row| row.1).collect();
        let cases: Vec<_> = CASES.iter().map(|case| case.0).collect();
        assert_eq!(listed, cases, "{name}");
    }
}
