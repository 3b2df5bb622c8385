//! The random numbers of one story.

use crate::counter;

/// Changing it changes the corpus, and with it every figure measured on it.
const SEED: u64 = 20_240_520;

/// Random numbers for one story, independent of other stories.
pub(super) struct StoryRandom {
    story: u64,
    drawn: u64,
}

impl StoryRandom {
    pub(super) fn of_story(story: u64) -> Self {
        Self { story, drawn: 0 }
    }

    /// An index below `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.drawn += 1;
        counter::below(counter::draw([SEED, self.story, self.drawn]), n as u64) as usize
    }

    /// True once in `n` times.
    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Any of them.
    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Two different ones.
    pub(super) fn pick_two<T: Copy>(&mut self, choices: &[T]) -> [T; 2] {
        let first = self.below(choices.len());
        let second = (first + 1 + self.below(choices.len() - 1)) % choices.len();
        [choices[first], choices[second]]
    }
}
