"""One rank of several, alone: what its collectives keep on the card."""

import contextlib
import unittest

import torch
import torch.distributed as dist
from torch import nn

import fitgpt.torch as ft
from fitgpt.torch import ranks

MIB = 1 << 20


@contextlib.contextmanager
def rank_of(count):
    with ft.pretend("cuda") as m, ranks.alone(m.notes, count):
        dist.init_process_group("nccl")
        yield m


def mebibyte(count=1):
    return torch.zeros(count * MIB // 4, device="cuda")


def train():
    torch.ones(1, device="cuda", requires_grad=True).sum().backward()


class Ranks(unittest.TestCase):
    def test_tensors_stay_until_their_work_is_waited_for(self):
        with rank_of(4):
            before = torch.cuda.memory_allocated()
            kept = mebibyte()
            works = [
                dist.reduce_scatter_tensor(kept, mebibyte(4), async_op=True),
                dist.all_reduce(mebibyte(2), async_op=True),
            ]
            self.assertEqual(torch.cuda.memory_allocated() - before, 7 * MIB)
            works[0].wait()
            self.assertEqual(torch.cuda.memory_allocated() - before, 3 * MIB)
            dist.all_reduce(kept)
            del works
            self.assertEqual(torch.cuda.memory_allocated() - before, 3 * MIB)

    def test_a_future_keeps_them_until_a_collective_of_the_next_step(self):
        with rank_of(4):
            before = torch.cuda.memory_allocated()
            for _ in range(2):
                future = dist.all_reduce(mebibyte(2), async_op=True).get_future()
                torch.futures.collect_all([future]).wait()
                self.assertEqual(torch.cuda.memory_allocated() - before, 2 * MIB)
                train()
                self.assertEqual(torch.cuda.memory_allocated() - before, 2 * MIB)
            dist.barrier()
            dist.all_reduce(torch.ones((), device="cuda"))
            self.assertLess(torch.cuda.memory_allocated() - before, MIB)

    def test_lists_are_sent_through_one_flat_copy(self):
        with rank_of(4) as m:
            one, many = mebibyte(), [mebibyte() for _ in range(4)]
            with m.phase("gather"):
                dist.all_gather(many, one)
            with m.phase("scatter"):
                dist.reduce_scatter(one, many)
        self.assertEqual(m.phases["gather"].peak_bytes, 9 * MIB)
        self.assertEqual(m.phases["scatter"].peak_bytes, 9 * MIB)

    def test_objects_of_other_ranks_are_those_of_this_one(self):
        with rank_of(3):
            things = [None] * 3
            dist.all_gather_object(things, "one")
            self.assertEqual(things, ["one"] * 3)
            self.assertEqual((dist.get_rank(), dist.get_world_size()), (0, 3))
        self.assertFalse(dist.is_initialized())

    def test_fsdp2_divides_what_is_kept_and_gathers_a_block_at_a_time(self):
        from torch.distributed.fsdp import fully_shard

        def train(ranks, shard):
            with rank_of(ranks) as m:
                with m.phase("build"):
                    model = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(8))).to("cuda")
                    for part in (*model, model) if shard else ():
                        fully_shard(part)
                optimizer = torch.optim.AdamW(model.parameters())
                with m.phase("train"):
                    for _ in range(2):
                        model(torch.ones(4, 512, device="cuda")).sum().backward()
                with m.phase("update"):
                    optimizer.step()
            return m

        whole, part = train(4, shard=False), train(4, shard=True)
        for kind in ("parameters", "optimizer state", "gradients"):
            held, divided = (m.by_kind("update").get(kind, 0) for m in (whole, part))
            self.assertAlmostEqual(divided / held, 1 / 4, delta=0.01, msg=kind)
        # Weights of two blocks are gathered at a time, and their gradients with the copy that is sent.
        gathered = part.phases["train"].peak_bytes - part.by_kind("train")["parameters"]
        self.assertLess(gathered, 7 * MIB)
        self.assertGreater(gathered, 3 * MIB)


if __name__ == "__main__":
    unittest.main()
