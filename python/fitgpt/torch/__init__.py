"""Counts the memory of PyTorch code without running it, and explains when a run has too little.

    import fitgpt.torch as ft

    with ft.pretend(device="cuda") as m:
        model = build()
        with m.phase("train"):
            step(model)
    print(m.report("RTX 4070"))
"""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("`fitgpt.torch` needs PyTorch 2.8 or later: `pip install torch`") from error

from .advice import Advice, Option, advise
from .guard import guard
from .measured import Measured
from .pretend import pretend

__all__ = ["Advice", "Measured", "Option", "advise", "guard", "lightning", "pretend", "transformers"]


def __getattr__(name):
    """`transformers` and `lightning` are imported when they are used."""
    if name in ("lightning", "transformers"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
