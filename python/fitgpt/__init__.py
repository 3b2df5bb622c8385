"""FitGPT: plans the memory of training before it starts. `fitgpt.torch` counts PyTorch code.

Promise: the wheel works in an empty environment. Test: `tests/wheel/smoke.py`.
"""

import os
import pathlib
import shutil
import sys
import sysconfig

__all__ = ["program"]


def program():
    """The path of the `fitgpt` program: `$FITGPT`, else the installed one, else a build here."""
    name = "fitgpt.exe" if sys.platform == "win32" else "fitgpt"
    if chosen := os.environ.get("FITGPT"):
        return chosen
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    folders = [
        pathlib.Path(sys.executable).parent,
        pathlib.Path(sysconfig.get_path("scripts")),
        pathlib.Path(sysconfig.get_path("scripts", f"{os.name}_user")),
        root / "target" / "release",
        root / "target" / "debug",
    ]
    for folder in folders:
        if (folder / name).is_file():
            return str(folder / name)
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"`{name}` is not installed: `pip install fitgpt`, or set FITGPT")
    return found
