"""Checks an installed wheel. Run it with the Python of a venv that has nothing else.

    VENV/bin/python smoke.py EXAMPLES

`EXAMPLES` is the repository's folder of logs for the doctor. Every check ends in an assertion.
"""

import json
import pathlib
import subprocess
import sys
import sysconfig


def run(*command, code=0):
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == code, (command, done.returncode, done.stderr)
    return done.stdout


def main():
    examples = pathlib.Path(sys.argv[1])
    name = "fitgpt.exe" if sys.platform == "win32" else "fitgpt"
    fitgpt = str(pathlib.Path(sysconfig.get_path("scripts")) / name)

    version = run(fitgpt, "--version")
    assert version.startswith("fitgpt "), version
    assert run(sys.executable, "-m", "fitgpt", "--version") == version
    code = run(sys.executable, "-m", "fitgpt", "plan", "no-such-config.py", code=2)
    assert code == "" or "error" in code

    plan = json.loads(run(fitgpt, "plan", "--gpu", "RTX 4070", "--batch_size=1", "--json"))
    assert plan["device"]["usable_bytes"] > 0
    options = json.loads(run(fitgpt, "fit", "--gpu", "RTX 4070", "--json"))
    assert options
    log = examples / "estimate-loss-batch-64.log"
    diagnosis = json.loads(run(fitgpt, "doctor", str(log), "--json"))
    assert diagnosis["findings"], diagnosis

    import fitgpt as package

    assert package.program() == fitgpt, package.program()
    assert "torch" not in sys.modules, "`import fitgpt` must not need PyTorch"
    try:
        import fitgpt.torch  # noqa: F401
    except ImportError as error:
        assert "PyTorch" in str(error), error
    else:
        assert "torch" in sys.modules
    print(f"the wheel works: {version.strip()}, Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
