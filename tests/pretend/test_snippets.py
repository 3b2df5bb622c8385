"""Checks that `pretend("cpu")` counts the same bytes as real tensors in short pieces of user code."""

import unittest

from pretend.snippets import ALL, layers, loops  # noqa: F401
from pretend.test_counts import peaks


class Snippets(unittest.TestCase):
    def test_every_snippet_holds_what_real_tensors_hold(self):
        for run in ALL:
            with self.subTest(run.__name__):
                self.assertEqual(*peaks(run))


if __name__ == "__main__":
    unittest.main()
