#!/usr/bin/env python3
"""Trains on two hosts with a slow link between them, and compares with `plan --network`.

    bench/ranks_network.py PROGRAM [RATE ...]

PROGRAM is `fitgpt` built with feature `mpi` against Open MPI; RATE is a rate for `plan --network`
(default: 1Gb and 200Mb). The hosts are two network namespaces of this machine with different host
names, connected by a pair of virtual interfaces that `tc` limits in both directions. Needs root,
iproute2 and unshare.

Prints the planned time for the messages of a step, and the time that rank 0 waited for others. If
gradients are sent after the backward pass, the wait should equal the plan; if they are sent during
it, the wait should be between half of the plan (the weights) and all of it. The wait also includes
any difference in speed between the two ranks, which share a machine. Exits with 1 if the two runs
differ in a bit, or if the wait after the backward pass is not within 25 % of the plan.
"""

import array
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

KEYS = ["--dataset=random", "--device=cpu", "--threads=1", "--vocab_size=5000", "--n_layer=6", "--n_head=8",
        "--n_embd=512", "--block_size=128", "--dropout=0.0", "--batch_size=4", "--gradient_accumulation_steps=2",
        "--compile=False", "--eval_iters=1", "--eval_interval=100000", "--num_samples=1", "--max_new_tokens=1",
        "--max_iters=4"]  # fmt: skip
TOLERANCE = 0.25
HOSTS = ["fitgpt-a", "fitgpt-b"]
ADDRESSES = ["10.99.7.1", "10.99.7.2"]


def run(*command, **more):
    return subprocess.run([str(part) for part in command], check=True, **more)


class Link:
    """Two namespaces, and a pair of interfaces between them."""

    def __enter__(self):
        for host in HOSTS:
            run("ip", "netns", "add", host)
        a, b = HOSTS
        run("ip", "link", "add", "link-a", "netns", a, "type", "veth", "peer", "name", "link-b", "netns", b)
        for host, link, address in zip(HOSTS, ["link-a", "link-b"], ADDRESSES):
            inside = ["ip", "netns", "exec", host]
            run(*inside, "ip", "address", "add", f"{address}/24", "dev", link)
            run(*inside, "ip", "link", "set", link, "up")
            run(*inside, "ip", "link", "set", "lo", "up")
            run(*inside, "tc", "qdisc", "add", "dev", link, "root", "tbf", "rate", "1gbit", "burst", "256kb", "latency", "100ms")
        return self

    def __exit__(self, *_):
        for host in HOSTS:
            subprocess.run(["ip", "netns", "delete", host], check=False)

    def limit(self, rate):
        for host, link in zip(HOSTS, ["link-a", "link-b"]):
            run("ip", "netns", "exec", host, "tc", "qdisc", "replace", "dev", link, "root", "tbf",
                "rate", rate.replace("b", "bit").lower(), "burst", "256kb", "latency", "100ms")  # fmt: skip


def on_host(host, *command):
    """The command line that runs `command` in the network of `host`, with its name."""
    return ["ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c", f"hostname {host}; exec \"$@\"", "sh", *map(str, command)]


def train(program, folder, out, overlap):
    # Open MPI starts its daemon on the other host with this instead of ssh.
    agent = folder / "agent"
    agent.write_text(
        "#!/bin/sh\nshift\n"
        f"exec ip netns exec {HOSTS[1]} unshare --uts sh -c \"hostname {HOSTS[1]}; $*\"\n"
    )
    agent.chmod(0o755)
    mpirun = ["mpirun", "-np", "2", "--host", ",".join(f"{address}:1" for address in ADDRESSES), "--bind-to", "none",
              "--mca", "plm_rsh_agent", agent, "--mca", "btl", "tcp,self", "--mca", "pml", "ob1",
              "--mca", "btl_tcp_if_include", "10.99.7.0/24", "--mca", "oob_tcp_if_include", "10.99.7.0/24",
              # On one TCP connection the handshake of a message waits behind the data of another one in the
              # same direction, so two ranks that send to each other reach half of the rate.
              "--mca", "btl_tcp_links", "2", "-x", "FITGPT_OVERLAP"]  # fmt: skip
    if os.getuid() == 0:
        mpirun.append("--allow-run-as-root")
    command = on_host(HOSTS[0], *mpirun, program, "train", *KEYS, f"--out_dir={out}", "--overwrite")
    ran = subprocess.run(command, cwd=folder, env={**os.environ, "FITGPT_OVERLAP": overlap}, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{ran.stdout}{ran.stderr}")
    if "2 machine" not in ran.stdout:
        sys.exit(f"the ranks are not on two hosts:\n{ran.stdout}")
    steps = [e for e in map(json.loads, open(folder / out / "events.jsonl")) if e["event"] == "step"]
    bits = [(step["loss"], step["grad_norm"]) for step in steps]
    return [step["ms"] for step in steps[1:]], [step["wait_ms"] for step in steps[1:]], bits


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program, rates = Path(sys.argv[1]).resolve(), sys.argv[2:] or ["1Gb", "200Mb"]
    passed = True
    with tempfile.TemporaryDirectory() as folder, Link() as link:
        folder = Path(folder)
        data = folder / "data/random"
        data.mkdir(parents=True)
        numbers = random.Random(7)
        for name in ["train.bin", "val.bin"]:
            array.array("H", [numbers.randrange(65) for _ in range(50_000)]).tofile(open(data / name, "wb"))
        for rate in rates:
            link.limit(rate)
            plan = run(program, "plan", *KEYS[1:], "--ranks=2", f"--network={rate}", "--json", capture_output=True, text=True)
            network = json.loads(plan.stdout)["ranks"]["network"]
            planned = 1e3 * network["transfer_s"]
            print(f"{rate}: {network['sent_bytes'] / 1e6:.1f} MB per step; {planned:.0f} ms according to the plan")
            results = []
            for overlap, name in [("0", "after"), ("1", "during")]:
                ms, waits, bits = train(program, folder, f"out-{overlap}", overlap)
                results.append((waits, bits))
                print(f"  gradients sent {name} the backward pass: waited {statistics.median(waits):.0f} ms "
                      f"(best {min(waits):.0f}) of a step of {statistics.median(ms):.0f} ms")  # fmt: skip
            (waits, bits), (_, other_bits) = results
            if bits != other_bits:
                passed = False
                print("  the runs differ")
            if abs(min(waits) / planned - 1) > TOLERANCE:
                passed = False
                print(f"  the best wait is {min(waits) / planned:.2f} of the plan")
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
