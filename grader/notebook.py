"""Reading the code cells of a Jupyter notebook; what of them counts is decided where they are run."""

from __future__ import annotations

import json
import warnings

MAX_CELLS = 2000


class NotANotebook(Exception):
    """Why a file is no notebook that can be read, in words that follow "it"."""


def code_cells(blob: bytes) -> tuple[str, ...]:
    """The text of each code cell, in order; raises `NotANotebook`."""
    # Only here: a notebook is what few submissions are, and the import is what all would wait for.
    import nbformat

    try:
        data = json.loads(blob.decode("utf-8-sig"))
        if not isinstance(data, dict) or not isinstance(data.get("nbformat"), int):
            raise NotANotebook("is no Jupyter notebook")
        with warnings.catch_warnings():
            # Missing ids of cells and the like are no business of a student's.
            warnings.simplefilter("ignore")
            book = nbformat.from_dict(data)
            if data["nbformat"] != 4:
                book = nbformat.convert(book, 4)
        cells = [cell for cell in book.get("cells", []) if cell.get("cell_type") == "code"]
        texts = [source if isinstance(source := cell.get("source", ""), str) else "".join(source) for cell in cells]
    except NotANotebook:
        raise
    except UnicodeDecodeError:
        raise NotANotebook("is not UTF-8") from None
    except RecursionError:
        raise NotANotebook("is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise NotANotebook(f"is no Jupyter notebook (no JSON at line {error.lineno})") from None
    except Exception as error:
        # Whatever the library makes of a file that only looks like a notebook.
        raise NotANotebook(f"cannot be read as a Jupyter notebook ({type(error).__name__})") from None
    if len(texts) > MAX_CELLS:
        raise NotANotebook(f"has more than {MAX_CELLS} code cells")
    return tuple(texts)
