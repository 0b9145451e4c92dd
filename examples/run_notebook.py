"""Run the cells of a notebook in order, and print what they show.

python examples/run_notebook.py examples/tour.ipynb
"""

from __future__ import annotations

import sys

import nbformat
from nbclient import NotebookClient


def main(file: str) -> None:
    notebook = nbformat.read(file, as_version=4)
    NotebookClient(notebook, timeout=120).execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            print(output.get("text") or output["data"]["text/plain"])


if __name__ == "__main__":
    main(sys.argv[1])
