//! Configuration.

/// Which GELU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gelu {
    /// With the error function, as nanoGPT.
    Exact,
    /// With tanh, as OpenAI's GPT-2.
    Tanh,
}
