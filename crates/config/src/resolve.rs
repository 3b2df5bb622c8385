//! From what was written to a checked config.

use fitgpt_program::Gelu;

use super::{
    choice::{Family, GPT2_VOCAB, InitFrom},
    error::ConfigError,
    key::Key,
    resolved::Config,
    rules,
    value::ConfigValue,
    written::Written,
};

impl Written {
    /// Fills in the defaults and checks the rules.
    pub fn resolve(&self) -> Result<Config, ConfigError> {
        let config = Config::from_written(self)?;
        // nanoGPT's GPT-2 names define the model's sizes.
        if let InitFrom::Pretrained(name) = config.init_from()
            && let Some(sizes) = InitFrom::nanogpt_sizes(name)
        {
            let mut written = self.clone();
            written.merge(Written::from_pairs(name, published_gpt2(sizes))?);
            let config = Config::from_written(&written)?;
            rules::check(&config, &written)?;
            return Ok(config);
        }
        rules::check(&config, self)?;
        Ok(config)
    }
}

/// The model keys of a published GPT-2. Keys of other families get their defaults, so that weights
/// of a GPT-2 replace a config's other family.
fn published_gpt2([layers, heads, channels]: [u32; 3]) -> Vec<(&'static str, ConfigValue)> {
    let unset = rules::NOT_GPT2.iter().filter_map(|name| Key::find(name));
    let mut keys: Vec<_> = unset.map(|key| (key.name, key.default.clone())).collect();
    keys.extend([
        ("family", Family::Gpt2.name().into()),
        ("n_layer", layers.into()),
        ("n_head", heads.into()),
        ("n_embd", channels.into()),
        ("bias", true.into()),
        ("gelu", Gelu::Tanh.name().into()),
        ("vocab_size", GPT2_VOCAB.into()),
    ]);
    keys
}
