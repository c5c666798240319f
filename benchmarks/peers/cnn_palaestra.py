"""Palaestra's PPO gradient steps on images. usage: cnn_palaestra.py MINIBATCH THREADS BITS"""

from __future__ import annotations

import sys
from itertools import chain

import torch
from lstm_palaestra import COEFFICIENTS, made, random_rows
from updates import EPOCHS, FEATURES, IMAGE, IMAGES, report

from palaestra.core.specs import ObsSpec
from palaestra.data.rollout import passes


def main(minibatch: int, threads: int, bits: int) -> None:
    torch.set_num_threads(threads)
    network = {"hidden_units": FEATURES, "num_layers": 1, "vis_encode_type": "nature_cnn", "bfloat16": bits == 16}
    trainer = made(ObsSpec("camera", IMAGE), {"shared_critic": True}, network)
    rows, shuffling = (
        random_rows((torch.zeros(IMAGES, 0), torch.rand(IMAGES, *IMAGE))),
        torch.Generator().manual_seed(0),
    )

    def learn() -> None:
        for batch in chain.from_iterable(passes(rows, size=minibatch, epochs=EPOCHS, generator=shuffling)):
            trainer.gradient(batch, COEFFICIENTS)
            torch.nn.utils.clip_grad_norm_(trainer.parameters, 0.5)
            trainer.optimizer.step()

    report("palaestra", learn, EPOCHS * IMAGES, minibatch=minibatch, threads=threads, bits=bits)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
