"""`python -m fitgpt …` is `fitgpt …`."""

import os
import subprocess
import sys

from fitgpt import program


def main():
    command = [program(), *sys.argv[1:]]
    if os.name == "posix":
        os.execv(command[0], command)
    sys.exit(subprocess.run(command).returncode)


if __name__ == "__main__":
    main()
