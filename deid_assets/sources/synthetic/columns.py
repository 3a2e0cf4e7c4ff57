"""Columns of text in the files of a synthetic delivery."""

from typing import Final

import numpy as np
import pyarrow as pa

TEXT: Final = pa.dictionary(pa.int32(), pa.string())


def coded(numbers: np.ndarray, texts: pa.Array) -> pa.DictionaryArray:
    """Return numbers into texts as a column of text; negative ones are missing."""
    return pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32), mask=numbers < 0), texts)
