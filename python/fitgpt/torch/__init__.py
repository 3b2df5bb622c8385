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
    raise ImportError("`fitgpt.torch` needs PyTorch 2.6 or later: `pip install torch`") from error

from .pretend import pretend

__all__ = ["pretend"]
