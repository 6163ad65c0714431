"""Progress is shown in a terminal or a notebook, and nowhere else."""

import io
import sys
from types import SimpleNamespace

import dalembert as da
from dalembert import progress as module
from dalembert.progress import in_notebook, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch):
    """A terminal as stderr; called within a test, because pytest changes stderr between its fixtures and itself."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(module, "EVERY", 0.0)
    return screen


def test_a_terminal_sees_a_line_that_goes_away(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    with progress("simulate", 10) as tell:
        tell(5, "half")
    assert "simulate" in terminal.getvalue()
    assert "50 % half" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_simulations_show_it_when_asked(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    vi = da.MidpointVI(da.models.n_link(2), dt=0.01)
    vi.simulate(vi.state(q=[1.0, 0.5]), steps=3000)
    assert terminal.getvalue() == ""
    vi.simulate(vi.state(q=[1.0, 0.5]), steps=3000, progress=True)
    assert "%" in terminal.getvalue()


def test_a_file_sees_nothing(capsys):
    with progress("simulate", 10) as tell:
        assert tell is None
    assert capsys.readouterr() == ("", "")


def test_a_notebook_sees_a_bar(monkeypatch):
    shown = []

    class Handle:
        def update(self, page):
            shown.append(page)

    def display(page, display_id):
        shown.append(page)
        return Handle()

    fake = SimpleNamespace(
        get_ipython=lambda: SimpleNamespace(kernel=object()), display=SimpleNamespace(HTML=str, display=display)
    )
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", fake.display)
    monkeypatch.setattr(module, "EVERY", 0.0)
    assert in_notebook()
    with progress("optimize") as tell:
        tell(1, "iteration 1 <b>")
    assert "<progress></progress>" in shown[0]
    assert "&lt;b&gt;" in shown[0]
    assert shown[-1] == ""
