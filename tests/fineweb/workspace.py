"""A folder in which `fitgpt prepare` runs, is killed, continues and is measured."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent


class Ended:
    """How a process ended, what it printed, and what it took."""

    def __init__(self, status, usage, peak_bytes, seconds, printed):
        self.code = os.waitstatus_to_exitcode(status)
        self.peak_bytes = peak_bytes
        self.cpu_seconds = usage.ru_utime + usage.ru_stime
        self.seconds, self.printed = seconds, printed


class PeakMemory(threading.Thread):
    """The most memory that a process held, read every few milliseconds while it lives.

    `ru_maxrss` will not do: it also counts what this process held when it started the other one.
    """

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.path, self.bytes = f"/proc/{pid}/status", 0
        self.start()

    def run(self):
        while True:
            try:
                with open(self.path) as status:
                    found = re.search(r"VmHWM:\s+(\d+) kB", status.read())
            except (FileNotFoundError, ProcessLookupError):
                return
            if not found:  # it has ended
                return
            self.bytes = int(found[1]) * 1024
            time.sleep(0.002)


class Workspace:
    def __init__(self, folder, program, random):
        self.folder, self.program, self.random = folder, str(program), random
        folder.mkdir(parents=True, exist_ok=True)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
        self.environment["LC_ALL"] = "C"
        self.server = None

    def fail(self, text):
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {text}")

    def serve(self, server, root, pause_ms=0):
        """Serves `root` as the Hugging Face hub does, until this process ends."""
        command = [str(server), str(root), str(pause_ms)]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.environment["HF_ENDPOINT"] = self.server.stdout.readline().strip()

    def close(self):
        if self.server:
            self.server.kill()
            self.server.wait()

    def run(self, *arguments, kill_after=None, stdin=None, check=True, **environment):
        """Runs the program, to its end or for some seconds; its peak memory is the system's count.

        `stdin` writes to a file that is given to it. Output goes to files: a pipe that nobody reads
        would stop the program.
        """
        out, err = self.folder / "stdout", self.folder / "stderr"
        start = time.monotonic()
        with open(out, "w") as out_file, open(err, "w") as err_file:
            child = subprocess.Popen(
                [self.program, *map(str, arguments)], cwd=self.folder, stdout=out_file, stderr=err_file,
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, env=self.environment | environment,
            )  # fmt: skip
        peak = PeakMemory(child.pid)
        if stdin:
            try:
                stdin(child.stdin)
                child.stdin.close()
            except BrokenPipeError:
                pass
        while True:
            # Without `WNOHANG` for a process that may end by itself.
            done, status, usage = os.wait4(child.pid, os.WNOHANG if kill_after is not None else 0)
            if done:
                break
            if time.monotonic() - start >= kill_after:
                child.kill()
                _, status, usage = os.wait4(child.pid, 0)
                break
            time.sleep(0.001)
        child.returncode = os.waitstatus_to_exitcode(status)
        peak.join()
        ended = Ended(status, usage, peak.bytes, time.monotonic() - start, out.read_text())
        if check and ended.code != 0 and not (kill_after is not None and ended.code == -9):
            self.fail(f"{' '.join(map(str, arguments))}: exit code {ended.code}: {self.text()}")
        return ended

    def prepare(self, *arguments, **options):
        """A whole preparation; its summary. The memory is held to what the program states."""
        ended = self.run("prepare", *arguments, "--json", **options)
        summary = json.loads(ended.printed)
        if ended.peak_bytes > summary["memory_limit_bytes"]:
            limit = summary["memory_limit_bytes"]
            self.fail(f"{arguments}: {ended.peak_bytes} bytes of memory, the limit is {limit}")
        return ended, summary

    def prepare_killed(self, kills, seconds, out, *arguments, **options):
        """Kills a preparation at `kills` random instants of `seconds`, and continues it to its end.

        Returns how many kills hit it, and how many tokens the last run found.
        """
        hit = resumed = 0
        for _ in range(kills):
            after = self.random.uniform(0, seconds)
            ended = self.run("prepare", *arguments, "--out", out, "--json", kill_after=after,
                             check=False, **options)  # fmt: skip
            if ended.code == -9:
                hit += 1
            elif ended.code == 0:
                return hit, json.loads(ended.printed)["resumed_tokens"]
            elif self.is_whole(out):
                return hit, resumed  # killed after it was published
            else:
                self.fail(f"{arguments}: exit code {ended.code} after {hit} kills: {self.text()}")
        ended = self.run("prepare", *arguments, "--out", out, "--json", check=False, **options)
        if ended.code == 0:
            resumed = json.loads(ended.printed)["resumed_tokens"]
        elif not self.is_whole(out):
            self.fail(f"{arguments}: exit code {ended.code}: {self.text()}")
        return hit, resumed

    def text(self):
        """What the last process printed; with `--json` errors are documents."""
        return (self.folder / "stdout").read_text() + (self.folder / "stderr").read_text()

    def is_whole(self, out):
        """Whether a preparation was published before it was killed: it is refused, and it is there."""
        return "--overwrite" in self.text() and not list((self.folder / out).glob(".prepar*"))

    def files(self, out):
        """The files of a dataset, by name, with their hashes."""
        found = {}
        for path in sorted((self.folder / out).iterdir()):
            if path.name != ".lock":
                found[path.name] = self.hash(path)
        return found

    @staticmethod
    def hash(path):
        digest = hashlib.sha256()
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
        return digest.hexdigest()
