#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fitgpt_fuzz::http(bytes));
