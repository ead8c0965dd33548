# SPDX-License-Identifier: BSD-3-Clause
"""Tests examples/resnet: the network against published numbers, its gradients against PyTorch's
autograd in FP64, and the program with a small size."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import torch

import limber.torch

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/resnet")
sys.path.insert(0, FOLDER)
import resnet       # noqa: E402

SMALL = ["--size", "64", "--width", "8", "--batch", "2", "--classes", "10", "--runs", "1",
         "--threads", "1"]
torch.set_num_threads(1)    # more threads would wait for each other while other tests run


def small(seed=3):
    """A narrow network with two images and their labels."""
    torch.manual_seed(seed)
    return resnet.ResNet18(10, 8), torch.randn(2, 3, 64, 64), torch.randint(10, (2,))


class Network(unittest.TestCase):
    """The network and its layers."""
    def test_published(self):
        """He et al.: 18 layers with weights, apart from the three of the shortcuts, and 1.8e9
        multiply-adds.  The number of parameters is torchvision's."""
        model = resnet.ResNet18()
        self.assertEqual(sum(p.numel() for p in model.parameters()), 11689512)
        layers = resnet.layers_of(model, torch.randn(1, 3, 224, 224), torch.tensor([1]))
        self.assertEqual(sum("past" not in layer.name for layer in layers), 18)
        self.assertEqual(len(layers), 21)
        self.assertEqual(sum(layer.work() for layer in layers), 1814073344)
        self.assertEqual([layer.name for layer in layers if layer.first], ["conv"])

    def test_autograd(self):
        """In FP64 every product is rounded once, so PyTorch's gradients differ only by rounding
        errors."""
        model, images, labels = small()
        model, images = model.double(), images.double()
        made = resnet.step(model, images, labels)
        exact = resnet.gradients(model)
        with limber.torch.inject(model, {"contract": "correct"}):
            again = resnet.step(model, images, labels)
        self.assertLess(resnet.far(again, made), 1e-13)
        self.assertGreater(resnet.far(again, made), 0)
        self.assertLess(resnet.far(resnet.gradients(model), exact), 1e-12)

    def test_layers(self):
        """A layer that is computed alone gives the result that it has in the network."""
        model, images, labels = small()
        layers = resnet.layers_of(model, images, labels)
        for layer in layers:
            made = layer.by_torch("filter")()
            self.assertLess(resnet.far(made, layer.module.weight.grad), 1e-6, layer.name)
            self.assertEqual(layer.by_torch("data")().shape, layer.x.shape, layer.name)
            self.assertEqual(layer.by_torch("forward")().shape, layer.dy.shape, layer.name)


class Program(unittest.TestCase):
    """The program resnet.py."""
    def run_it(self, *options):
        """Runs resnet.py with options."""
        return subprocess.run([sys.executable, os.path.join(FOLDER, "resnet.py"), *options],
                              capture_output=True, text=True)

    def test_ways(self):
        """Every way computes all layers, with errors as large as its arithmetic makes them."""
        with tempfile.TemporaryDirectory() as folder:
            picture = os.path.join(folder, "layers.svg")
            done = self.run_it(*SMALL, "--json", "--picture", picture, "--by",
                               "torch,native,correct,fp32-f,fp32-b,ape,mixed,bits=20,h100-bf16")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(picture) as file:
                bars = re.findall(r"<rect [^>]*><title>([\w=-]+): ", file.read())
            self.assertEqual(set(bars), {"native", "correct", "fp32-f", "fp32-b", "ape", "mixed",
                                         "bits=20", "h100-bf16"})
        ways = {row["by"]: row for row in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(len(ways), 9)
        for by, way in ways.items():
            self.assertEqual(len(way["layers"]), 21)
            least, most = (1e-3, 0.1) if by == "h100-bf16" else (1e-9, 2e-6)
            self.assertTrue(least < way["error"] < 10 * most, (by, way["error"]))
            for row in way["layers"]:
                self.assertEqual("data" in row, row["layer"] != "conv")
                for part in resnet.parts(row):
                    self.assertGreater(part["seconds"], 0)
                    self.assertTrue(0 < part["error"] < most, (by, row))
        for row, plain in zip(ways["correct"]["layers"], ways["torch"]["layers"]):
            for direction in resnet.DIRECTIONS:
                if direction in row:        # the product is rounded once
                    self.assertLess(row[direction]["error"], 2.0 ** -24)
                    self.assertLessEqual(row[direction]["error"], plain[direction]["error"])
        for by, scheme in ("fp32-b", "fp32-b"), ("native", "native"), ("h100-bf16", "simulate"):
            self.assertEqual({part["computed_by"] for row in ways[by]["layers"]
                              for part in resnet.parts(row)}, {scheme})

    def test_table(self):
        done = self.run_it(*SMALL, "--by", "torch,native")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("     4  3x3, 8 to 8, 16x16 ", done.stdout)
        self.assertRegex(done.stdout, r"\nnative +[0-9.]+ +[0-9.]+ +[0-9]+% ")

    def test_bad_options(self):
        for options, words in [(["--by", "torch,h900"], "--by h900: "),
                               (["--batch", "0"], "--batch"), (["--size", "32"], "--size: "),
                               (["--threads", "0"], "--threads"),
                               (["--picture", "x.svg", "--by", "native"], "--by takes two"),
                               (["--picture", "/nowhere/x.svg"], "/nowhere: no such folder")]:
            done = self.run_it(*options)
            self.assertEqual(done.returncode, 2)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
