"""Invented web texts, as many as wanted: documents of about three kilobytes.

Words are made of syllables, with punctuation, numbers, line breaks, accents, Chinese, Japanese and
emoji among them. A seed gives the same documents everywhere.
"""

import numpy

SYLLABLES = (
    "a al an ar be ber bo ca ci co con da de den der di do el en er es et fa fi for ga ge gi go ha "
    "he hi in ing is it ka ke la le li lo ma me men mi mo na ne ni no nor o of on or pa per pi po "
    "pre pro qua ra re ri ro sa se si so ster sul ta te ten ter ti tion to tra tri u un ver vi vo "
    "wa we wi wo ya"
).split()
OTHERS = (
    ["\n\n", "\n", ".\n\n", "-", "—", "(", ")", '"', "it's", "we'll", "they've", "I'm", "<|endoftext|>"]
    + ["https://example.org/a/b?c=1&d=%20", "naïve", "façade", "Straße", "año", "日本語のテキスト", "中文文本。"]
    + ["😀", "👩\u200d👩\u200d👧", "\t", "   ", "...", "!!!", "e.g.", "3.14159", "$1,000", "C++"]
)


PHRASES, PHRASE_WORDS = 200_000, 5


class Texts:
    """Documents, one after the other."""

    def __init__(self, seed=1):
        self.random = numpy.random.default_rng(seed)
        self.phrases = numpy.array(self.made_phrases(self.made_words(40_000)), dtype=object)

    def made_words(self, count):
        parts = self.random.choice(SYLLABLES, (count, 4)).tolist()
        lengths = self.random.integers(1, 5, count).tolist()
        words = ["".join(some[:n]) for some, n in zip(parts, lengths)]
        numbers = self.random.integers(0, 100_000, count).tolist()
        for at in range(count):
            if at % 7 == 0:
                words[at] = words[at].capitalize()
            if at % 9 == 3:
                words[at] += ",.;:?"[at % 5]
            if at % 23 == 5:
                words[at] = str(numbers[at])
        words[40 : 40 + 11 * len(OTHERS) : 11] = OTHERS
        return words

    def made_phrases(self, words):
        """Drawn by Zipf's law; a phrase is drawn at once, since Python is slow."""
        sums = numpy.cumsum(1.0 / (numpy.arange(len(words)) + 3.0))
        drawn = numpy.searchsorted(sums, self.random.random((PHRASES, PHRASE_WORDS)) * sums[-1])
        return [" ".join([words[at] for at in some]) for some in drawn.tolist()]

    def batch(self, documents=1000):
        """Some documents."""
        lengths = numpy.clip(self.random.lognormal(4.1, 1.0, documents), 1, 12_000).astype(int)
        drawn = self.phrases[self.random.integers(0, PHRASES, lengths.sum())].tolist()
        ends = numpy.cumsum(lengths).tolist()
        starts = [0, *ends[:-1]]
        return [" ".join(drawn[start:end]) for start, end in zip(starts, ends)]
