"""`torch.compile` inside `pretend`: Inductor compiles for the card, and its code runs on fake tensors.

Real Dynamo, AOTAutograd and Inductor produce the code that a card would run: which buffers exist,
when they are freed and reused, what the backward pass saves. That code allocates through PyTorch, so
`Live` counts it like any other code; only kernels are left out (`inductor.py`).

Compiling takes tens of seconds for a large model. If it fails because of us (another version of
PyTorch, a card that Triton does not support), the code is counted as eager, with a note: that is an
upper bound.
"""

import contextlib
import functools
import os
import sys
from unittest import mock

import torch
from torch.nn.modules import module as modules
from torch.utils._python_dispatch import _disable_current_modes

from . import device as fake_cuda
from .graphs import Graphs
from .words import say

# The minor versions with which the tests pass (`scripts/test-torch-versions`).
KNOWN = {(2, minor) for minor in range(8, 16)}
WAYS = ("count", "eager")

_HERE = os.path.dirname(os.path.abspath(__file__))
_FAKE_TENSOR = torch._subclasses.FakeTensor
_HOOKS = [name for name in vars(modules) if name.startswith("_global_") and name.endswith("_hooks")]


class Compiled:
    """Compiles for one `pretend`, and leaves nothing behind when that ends."""

    def __init__(self, counter, way):
        if way not in WAYS:
            raise ValueError(f"`compile` is {' or '.join(map(repr, WAYS))}, not {way!r}")
        self.counter = counter
        self.notes = counter.notes
        self.is_for_cuda = counter.kind == "cuda"
        self.is_eager = way == "eager"
        self._stack = None
        self._has_compiled = False
        self._modes = 0
        self._compile = torch.compile
        self.graphs = Graphs(counter)
        self.progress = None  # of a script
        self._graph_count = 0

    @contextlib.contextmanager
    def installed(self):
        """Replaces `torch.compile`; everything else is patched when it is first used."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._uninstall)
            stack.enter_context(mock.patch.object(torch, "compile", self.compile))
            stack.enter_context(self._backend())
            self._modes = torch._C._len_torch_dispatch_stack()
            if "torch._dynamo.convert_frame" in sys.modules:  # something may be compiled already
                stack.enter_context(self._frames())
                for holder in self.counter.originals.modules():
                    self._enclose(holder)
            yield

    def compile(self, model=None, **options):
        if model is None:
            return lambda model: self.compile(model, **options)
        if options.get("disable") or not self._install():
            return model
        if options.get("backend", "inductor") == "cudagraphs":
            self.notes.add("CUDA graphs", "cudagraphs-backend")
            options = {**options, "backend": "aot_eager"}
        return self._compile(model, **options)

    def _backend(self):
        """Notices a `torch.compile` that the program imported before `pretend` replaced it."""
        name = "_TorchCompileInductorWrapper"
        base = getattr(torch, name, object)

        class Inductor(base):
            def __init__(backend, *args, **kwargs):
                self._install()
                super().__init__(*args, **kwargs)

        return mock.patch.object(torch, name, Inductor, create=True)

    def _install(self):
        """Whether compiled code is counted; if so, PyTorch is ready for it afterwards."""
        if self._stack is None and not self.is_eager:
            try:
                self._check_versions()
                self._stack = self._prepared()
            except Exception as error:
                self._fall_back(error)
        elif self.is_eager:
            self.notes.add("torch.compile", "bound")
        return not self.is_eager

    def _fall_back(self, error):
        self.is_eager = True
        self._note_bound("torch.compile", error)

    def note_failure(self, name, error):
        self._note_bound(f"torch.compile of `{name}`", error)

    def note_progress(self):
        self._graph_count += 1
        if self.progress is not None:
            self.progress.say("progress-compile", count=self._graph_count)

    def _note_bound(self, key, error):
        reason = _in_one_line(error)
        self.notes.add(key, "bound-because", reason=reason, bound=lambda: say("bound"))

    def _check_versions(self):
        if not is_known():
            raise _NotSupported("unknown-pytorch", version=torch.__version__)
        if self.is_for_cuda and self.counter.capability < (7, 0):
            major, minor = self.counter.capability
            raise _NotSupported("old-card", capability=f"{major}.{minor}")

    def _prepared(self):
        from . import inductor, tracing

        _warm_up(type(self.counter))
        with contextlib.ExitStack() as stack:
            stack.enter_context(inductor.folder())
            inductor.forget_cached_answers()
            stack.callback(inductor.forget_cached_answers)
            stack.enter_context(inductor.configuration())
            if "torch._dynamo.convert_frame" not in sys.modules or not self._has_frames():
                stack.enter_context(self._frames())
            for target, name, value in (
                (torch._subclasses, "FakeTensor", _FAKE_TENSOR),
                *tracing.patches(self), *inductor.patches(self), *self._regions(),
            ):  # fmt: skip
                stack.enter_context(mock.patch.object(target, name, value, create=True))
            return stack.pop_all()

    def _uninstall(self):
        if self._stack is not None:
            self._stack.close()
            self._stack = None

    def _has_frames(self):
        from torch._dynamo import convert_frame

        return hasattr(convert_frame.CatchErrorsWrapper.__call__, "_fitgpt")

    @contextlib.contextmanager
    def _frames(self):
        """Compiles each frame outside our modes and hooks, and counts it as eager if that fails."""
        from torch._dynamo import convert_frame, exc

        convert = convert_frame.CatchErrorsWrapper.__call__
        # What a program does wrong is raised, as on a card.
        raised = tuple(
            getattr(exc, name)
            for name in ("Unsupported", "UserError", "FailOnRecompileLimitHit", "RecompileError")
            if hasattr(exc, name)
        )

        def converted(wrapper, frame, *args, **kwargs):
            # Inside a mode's handler, that mode is off: then this is the count, not the program.
            is_counting = torch._C._len_torch_dispatch_stack() < self._modes
            is_ours = is_counting or frame.f_code.co_filename.startswith(_HERE)
            self._has_compiled = True
            if is_ours or not self._install():
                return convert_frame.ConvertFrameReturn()
            copies = self.counter.autocast.copies  # tracing must not leave any
            with _disable_current_modes(), self.hooks_off(), mock.patch.dict(copies):
                try:
                    return convert(wrapper, frame, *args, **kwargs)
                except raised:
                    raise
                except Exception as error:
                    # What PyTorch runs eagerly by itself, like bfloat16 on a card that emulates it.
                    # Some versions wrap this if caches are off, as ours are.
                    if not isinstance(getattr(error, "inner_exception", error), exc.SkipFrame):
                        self.note_failure(frame.f_code.co_name, error)
                    return convert_frame.ConvertFrameReturn()

        converted._fitgpt = True
        try:
            with mock.patch.object(convert_frame.CatchErrorsWrapper, "__call__", converted):
                yield
        finally:
            if self._has_compiled:  # not earlier: a frame that is being compiled would lose its cache
                with _disable_current_modes(), _backends_kept():
                    torch._dynamo.reset()

    def _regions(self):
        from torch._dynamo import eval_frame

        call = eval_frame._TorchDynamoContext.__call__

        def wrap(context, function):
            made = call(context, function)
            return made if isinstance(made, torch.nn.Module) else self._region(made)

        yield eval_frame._TorchDynamoContext, "__call__", wrap
        yield modules, "_has_any_global_hook", lambda: False

    def _enclose(self, module):
        """Makes regions of what was compiled before `pretend`; `Originals` undoes it."""
        from torch._dynamo.eval_frame import OptimizedModule

        if isinstance(module, OptimizedModule):
            module.forward = self._region(module.forward)
        elif getattr(module, "_compiled_call_impl", None) is not None:
            module._compiled_call_impl = self._region(module._compiled_call_impl)

    def _region(self, function):
        """Calls compiled code without our hooks on modules: Dynamo would compile them too."""

        @functools.wraps(function)
        def run(*args, **kwargs):
            if not self.counter.is_running:
                return function(*args, **kwargs)
            with self.hooks_off():
                return function(*args, **kwargs)

        return run

    @contextlib.contextmanager
    def hooks_off(self):
        with contextlib.ExitStack() as stack:
            for name in _HOOKS:
                stack.enter_context(mock.patch.dict(getattr(modules, name), clear=True))
            yield

    @contextlib.contextmanager
    def modes_on(self):
        """Makes tensors fake while Dynamo traces, for code that it runs instead of tracing."""
        with self.counter.fake_mode, self.counter:
            yield


def _backends_kept():
    """PyTorch 2.8 crashes if it forgets a backend whose code is called again."""
    if not torch.__version__.startswith("2.8."):
        return contextlib.nullcontext()
    return mock.patch.object(torch._dynamo, "_reset_guarded_backend_cache", lambda: None)


def is_known():
    """Whether the installed PyTorch is one whose compiled code is counted."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) in KNOWN


@functools.cache
def _warm_up(mode):
    """Lets Dynamo build its tables of PyTorch's functions from the real ones."""
    import torch._dynamo
    import torch._inductor.config
    from torch._dynamo import trace_rules
    from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

    from . import tracing

    tracing.random_ops_runnable(mode)
    with torch._inductor.config.patch(compile_threads=1):  # older versions start processes otherwise
        import torch._inductor.compile_fx  # noqa: F401

    real = mock.patch.object(torch._subclasses, "FakeTensor", _FAKE_TENSOR)
    with fake_cuda.suspended(), real, _disable_current_modes():
        trace_rules.get_torch_obj_rule_map()
        TorchInGraphFunctionVariable._get_handlers()
        torch._dynamo.optimize("aot_eager")(lambda x: x + 1)(torch.ones(1))


class _NotSupported(Exception):
    """A version of PyTorch or a card for which compiled code is not counted."""

    def __init__(self, message, **gaps):
        super().__init__(message)
        self.sentence = lambda: say(message, **gaps)


def _in_one_line(error):
    if isinstance(error, _NotSupported):
        return error.sentence
    error = getattr(error, "inner_exception", error)
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
