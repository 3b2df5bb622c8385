//! Tables of names, memory and rates that the catalogue must give.

use super::*;

#[test]
fn cards_before_capability_7_have_no_triton_and_old_cards_only_old_builds() {
    let table = [
        ("GTX 1080 Ti", false, Some("2.8")),
        ("P100", false, Some("2.8")),
        ("Titan V", true, Some("2.11")),
        ("V100 16GB", true, Some("2.11")),
        ("T4", true, None),
        ("GTX 1650", true, None),
        ("RTX 4070", true, None),
    ];
    for (name, has_triton, since) in table {
        let gpu = find(name).unwrap();
        assert_eq!(gpu.has_triton(), has_triton, "{name}");
        assert_eq!(gpu.legacy_builds().map(|builds| builds.since), since, "{name}");
    }
    let builds = find("P100").unwrap().legacy_builds().unwrap();
    assert_eq!((builds.index().as_str(), builds.last), ("cu126", "2.14"));
}

#[test]
fn cards_are_found_by_names_as_users_write_them() {
    let table = [
        ("4070", "GeForce RTX 4070"),
        ("RTX 4070", "GeForce RTX 4070"),
        ("rtx4070", "GeForce RTX 4070"),
        ("NVIDIA GeForce RTX 4070", "GeForce RTX 4070"),
        ("RTX 4070 12GB", "GeForce RTX 4070"),
        ("ASUS TUF RTX 4070 OC", "GeForce RTX 4070"),
        ("RTX4070 laptop", "GeForce RTX 4070 Laptop"),
        ("NVIDIA GeForce RTX 4070 Laptop GPU", "GeForce RTX 4070 Laptop"),
        ("rtx 4070 ti super", "GeForce RTX 4070 Ti Super"),
        ("4070TiSuper", "GeForce RTX 4070 Ti Super"),
        ("4070 ti", "GeForce RTX 4070 Ti"),
        ("4060 Ti 16GB", "GeForce RTX 4060 Ti 16 GB"),
        ("rtx-4060-ti-8g", "GeForce RTX 4060 Ti 8 GB"),
        ("3060", "GeForce RTX 3060"),
        ("RTX 3060 8 GB", "GeForce RTX 3060 8 GB"),
        ("3080 12gb", "GeForce RTX 3080 12 GB"),
        ("GTX 1080", "GeForce GTX 1080"),
        ("1080ti", "GeForce GTX 1080 Ti"),
        ("GeForce GTX 1650", "GeForce GTX 1650"),
        ("Titan RTX", "Titan RTX"),
        ("titan v", "Titan V"),
        ("Tesla T4", "Tesla T4"),
        ("t4", "Tesla T4"),
        ("Tesla V100-SXM2-16GB", "Tesla V100 16 GB"),
        ("v100 32gb", "Tesla V100 32 GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 80 GB"),
        ("A100 40GB PCIe", "A100 40 GB"),
        ("NVIDIA A10G", "A10G"),
        ("a10", "A10"),
        ("RTX A6000", "RTX A6000"),
        ("a4000", "RTX A4000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("Quadro RTX 6000", "Quadro RTX 6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000"),
        ("NVIDIA H100 80GB HBM3", "H100 80 GB"),
        ("H100 NVL", "H100 NVL 94 GB"),
        ("L40S", "L40S"),
        ("5090", "GeForce RTX 5090"),
        ("AMD Radeon RX 7900 XTX", "Radeon RX 7900 XTX"),
        ("7900xtx", "Radeon RX 7900 XTX"),
        ("rx6700xt", "Radeon RX 6700 XT"),
        ("MI300X", "Instinct MI300X"),
        ("M1 Max 64GB", "Apple M1 Max 64 GB"),
        ("Apple M3 Pro 36 GB", "Apple M3 Pro 36 GB"),
        ("MacBook Pro M2 16GB", "Apple M2 16 GB"),
        ("MacBook Pro M2 Pro 16GB", "Apple M2 Pro 16 GB"),
        ("RTX 2080 Super with Max-Q Design", "GeForce RTX 2080 Super Laptop"),
    ];
    for (written, name) in table {
        assert_eq!(find(written).map(|gpu| gpu.name), Ok(name), "{written}");
    }
}

#[test]
fn every_name_of_the_table_finds_its_own_row() {
    for gpu in GPUS {
        assert_eq!(find(gpu.name), Ok(gpu));
    }
}

#[test]
fn several_sizes_of_one_name_are_listed() {
    let table: [(&str, &[&str]); 4] = [
        ("RTX 4060 Ti", &["GeForce RTX 4060 Ti 8 GB", "GeForce RTX 4060 Ti 16 GB"]),
        ("A100", &["A100 40 GB", "A100 80 GB"]),
        ("V100", &["Tesla V100 16 GB", "Tesla V100 32 GB"]),
        ("m1", &["Apple M1 8 GB", "Apple M1 16 GB"]),
    ];
    for (written, names) in table {
        let expected = DeviceError::Ambiguous { name: written.into(), candidates: names.to_vec() };
        assert_eq!(find(written), Err(expected));
    }
}

#[test]
fn an_unknown_name_lists_the_nearest() {
    let table = [
        ("RTX 4075", "GeForce RTX 4070"),
        ("RTX 4070 16GB", "GeForce RTX 4070"),
        ("GTX 4070", "GeForce RTX 4070"),
        ("7900 XYZ 7901", "Radeon RX 7900"),
        ("A101", "A10"),
    ];
    for (written, near) in table {
        let Err(DeviceError::Unknown { nearest, .. }) = find(written) else {
            panic!("`{written}` was found");
        };
        assert!(nearest.len() <= 5);
        assert!(nearest.iter().any(|name| name.contains(near)), "{written}: {nearest:?}");
    }
    for foreign in ["RTX 9999", "Intel Arc A770", "Gaudi 3", "RX 4070", "B300 Ultra", "TPU v4"] {
        let Err(DeviceError::Unknown { nearest, .. }) = find(foreign) else {
            panic!("`{foreign}` was found");
        };
        assert!(nearest.iter().all(|name| !name.contains("GeForce")), "{foreign}: {nearest:?}");
    }
    assert!(matches!(find(""), Err(DeviceError::Unknown { .. })));
    assert!(matches!(find("laptop"), Err(DeviceError::Unknown { .. })));
}

#[test]
fn total_memory_is_what_public_messages_print() {
    let table = [
        ("RTX 4070", "11.69"),
        ("RTX 3090", "23.69"),
        ("RTX 4090", "23.64"),
        ("RTX 5090", "31.36"),
        ("T4", "14.56"),
        ("V100 16GB", "15.77"),
        ("H200", "139.80"),
        ("RX 7900 XTX", "23.98"),
        ("M1 16GB", "10.67"),
        ("M1 Max 64GB", "48.00"),
    ];
    for (name, gib) in table {
        let bytes = find(name).unwrap().total_bytes().get();
        assert_eq!(format!("{:.2}", bytes as f64 / f64::from(1 << 30)), gib, "{name}");
    }
    assert_eq!(find("4070").unwrap().total_bytes(), Bytes::new(12_552_041_922));
}

#[test]
fn usable_memory_is_a_little_below_nominal() {
    for gpu in GPUS {
        let (seen, sold) = (gpu.total_bytes().get(), gpu.nominal_gib << 30);
        assert!(seen < sold, "{}", gpu.name);
        // Cards with error correction lose most, up to a tenth; a Mac shares the host's memory.
        let is_unified = gpu.name.starts_with("Apple");
        assert!(is_unified || seen * 100 >= sold * 90, "{}", gpu.name);
    }
}

#[test]
fn bfloat16_is_supported_from_ampere_rdna3_cdna_and_m2_on() {
    let table = [
        ("GTX 1080 Ti", false),
        ("P100", false),
        ("V100 16GB", false),
        ("T4", false),
        ("RTX 2080 Ti", false),
        ("RTX 3050", true),
        ("A10G", true),
        ("RTX 4090", true),
        ("H100 80GB", true),
        ("RTX 5070", true),
        ("RX 6900 XT", false),
        ("RX 7600", true),
        ("MI210", true),
        ("M1 16GB", false),
        ("M2 16GB", true),
    ];
    for (name, has_bf16) in table {
        assert_eq!(find(name).unwrap().has_bf16(), has_bf16, "{name}");
    }
}

#[test]
fn gtx_cards_have_no_tensor_cores() {
    for gpu in GPUS.iter().filter(|gpu| gpu.name.contains("GTX")) {
        assert!(!gpu.has_tensor_cores(), "{}", gpu.name);
    }
    assert!(find("T4").unwrap().has_tensor_cores());
    assert!(find("V100 32GB").unwrap().has_tensor_cores());
}

#[test]
fn rates_are_those_of_the_makers_tables() {
    // TFLOP/s in float32, TFLOP/s of half types with sums in float32, GB/s: white papers.
    let table = [
        ("RTX 3090", "35.6 71.2 936"),
        ("RTX 4070", "29.1 58.3 504"),
        ("RTX 4080", "48.7 97.5 717"),
        ("RTX 4090", "82.6 165.2 1008"),
        ("RTX 5080", "56.3 112.6 960"),
        ("RTX 5090", "104.8 209.5 1792"),
        ("T4", "8.1 65.0 320"),
        ("A100 40GB", "19.5 312.0 1555"),
        ("H100 80GB", "67.0 989.0 3350"),
    ];
    for (name, rates) in table {
        let found = find(name).unwrap().rates().unwrap();
        let tera = |rate: f64| format!("{:.1}", rate / 1e12);
        let (float32, half) = (tera(found.float32_flops_per_s), tera(found.half_flops_per_s));
        assert_eq!(format!("{float32} {half} {}", found.bytes_per_s / 1e9), rates, "{name}");
    }
}

#[test]
fn a_card_without_rates_lists_those_that_have_them() {
    let Err(DeviceError::NoRates { name, known }) = find("GTX 1080").unwrap().rates() else {
        panic!("the GTX 1080 has rates");
    };
    assert_eq!(name, "GeForce GTX 1080");
    assert!(known.contains(&"GeForce RTX 4070") && known.contains(&"A100 80 GB"));
    // Every row of both tables belongs to a card, and to one whose bandwidth is known.
    assert_eq!(known.len(), 30 + 16);
}

/// Data sheets round; they agree with cores and clocks within this share.
const DATA_SHEET_ROUNDING: f64 = 0.015;

#[test]
fn published_rates_follow_from_cores_and_clocks() {
    // Name, float32 cores, boost clock in MHz, clock of the tensor cores in MHz, half operations of
    // the tensor cores per float32 core and clock. The H100 NVL's tensor clock is not published.
    let chips = [
        ("Tesla V100 32 GB", 5120.0, 1530.0, 1530.0, 16.0),
        ("Tesla T4", 2560.0, 1590.0, 1590.0, 16.0),
        ("RTX A4000", 6144.0, 1560.0, 1560.0, 8.0),
        ("RTX A5000", 8192.0, 1695.0, 1695.0, 8.0),
        ("RTX A6000", 10752.0, 1800.0, 1800.0, 8.0),
        ("A10", 9216.0, 1695.0, 1695.0, 8.0),
        ("A30", 3584.0, 1440.0, 1440.0, 32.0),
        ("A40", 10752.0, 1740.0, 1740.0, 8.0),
        ("A100 80 GB", 6912.0, 1410.0, 1410.0, 32.0),
        ("L4", 7424.0, 2040.0, 2040.0, 8.0),
        ("L40S", 18176.0, 2520.0, 2520.0, 8.0),
        ("H100 80 GB", 16896.0, 1980.0, 1830.0, 32.0),
        ("H200", 16896.0, 1980.0, 1830.0, 32.0),
    ];
    for (name, cores, mhz, tensor_mhz, half) in chips {
        let rates = find(name).unwrap().rates().unwrap();
        let agrees = |published: f64, computed: f64| {
            let share = published / computed - 1.0;
            assert!(share.abs() < DATA_SHEET_ROUNDING, "{name}: {published:.3e}, {computed:.3e}");
        };
        agrees(rates.float32_flops_per_s, cores * mhz * 1e6 * 2.0);
        agrees(rates.half_flops_per_s, cores * tensor_mhz * 1e6 * half);
    }
}

#[test]
fn published_rates_agree_with_the_catalogue() {
    for gpu in GPUS {
        let Ok(rates) = gpu.rates() else { continue };
        if let Some(bandwidth) = gpu.bandwidth_gb_per_s {
            assert!((rates.bytes_per_s / 1e9 - f64::from(bandwidth)).abs() < 0.5, "{}", gpu.name);
        }
        // Tensor cores are 2 to 16 times as fast as float32 on every generation.
        let ratio = rates.half_flops_per_s / rates.float32_flops_per_s;
        assert!((2.0..=16.1).contains(&ratio), "{}: {ratio}", gpu.name);
    }
}
