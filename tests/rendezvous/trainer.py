"""The program that test_torchrun.py launches by its agents; imports nothing of the tests.

``trainer.py FOLDER AGENT MODE`` forms a gloo group, notes in ``FOLDER/AGENT`` the agents of the
group by rank, and ends when there is ``FOLDER/stop``. Until then, with MODE ``train``, it takes
steps with the others. With ``idle`` it does nothing with them, so only its agent can find out that
one of them is gone.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist


def main(folder: Path, agent: str, mode: str) -> None:
    dist.init_process_group("gloo")
    names: list[str] = [""] * dist.get_world_size()
    dist.all_gather_object(names, agent)
    assert names[dist.get_rank()] == agent
    with (folder / agent).open("a") as notes:
        notes.write(json.dumps({"pid": os.getpid(), "group": names}) + "\n")
    while not (folder / "stop").exists() and mode == "idle":
        time.sleep(0.1)
    while mode == "train" and not stopped(folder):
        time.sleep(0.05)
    dist.barrier()
    dist.destroy_process_group()


def stopped(folder: Path) -> bool:
    """A step. Whether one of them has seen the end: they all stop after the same step."""
    seen = torch.tensor([float((folder / "stop").exists())])
    dist.all_reduce(seen)
    return bool(seen.item() > 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
