"""The simulated caching allocator: its rules one by one, and random programs."""

import os
import random
import unittest
from unittest import mock

import torch

import fitgpt.torch as ft
from fitgpt.torch.allocator import MIB, Allocator, OutOfMemory, Settings, cublas_workspace_bytes


class Rules(unittest.TestCase):
    def test_small_requests_share_a_segment_of_2_mib(self):
        card = Allocator()
        blocks = [card.allocate(100) for _ in range(4096)]
        self.assertEqual((card.allocated, card.reserved), (2 * MIB, 2 * MIB))
        card.allocate(MIB)
        self.assertEqual(card.reserved, 4 * MIB)
        for block in blocks:
            card.free(block)
        self.assertEqual((card.allocated, card.reserved), (MIB, 4 * MIB))
        card.release_cached()
        self.assertEqual(card.reserved, 2 * MIB)

    def test_requests_below_10_mib_share_a_segment_of_20(self):
        card = Allocator()
        for _ in range(2):
            card.allocate(9 * MIB)
        self.assertEqual((card.allocated, card.reserved), (18 * MIB, 20 * MIB))
        card.allocate(10 * MIB + 512)
        self.assertEqual(card.reserved, 32 * MIB)

    def test_a_rest_of_at_most_1_mib_is_not_split_off_and_counts_as_allocated(self):
        card = Allocator()
        card.allocate(11 * MIB)
        self.assertEqual((card.allocated, card.reserved), (12 * MIB, 12 * MIB))
        card.free(card.allocate(40 * MIB))
        card.allocate(38 * MIB)
        self.assertEqual((card.allocated, card.reserved), (50 * MIB, 52 * MIB))

    def test_the_smallest_block_that_is_large_enough_is_taken(self):
        card = Allocator()
        kept = [card.allocate(size * MIB) for size in (100, 60, 80)]
        for block in kept:
            card.free(block)
        self.assertEqual(card.allocate(70 * MIB).address, kept[2].address)
        self.assertEqual(card.reserved, 240 * MIB)

    def test_freed_neighbours_merge(self):
        card = Allocator()
        big = card.allocate(100 * MIB)
        card.free(big)
        parts = [card.allocate(25 * MIB) for _ in range(4)]
        for index in (1, 3, 2, 0):
            card.free(parts[index])
        card.allocate(100 * MIB)
        self.assertEqual(card.reserved, 100 * MIB)

    def test_a_block_over_the_split_limit_is_not_split(self):
        card = Allocator(Settings(max_split_size_mb=64))
        card.free(card.allocate(100 * MIB))
        card.allocate(30 * MIB)
        self.assertEqual(card.reserved, 130 * MIB)
        card.allocate(90 * MIB)
        self.assertEqual((card.allocated, card.reserved), (130 * MIB, 130 * MIB))

    def test_expandable_segments_use_holes_that_segments_cannot(self):
        sizes = range(20, 400, 40)
        reserved = {}
        for expandable in (False, True):
            card = Allocator(Settings(expandable_segments=expandable))
            for size in sizes:  # a program whose tensor grows
                card.free(card.allocate(size * MIB))
            reserved[expandable] = card.reserved
        self.assertEqual(reserved, {False: sum(sizes) * MIB, True: 380 * MIB})

    def test_a_full_card_gets_the_cache_back_before_it_fails(self):
        card = Allocator(limit=100 * MIB)
        card.free(card.allocate(60 * MIB))
        block = card.allocate(90 * MIB)
        self.assertEqual(card.reserved, 90 * MIB)
        with self.assertRaises(OutOfMemory) as failed:
            card.allocate(20 * MIB)
        self.assertEqual((failed.exception.requested, failed.exception.allocated), (20 * MIB, block.size))

    def test_old_segments_are_collected_above_the_threshold(self):
        card = Allocator(Settings(garbage_collection_threshold=0.5), limit=100 * MIB)
        card.free(card.allocate(30 * MIB))
        kept = card.allocate(40 * MIB)
        card.allocate(50 * MIB)
        self.assertEqual(card.reserved, 90 * MIB)
        self.assertFalse(kept.is_free)

    def test_random_programs_keep_their_books(self):
        for seed in range(60):
            dice = random.Random(seed)
            settings = Settings(dice.random() < 0.5, dice.choice((float("inf"), 32, 200)))
            card, held, asked = Allocator(settings), [], 0
            for _ in range(300):
                if held and dice.random() < 0.5:
                    card.free(held.pop(dice.randrange(len(held))))
                else:
                    held.append(card.allocate(int(2 ** dice.uniform(4, 27))))
                spans = sorted((b.address, b.address + b.size) for b in held)
                for (_, end), (start, _) in zip(spans, spans[1:]):
                    self.assertLessEqual(end, start, f"seed {seed}: two blocks overlap")
                self.assertEqual(card.allocated, sum(b.size for b in held))
                free = sum(b.size for pool in (card.small, card.large) for b in pool.blocks.values())
                self.assertEqual(card.reserved, card.allocated + free)
            for block in held:
                card.free(block)
            self.assertEqual(card.allocated, 0)


class InPretend(unittest.TestCase):
    def test_torch_cuda_answers_what_a_card_would(self):
        with ft.pretend() as m:
            first = torch.empty(11 * MIB, dtype=torch.uint8, device="cuda")
            self.assertEqual(m.bytes, 11 * MIB)
            self.assertEqual(torch.cuda.memory_allocated(), 12 * MIB)
            self.assertEqual(torch.cuda.memory_reserved(), 12 * MIB)
            del first
            self.assertEqual(torch.cuda.memory_allocated(), 0)
            self.assertEqual(torch.cuda.max_memory_allocated(), 12 * MIB)
            torch.cuda.reset_peak_memory_stats()
            self.assertEqual(torch.cuda.max_memory_allocated(), 0)
            self.assertEqual(torch.cuda.memory_reserved(), 12 * MIB)
            torch.cuda.empty_cache()
            self.assertEqual(torch.cuda.memory_reserved(), 0)
        self.assertEqual((m.peak_bytes, m.peak_allocated_bytes), (11 * MIB, 12 * MIB))
        self.assertEqual(m.peak_reserved_bytes, 12 * MIB)

    def test_a_product_takes_a_workspace_in_each_thread(self):
        for capability, workspace in (((8, 9), 8 * MIB + 128 * 1024), ((9, 0), 32 * MIB)):
            with ft.pretend(capability=capability) as m:
                weight = torch.ones(64, 64, device="cuda", requires_grad=True)
                product = weight @ weight
                forward = torch.cuda.memory_allocated()
                product.sum().backward()
                backward = torch.cuda.memory_allocated()
            self.assertEqual(cublas_workspace_bytes(capability), workspace)
            self.assertGreaterEqual(forward, workspace)
            self.assertGreaterEqual(backward, 2 * workspace)
            self.assertLess(m.peak_bytes, MIB)
        for version, workspace in (("2.10.0+cu128", 8 * MIB + 128 * 1024), ("2.15.0", 32 * MIB)):
            with mock.patch.object(torch, "__version__", version):
                self.assertEqual(cublas_workspace_bytes((12, 0)), workspace)

    def test_settings_come_from_the_environment(self):
        conf = "expandable_segments:True,max_split_size_mb:128,backend:native"
        with mock.patch.dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=conf), ft.pretend() as m:
            torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
        self.assertEqual(m.allocator_settings, Settings(True, 128.0))
        self.assertEqual(m.peak_reserved_bytes, 40 * MIB)
        self.assertEqual(m.allocator(expandable_segments=False).peak_reserved, 30 * MIB)
        self.assertIn("backend", " ".join(m.notes))

    def test_a_run_that_fits_only_if_the_cache_is_returned_fits(self):
        with ft.pretend() as m:
            for gib in (5, 6, 7):
                torch.empty(gib << 30, dtype=torch.uint8, device="cuda")
        self.assertEqual(m.peak_reserved_bytes, 18 << 30)
        self.assertEqual(m.allocator(expandable_segments=True).peak_reserved, 7180 * MIB)
        self.assertTrue(m.fits("RTX 4070"))


if __name__ == "__main__":
    unittest.main()
