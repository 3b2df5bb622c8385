"""Runs the tests of `fitgpt.torch`, and prints them with their times in the form of Rust's tests.

    PYTHONPATH=python:tests python -m pretend
"""

import sys
import time
import unittest
from pathlib import Path


class TimedResult(unittest.TextTestResult):
    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def stopTest(self, test):
        failed = {id(one) for one, _ in (*self.failures, *self.errors)}
        word = "FAILED" if id(test) in failed else "ok"
        print(f"test {test.id()} ... {word} <{time.monotonic() - self.started:.3f}s>", flush=True)
        super().stopTest(test)


here = Path(__file__).resolve().parent
tests = unittest.defaultTestLoader.discover(str(here), top_level_dir=str(here.parent))
result = unittest.TextTestRunner(resultclass=TimedResult, verbosity=0).run(tests)
sys.exit(not (result.wasSuccessful() and result.testsRun > 0 and not result.skipped))
