"""Checks that hooks, context managers and threads never replace a program's own exception."""

import io
import os
import sys
import threading
import unittest
from unittest import mock

import torch
from torch import nn

import fitgpt.torch as ft
from fitgpt.torch.guard import OutOfMemory


class Refusing(io.StringIO):
    """A stream that cannot be written to."""

    def write(self, text):
        raise OSError(28, "No space left on device")


class Mine(Exception):
    """An exception of the program."""


class HooksTest(unittest.TestCase):
    def test_an_error_arrives_whatever_stderr_is(self):
        closed = io.StringIO()
        closed.close()
        ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        for stream in (closed, Refusing(), ascii_only, None):
            # Without a stderr the diagnosis goes to stdout.
            out = mock.patch.object(sys, "stdout", io.StringIO())
            with self.subTest(stream=stream), out, mock.patch.object(sys, "stderr", stream):
                with self.assertRaises(OutOfMemory), ft.guard():
                    raise OutOfMemory("CUDA out of memory. Tried to allocate 20.00 MiB")

    def test_an_error_arrives_without_the_program_in_a_deleted_folder_or_with_an_odd_config(self):
        error = OutOfMemory("CUDA out of memory. Tried to allocate 20.00 MiB")
        missing = mock.patch("fitgpt.program", side_effect=FileNotFoundError("fitgpt"))
        for setup, config in ((missing, None), (mock.MagicMock(), object()), (mock.MagicMock(), {"n_layer": "many"}),
                              (mock.MagicMock(), "/no/such/file.py")):  # fmt: skip
            with self.subTest(config=config), setup, mock.patch.object(sys, "stderr", io.StringIO()):
                with self.assertRaises(OutOfMemory) as caught, ft.guard(config):
                    raise error
                self.assertIs(caught.exception, error)

    def test_other_exceptions_pass_through_both_unchanged(self):
        for error in (Mine("mine"), KeyboardInterrupt(), SystemExit(7), GeneratorExit(), StopIteration(3), RecursionError()):
            for around in (ft.guard, ft.pretend):
                with self.subTest(error=error, around=around):
                    try:
                        with around():
                            raise error
                    except BaseException as caught:
                        # `contextlib` itself wraps a StopIteration in nothing.
                        self.assertIs(caught, error)

    def test_an_exception_of_a_hook_is_the_one_that_arrives(self):
        model = nn.Linear(4, 4)

        def fail(*_):
            raise Mine("in a hook")

        for register in (model.register_forward_hook, model.register_forward_pre_hook, model.register_full_backward_hook):
            handle = register(fail)
            with self.subTest(register=register.__name__), self.assertRaises(Mine), ft.pretend():
                inside = model.to("cuda")
                inside(torch.ones(2, 4, device="cuda")).sum().backward()
            handle.remove()
        self.assertEqual(model.weight.device.type, "cpu")
        self.assertEqual(model(torch.ones(2, 4)).shape, (2, 4))

    def test_an_exception_in_a_saved_tensor_hook_arrives_and_leaves_nothing_behind(self):
        def fail(_):
            raise Mine("while packing")

        weight = torch.ones(3, requires_grad=True)
        with self.assertRaises(Mine), ft.pretend():
            with torch.autograd.graph.saved_tensors_hooks(fail, lambda it: it):
                (weight * weight).sum().backward()
        self.assertIsNone(weight.grad)
        (weight * weight).sum().backward()
        self.assertEqual(weight.grad.tolist(), [2, 2, 2])

    def test_a_guard_and_a_pretend_can_be_inside_each_other(self):
        with ft.guard(), ft.pretend() as m, ft.guard():
            m.phase("train")
            held = torch.ones(1000, device="cuda")
        self.assertGreaterEqual(m.peak_bytes, 4000)
        self.assertEqual(held.shape, (1000,))

    def test_a_thread_that_outlives_a_pretend_ends(self):
        begun, over, caught = threading.Event(), threading.Event(), []

        def work():
            begun.wait(60)
            over.wait(60)
            try:
                caught.append(torch.ones(3).sum().item())
            except Exception as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        with ft.pretend():
            begun.set()
            torch.ones(3, device="cuda")
        over.set()
        thread.join(60)
        self.assertEqual(caught, [3.0])

    def test_a_thread_inside_a_pretend_computes_or_says_why_not(self):
        caught = []

        def work():
            try:
                caught.append(torch.ones(3, device="cuda").shape)
            except Exception as error:
                caught.append(str(error))

        with ft.pretend():
            thread = threading.Thread(target=work)
            thread.start()
            thread.join(60)
        self.assertEqual(len(caught), 1)
        if isinstance(caught[0], str):
            self.assertRegex(caught[0], "thread|pretend|CUDA|NVIDIA")

    def test_a_fork_inside_a_pretend_leaves_the_parent_as_it_was(self):
        if not hasattr(os, "fork"):
            self.skipTest("no fork")
        state = torch.get_rng_state().tolist()
        with ft.pretend() as m:
            held = torch.ones(500, device="cuda")
            child = os.fork()
            if child == 0:
                os._exit(7)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
            self.assertGreaterEqual(m.bytes, 2000)
            del held
        self.assertEqual(torch.get_rng_state().tolist(), state)
