"""Ends the training of libraries that have a loop of their own, so that they evaluate and save.

Each is patched when the script imports it. What is changed is how long they train, and that they
report and upload nothing.
"""

import contextlib
import importlib.abc
import importlib.util
import sys
from unittest import mock

from . import kernels, nowhere


@contextlib.contextmanager
def installed(loop, overrides=None):
    """Patches libraries when they are imported, and those that are imported already.

    `overrides` are arguments of a `transformers.Trainer` that replace the script's.
    """
    loop.overrides = overrides or {}
    with contextlib.ExitStack() as stack:

        def patch(name):
            for target, attribute, value in _PATCHES[name](loop):
                stack.enter_context(mock.patch.object(target, attribute, value))

        finder = _Finder(patch)
        for name in _PATCHES:
            if name in sys.modules:
                if name not in kernels.TRITON:  # which `pretend` has patched
                    patch(name)
                finder.waiting.discard(name)
        sys.meta_path.insert(0, finder)
        stack.callback(sys.meta_path.remove, finder)
        yield


class _Finder(importlib.abc.MetaPathFinder):
    """Calls `patch` after a module of `_PATCHES` has been imported."""

    def __init__(self, patch):
        self.patch = patch
        self.waiting = set(_PATCHES)

    def find_spec(self, name, path=None, target=None):
        if name not in self.waiting:
            return None
        self.waiting.discard(name)  # the other finders find it
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                self.patch(name)

            spec.loader.exec_module = exec_module
        return spec


def _transformers(loop):
    from . import trainer_options
    from transformers.trainer import Trainer
    from transformers.trainer_callback import TrainerCallback

    init = Trainer.__init__

    class Stop(TrainerCallback):
        """Evaluates and saves after the last step, if the arguments do either, and ends."""

        def on_step_end(self, args, state, control, **_):
            if loop.is_done:
                control.should_evaluate = args.eval_strategy != "no"
                control.should_save = args.save_strategy != "no"
                control.should_training_stop = True
            return control

    def __init__(trainer, *args, **kwargs):
        given = kwargs.get("args") or next((a for a in args if hasattr(a, "gradient_accumulation_steps")), None)
        if given is not None:
            for name, value in loop.overrides.items():
                if hasattr(given, name):
                    setattr(given, name, value)
            given.report_to, given.push_to_hub, given.load_best_model_at_end = [], False, False
        init(trainer, *args, **kwargs)
        trainer_options.apply(trainer, loop.overrides)
        trainer.args.report_to, trainer.args.push_to_hub = [], False
        trainer.add_callback(Stop())
        loop.trainer = trainer

    yield Trainer, "__init__", __init__
    yield Trainer, "push_to_hub", lambda *_, **__: None


def _lightning(name):
    def patches(loop):
        Trainer = sys.modules[name].Trainer
        fit = Trainer.fit

        def fit_shortly(trainer, *args, **kwargs):
            micro_batches = loop.wanted * max(1, trainer.accumulate_grad_batches)
            trainer.limit_train_batches = micro_batches
            trainer.limit_val_batches = trainer.num_sanity_val_steps = min(4, trainer.limit_val_batches or 0)
            trainer.fit_loop.epoch_loop.max_steps, trainer.fit_loop.max_epochs = loop.wanted, 1
            trainer.val_check_interval, trainer.check_val_every_n_epoch = 1.0, 1
            trainer.loggers = []
            return fit(trainer, *args, **kwargs)

        yield Trainer, "fit", fit_shortly

    return patches


def _accelerate(_):
    Accelerator = sys.modules["accelerate.accelerator"].Accelerator
    for name in ("init_trackers", "log", "end_training"):
        yield Accelerator, name, lambda *_, **__: None


def _safetensors(loop):
    def save_file(tensors, filename, metadata=None):
        loop.measured.notes.add("safetensors", "nothing-written")
        with loop.during("save"):
            nowhere.write_shapes(tensors, filename, metadata)

    yield sys.modules["safetensors.torch"], "save_file", save_file


def _tokenizers(loop):
    def save_pretrained(*_, **__):
        loop.measured.notes.add("tokenizer", "nothing-written")  # its writer is not Python's
        return ()

    module = sys.modules["transformers.tokenization_utils_base"]
    yield module.PreTrainedTokenizerBase, "save_pretrained", save_pretrained


def _triton(name):
    return lambda loop: kernels.idle_triton(name, loop.measured.notes)


_PATCHES = {
    "accelerate.accelerator": _accelerate,
    "huggingface_hub.hf_api": lambda _: nowhere.uploads(),
    "lightning.pytorch.trainer.trainer": _lightning("lightning.pytorch.trainer.trainer"),
    "pytorch_lightning.trainer.trainer": _lightning("pytorch_lightning.trainer.trainer"),
    "safetensors.torch": _safetensors,
    "transformers.tokenization_utils_base": _tokenizers,
    "transformers.trainer": _transformers,
    **{name: _triton(name) for name in kernels.TRITON},
}
