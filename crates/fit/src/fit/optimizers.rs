//! Which optimizers need less memory than the config's.

use fitgpt_config::{Config, ConfigValue, InitFrom, Key, OptimizerChoice};

use super::{Change, Engine, FitRequest, candidate::raw};

/// Optimizers with less state than the config's; nanoGPT has only one.
pub(super) fn with_less_state(request: &FitRequest<'_>) -> impl Iterator<Item = Vec<Change>> {
    let config = request.config;
    let is_ours = matches!(request.engine, Engine::Fitgpt { .. });
    // The optimizer of a checkpoint is fixed.
    let is_open = is_ours && *config.init_from() != InitFrom::Resume;
    let smaller: &[_] = match config.optimizer() {
        OptimizerChoice::AdamW if is_open => {
            &[OptimizerChoice::AdamW8bit, OptimizerChoice::Muon, OptimizerChoice::Lion]
        }
        _ => &[],
    };
    smaller.iter().map(|choice| {
        let own = choice.defaults().iter().map(|(key, value)| (*key, scaled(config, key, value)));
        std::iter::once(("optimizer", choice.name().into())).chain(own).collect()
    })
}

/// `own`, the default of a key for an optimizer. Rates keep their ratio to nanoGPT's default.
fn scaled(config: &Config, key: &str, own: &ConfigValue) -> ConfigValue {
    let usual = &Key::find(key).expect("a key of the table").default;
    match (raw(config, key), usual, own) {
        (ConfigValue::Float(written), ConfigValue::Float(usual), ConfigValue::Float(own))
            if !key.starts_with("beta") =>
        {
            // Without the last digits of a product of decimal fractions.
            let scaled = format!("{:.6e}", written * own / usual).parse();
            ConfigValue::Float(scaled.expect("a number that was printed"))
        }
        _ => own.clone(),
    }
}
