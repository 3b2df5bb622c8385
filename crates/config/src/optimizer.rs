//! Keys of the optimizers.

use std::fmt;

use super::value::ConfigValue;

/// Which optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OptimizerChoice {
    /// `AdamW` with float32 moments, as in nanoGPT.
    AdamW,
    /// `AdamW` with 8-bit moments, as in bitsandbytes.
    AdamW8bit,
    /// Muon for the matrices of the blocks, `AdamW` for the rest.
    Muon,
    /// Lion: one moment, and updates of the same size for every element.
    Lion,
}

/// Lion's defaults: a tenth of AdamW's rates, and ten times its decay, so that their product stays.
const LION: &[(&str, ConfigValue)] = &[
    ("learning_rate", ConfigValue::Float(6e-5)),
    ("min_lr", ConfigValue::Float(6e-6)),
    ("weight_decay", ConfigValue::Float(1.0)),
    ("beta2", ConfigValue::Float(0.99)),
];

impl OptimizerChoice {
    /// All of them, in the order of lists.
    pub const ALL: [Self; 4] = [Self::AdamW, Self::AdamW8bit, Self::Muon, Self::Lion];

    /// As written in a config.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AdamW => "adamw",
            Self::AdamW8bit => "adamw8bit",
            Self::Muon => "muon",
            Self::Lion => "lion",
        }
    }

    /// Its usual spelling.
    pub const fn title(self) -> &'static str {
        match self {
            Self::AdamW => "AdamW",
            Self::AdamW8bit => "AdamW 8-bit",
            Self::Muon => "Muon",
            Self::Lion => "Lion",
        }
    }

    /// What the help adds to its name, if anything.
    pub const fn remark(self) -> &'static str {
        match self {
            Self::AdamW => "",
            Self::AdamW8bit => "8-bit moments",
            Self::Muon => "for the matrices of the blocks, AdamW for the rest",
            Self::Lion => "one moment; a tenth of AdamW's learning rate",
        }
    }

    /// Defaults that replace nanoGPT's, which suit AdamW.
    pub const fn defaults(self) -> &'static [(&'static str, ConfigValue)] {
        match self {
            Self::AdamW | Self::AdamW8bit | Self::Muon => &[],
            Self::Lion => LION,
        }
    }

    /// Its own learning rate, if that is much lower than AdamW's.
    pub fn low_rate(self) -> Option<f64> {
        let own = self.defaults().iter().find(|(key, _)| *key == "learning_rate")?;
        if let ConfigValue::Float(rate) = own.1 { Some(rate) } else { None }
    }

    pub(super) const NAMES: &'static [&'static str] = &{
        let mut names = [""; Self::ALL.len()];
        let mut index = 0;
        while index < names.len() {
            names[index] = Self::ALL[index].name();
            index += 1;
        }
        names
    };

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }
}

/// How Muon stores the matrices of its iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MuonDtype {
    /// As in `torch.optim.Muon`.
    Bfloat16,
    /// More precise, and twice the scratch.
    Float32,
}

impl MuonDtype {
    /// As written in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bfloat16 => "bfloat16",
            Self::Float32 => "float32",
        }
    }

    pub(super) const NAMES: &'static [&'static str] = &["bfloat16", "float32"];

    pub(super) fn parse(name: &str) -> Option<Self> {
        [Self::Bfloat16, Self::Float32].into_iter().find(|dtype| dtype.name() == name)
    }
}

/// The coefficients of Muon's iteration, written as one string: `3.4445, -4.775, 2.0315`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MuonCoefficients(pub [f64; 3]);

impl MuonCoefficients {
    pub(super) const FORMS: &'static [&'static str] = &["A, B, C"];

    pub(super) fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| text.trim().parse().ok().filter(|n: &f64| n.is_finite());
        let numbers: Vec<f64> = text.split(',').map(number).collect::<Option<_>>()?;
        numbers.try_into().ok().map(Self)
    }
}

impl fmt::Display for MuonCoefficients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c] = self.0;
        write!(f, "{a}, {b}, {c}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_reads_back_as_it_prints() {
        for name in OptimizerChoice::NAMES {
            assert_eq!(OptimizerChoice::parse(name).unwrap().name(), *name);
        }
        for name in MuonDtype::NAMES {
            assert_eq!(MuonDtype::parse(name).unwrap().name(), *name);
        }
    }

    #[test]
    fn coefficients_read_back_as_they_print() {
        let text = "3.4445, -4.775, 2.0315";
        assert_eq!(MuonCoefficients::parse(text).unwrap().to_string(), text);
        for text in ["", "1", "1, 2", "1, 2, 3, 4", "1, two, 3", "1, 2, inf", "1, 2, nan"] {
            assert_eq!(MuonCoefficients::parse(text), None, "{text}");
        }
    }
}
