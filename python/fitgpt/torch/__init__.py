"""Counts the memory of PyTorch code without running it, and explains when a run has too little.

    import fitgpt.torch as ft

    with ft.pretend(device="cuda") as m:
        model = build()
        with m.phase("train"):
            step(model)
    print(m.report("RTX 4070"))
"""

from .pretend import pretend

__all__ = ["pretend"]
