"""The most bytes that PyTorch's CPU allocator handed out, from the events of its profiler.

Unlike `real.py` this installs no dispatch mode, so the autograd engine behaves as in a user's run.
The allocator also sees temporaries inside kernels, so the code under test must only call kernels
that have none.
"""

import os

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler reports that there is no card

import torch  # noqa: E402

# A Python number is passed to an op as a tensor of 8 bytes in host memory, on every device.
NUMBER_BYTES = 8


def peak(run):
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        run()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        size = event.nbytes()
        if abs(size) != NUMBER_BYTES:
            held += (1 if size > 0 else -1) * ((abs(size) + 511) // 512 * 512)
            most = max(most, held)
    return most
