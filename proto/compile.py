"""Compiles proto/*.proto into the descriptor set that the package ships: `make proto` after a change."""

from __future__ import annotations

import sys
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).parent
OUT = HERE.parent / "src/palaestra/wire/messages.binpb"


def compile_into(out: Path) -> None:
    """Writes the descriptor set of all files. Exits where one is wrong."""
    files = ["any.proto", "communicator.proto", "columns.proto"]
    if status := protoc.main(["protoc", f"-I{HERE}", f"--descriptor_set_out={out}", *files]):
        sys.exit(status)


if __name__ == "__main__":
    compile_into(OUT)
    print(f"wrote {OUT}")
