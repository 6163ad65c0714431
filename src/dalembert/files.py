"""Files: written whole or not at all; archives of arrays read without trust."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_UNPACKED = 8_000_000_000  # bytes


@contextmanager
def replacing(path: str | PathLike[str]) -> Iterator[Path]:
    """A file to write instead of `path`, which it replaces when all is written: a full disk spoils no good file.

    It stands in the same folder and has the same suffix. When something goes wrong it is removed, and `path` is as it was.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "a.txt")) as file:
    ...         _ = file.write_text("all of it")
    ...     [p.name for p in Path(folder).iterdir()]
    ['a.txt']
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    if target.exists() and not target.is_file():  # a device or a pipe has nothing to lose; a folder is an error
        yield target
        return
    partial = target.with_name(f".{target.stem[:100]}.{secrets.token_hex(4)}{target.suffix}")
    try:
        partial.touch(exist_ok=False)
    except PermissionError:
        if not os.access(target, os.W_OK):
            raise
        yield target  # a file that may be written in a folder that may not
        return
    try:
        if target.exists():
            partial.chmod(target.stat().st_mode & 0o7777)
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())  # on the disk, not only on its way
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def read_npz(
    path: str | PathLike[str], what: str, *names: str, optional: tuple[str, ...] = ()
) -> dict[str, NDArray[Any]]:
    """The named arrays of an .npz file; whatever is wrong with it is a ValueError: "<path> is not <what> (<reason>)".

    Those in `optional` may be missing. Nothing in the file is executed (no pickles), and an archive that unpacks to more than 8 GB is refused.

    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(folder + "/a.npz", t=np.arange(3.0))
    ...     read_npz(folder + "/a.npz", "a table", "t")["t"].tolist()
    [0.0, 1.0, 2.0]
    """
    import struct
    import tokenize
    import zipfile
    import zlib

    import numpy as np

    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MAX_UNPACKED:
                raise ValueError(f"it unpacks to more than {MAX_UNPACKED // 10**9} GB")
        with np.load(path, allow_pickle=False) as data:
            there = (name for name in optional if name in data)
            return {name: data[name] for name in (*names, *there)}
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except (ValueError, LookupError, OSError, EOFError, TypeError, AttributeError, RuntimeError, MemoryError) as error:
        raise ValueError(f"{os.fspath(path)} is not {what} ({error})") from None
    except (zipfile.BadZipFile, zlib.error, struct.error, SyntaxError, tokenize.TokenError) as error:  # damaged
        raise ValueError(f"{os.fspath(path)} is not {what} ({error})") from None
