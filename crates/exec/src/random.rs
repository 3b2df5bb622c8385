//! Dropout masks from counters: a pure function of (seed, step, sequence, layer, site, element).
//! Masks are never stored; recomputing one gives the same mask.

use fitgpt_program::{Dropout, DropoutSite, hash::splitmix64};

use crate::Arguments;

/// Murmur3's finaliser: every input bit affects every output bit.
pub const fn fmix32(mut h: u32) -> u32 {
    h ^= h >> 16;
    h = h.wrapping_mul(0x85eb_ca6b);
    h ^= h >> 13;
    h = h.wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

/// Whether `element` is kept under `key`. Uses 32-bit operations only, so that it vectorises and
/// gives the same result on any device.
#[inline(always)]
pub const fn keeps(key: [u32; 2], element: u32, threshold: u32) -> bool {
    let h = fmix32(element.wrapping_mul(0x9e37_79b9).wrapping_add(key[0]));
    fmix32(h ^ key[1]) >= threshold
}

/// The layer and site of a dropout, packed into one word of its key.
pub fn site(dropout: &Dropout) -> u64 {
    let site = match dropout.site {
        DropoutSite::Embedding => 0,
        DropoutSite::Attention => 1,
        DropoutSite::AttentionOut => 2,
        DropoutSite::MlpOut => 3,
    };
    u64::from(dropout.layer) << 2 | site
}

/// The mask of one dropout for one sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mask {
    /// The key of this sequence, layer and site.
    pub key: [u32; 2],
    /// Elements whose hash is below this are dropped.
    pub threshold: u32,
    /// The factor of a kept element.
    pub scale: f32,
}

impl Mask {
    /// The mask of sequence `index` of this micro-batch.
    pub fn new(dropout: &Dropout, arguments: &Arguments, index: u64) -> Self {
        let mut state = arguments.seed;
        let sequence = arguments.first_sequence + index;
        for word in [arguments.step, sequence, site(dropout)] {
            state = splitmix64(state ^ word);
        }
        Self {
            key: [state as u32, (state >> 32) as u32],
            threshold: (f64::from(dropout.rate) * 4_294_967_296.0) as u32,
            scale: 1.0 / (1.0 - dropout.rate),
        }
    }

    /// 0 for a dropped element, `scale` for a kept one. Elements are numbered within the
    /// sequence: `t · C + c`, or `(head · T + i) · T + j` for attention.
    #[inline(always)]
    pub fn factor(&self, element: u32) -> f32 {
        if keeps(self.key, element, self.threshold) { self.scale } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE_ONE_FIFTH: Dropout = Dropout { rate: 0.2, layer: 3, site: DropoutSite::MlpOut };

    fn kept(mask: &Mask) -> Vec<bool> {
        (0..100_000).map(|e| mask.factor(e) > 0.0).collect()
    }

    #[test]
    fn a_mask_drops_its_share() {
        let mask = Mask::new(&RATE_ONE_FIFTH, &Arguments::default(), 0);
        let dropped = kept(&mask).iter().filter(|k| !**k).count();
        // Five standard deviations of a binomial with n = 100,000 and p = 0.2 are 632.
        assert!(dropped.abs_diff(20_000) < 632, "{dropped}");
    }

    #[test]
    fn a_sequence_has_the_same_mask_in_any_micro_batch() {
        let early = Arguments { first_sequence: 4, ..Arguments::default() };
        let (a, b) = (Mask::new(&RATE_ONE_FIFTH, &early, 3), {
            Mask::new(&RATE_ONE_FIFTH, &Arguments::default(), 7)
        });
        assert_eq!(a, b);
    }

    #[test]
    fn masks_of_other_steps_sequences_layers_and_sites_agree_only_by_chance() {
        let arguments = Arguments::default();
        let first = kept(&Mask::new(&RATE_ONE_FIFTH, &arguments, 0));
        let others = [
            Mask::new(&RATE_ONE_FIFTH, &Arguments { step: 1, ..arguments }, 0),
            Mask::new(&RATE_ONE_FIFTH, &arguments, 1),
            Mask::new(&Dropout { layer: 4, ..RATE_ONE_FIFTH }, &arguments, 0),
            Mask::new(
                &Dropout { site: DropoutSite::AttentionOut, ..RATE_ONE_FIFTH },
                &arguments,
                0,
            ),
        ];
        for other in others {
            let agree = kept(&other).iter().zip(&first).filter(|(a, b)| a == b).count();
            // 0.8² + 0.2² of 100,000, within five standard deviations (738).
            assert!(agree.abs_diff(68_000) < 738, "{agree}");
        }
    }
}
