"""Runs the tests of `fitgpt.torch`, and prints them with their times in the form of Rust's tests.

    PYTHONPATH=python:tests python -m pretend [MODULE…]

Without names it runs all modules, and fails if a test is skipped.
"""

import gc
import sys
import time
import unittest
from pathlib import Path


class TimedResult(unittest.TextTestResult):
    kind = None

    def startTest(self, test):
        super().startTest(test)
        if type(test) is not self.kind:
            self.kind = type(test)
            # `pretend` searches all objects, and the tests collect them: not those of other tests,
            # of which Inductor alone leaves half a million.
            gc.collect()
            gc.freeze()
        self.started = time.monotonic()

    def stopTest(self, test):
        failed = {id(one) for one, _ in (*self.failures, *self.errors)}
        word = "FAILED" if id(test) in failed else "ok"
        print(f"test {test.id()} ... {word} <{time.monotonic() - self.started:.3f}s>", flush=True)
        super().stopTest(test)


here = Path(__file__).resolve().parent
names = [f"pretend.{name}" for name in sys.argv[1:]]
load = unittest.defaultTestLoader
tests = load.loadTestsFromNames(names) if names else load.discover(str(here), top_level_dir=str(here.parent))
result = unittest.TextTestRunner(resultclass=TimedResult, verbosity=0).run(tests)
is_complete = names or not result.skipped
sys.exit(not (result.wasSuccessful() and result.testsRun > 0 and is_complete))
