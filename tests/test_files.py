"""Files are written whole or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dalembert as da
from dalembert.files import replacing


def test_a_good_file_survives_a_bad_write(tmp_path):
    path = tmp_path / "good.txt"
    path.write_text("good")

    def write():
        with replacing(path) as file:
            file.write_text("ha")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write()
    assert path.read_text() == "good"
    assert [p.name for p in tmp_path.iterdir()] == ["good.txt"]  # nothing is left behind


def test_interrupted_writes_leave_nothing(tmp_path):
    def write():
        with replacing(tmp_path / "new.txt") as file:
            file.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert not list(tmp_path.iterdir())


def test_modes_links_and_suffixes_stay(tmp_path):
    path, link = tmp_path / "real.csv", tmp_path / "link.csv"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    with replacing(link) as file:
        assert file.suffix == ".csv"
        assert file.parent == tmp_path
        file.write_text("new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    mask = os.umask(0)
    os.umask(mask)
    with replacing(tmp_path / "fresh.txt") as file:
        file.write_text("x")
    assert (tmp_path / "fresh.txt").stat().st_mode & 0o777 == 0o666 & ~mask


def test_devices_and_missing_folders(tmp_path):
    with replacing("/dev/null") as file:
        file.write_text("nothing")
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "no" / "folder.txt"):
        pass
    with pytest.raises(IsADirectoryError), replacing(tmp_path) as file:
        file.write_text("x")


FULL = """
import resource, signal, sys
from pathlib import Path
import dalembert as da

folder = Path(sys.argv[1])
vi = da.MidpointVI(da.models.load("pendulum"), 0.05)
motion = vi.simulate(vi.state([1.0]), 400)
system = da.System(vi, steps=40)
writers = {
    "model.toml": lambda p: da.save(da.models.n_link(200), p),
    "motion.npz": motion.save,
    "motion.csv": motion.save,
    "page.html": lambda p: da.export_html(motion, p),
    "film.gif": lambda p: da.export_gif(motion, p, size=(160, 120), max_frames=4),
}
for name, write in writers.items():
    write(folder / name)
before = {p.name: p.read_bytes() for p in folder.iterdir()}
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))  # the disk is full after 600 bytes
for name, write in writers.items():
    try:
        write(folder / name)
        print(name, "was written?")
    except OSError:
        pass
print({p.name: p.read_bytes() for p in folder.iterdir()} == before)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of files")
def test_a_full_disk_spoils_no_file(tmp_path):
    env = os.environ | {"PYTHONPATH": str(Path(da.__file__).parents[1]), "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, env=env, check=False
    )
    assert done.stdout == "True\n", done.stderr
