"""What a process in a container may do, told by the kernel and by trying."""

from __future__ import annotations

SCRIPT = """
import json, os

FOLDERS = "/ /app /app/runs /opt/venv /home/user /home/user/.cache /etc /var/tmp /tmp".split()

def writable(folder):
    path = os.path.join(folder, f".tried-{os.getpid()}")
    try:
        open(path, "w").close()
    except OSError:
        return False
    os.remove(path)
    return True

with open("/proc/self/status") as file:
    status = dict(line.rstrip().split(":\\t", 1) for line in file)
print(json.dumps({
    "user": os.getuid(),
    "group": os.getgid(),
    "capabilities": [status[kind] for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "no_new_privileges": status["NoNewPrivs"],
    "writable": [folder for folder in FOLDERS if writable(folder)],
}))
"""
"""Python to run inside; prints a JSON object with the keys of CONFINED and the folders that are `writable`."""

CONFINED = {"user": 1000, "group": 1000, "capabilities": ["0" * 16] * 5, "no_new_privileges": "1"}
