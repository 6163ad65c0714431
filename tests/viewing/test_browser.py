"""The live viewer and the exported page in a real browser (Debian's chromium, software WebGL)."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import numpy as np
import pytest
from view_samples import cart_pole, closed_chain, everything, pendulum, swinging, tumbling

import dalembert as da
from dalembert.viewing import export_html, view


def wait_for(page: Any, condition: str, seconds: float = 20.0) -> None:
    """Until an expression holds in the page. (Playwright's own wait needs eval, which the page forbids.)"""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"never true: {condition}"
        page.wait_for_timeout(50)


def colourful(page: Any, selector: str) -> np.ndarray:
    """A screenshot of one element as (h, w, 3)."""
    import io

    from PIL import Image

    return np.asarray(
        Image.open(io.BytesIO(page.locator(selector).first.screenshot(timeout=90_000))).convert("RGB"), dtype=int
    )


def open_file(page: Any, path: Any) -> None:
    """Open from the disk, with the network cut."""
    page.context.set_offline(True)
    page.goto(path.as_uri())
    wait_for(page, "!!(window.dalembert && window.dalembert.ready)")


def until(condition: Any, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


# ---- the exported page ----------------------------------------------------------------------------------------------


def test_the_page_plays_from_a_file_without_a_network(page: Any, tmp_path: Any) -> None:
    path = export_html(swinging(closed_chain()), tmp_path / "page.html")
    open_file(page, path)
    wait_for(page, "window.dalembert.time > 0.3")  # it plays by itself
    page.click("#play")
    stopped = page.evaluate("dalembert.time")
    page.wait_for_timeout(300)
    assert page.evaluate("dalembert.time") == stopped
    assert page.inner_text("#play") == "Play"
    page.keyboard.press("Space")
    wait_for(page, f"window.dalembert.time != {stopped}")
    assert page.troubles == []
    assert page.requests_seen == [path.as_uri()]


def test_scrub_step_and_keys(page: Any, tmp_path: Any) -> None:
    open_file(page, export_html(swinging(closed_chain()), tmp_path / "page.html", autoplay=False))
    page.fill("#scrub", "2.0")
    assert page.evaluate("dalembert.time") == pytest.approx(2.0)
    page.click("#step")
    assert page.evaluate("dalembert.time") == pytest.approx(2.02)
    page.click("#back")
    page.click("#back")
    assert page.evaluate("dalembert.time") == pytest.approx(1.98)
    page.keyboard.press("Shift+ArrowRight")
    assert page.evaluate("dalembert.time") == pytest.approx(2.18)
    page.keyboard.press("End")
    assert page.evaluate("dalembert.time") == pytest.approx(4.0)


def test_the_page_turns_balls(page: Any, tmp_path: Any) -> None:
    motion = tumbling()
    model = motion.model
    open_file(page, export_html(motion, tmp_path / "page.html", autoplay=False))
    for k in (50, 137):
        page.evaluate(f"dalembert.go({motion.t[k]})")
        got = np.array(page.evaluate("dalembert.poses(0)")).reshape(-1, 3, 4)
        np.testing.assert_allclose(got, da.poses(model, motion.q[k])[:, :3], atol=1e-5)
    page.evaluate(f"dalembert.go({(motion.t[50] + motion.t[51]) / 2})")  # between samples: still a rotation
    got = np.array(page.evaluate("dalembert.poses(0)")).reshape(-1, 3, 4)
    half = model.integrate(motion.q[50], model.difference(motion.q[50], motion.q[51]) / 2)
    np.testing.assert_allclose(got, da.poses(model, half)[:, :3], atol=1e-5)
    open_file(page, export_html(model, tmp_path / "pose.html"))  # sliders: a rotation vector
    for axis, value in zip("xyz", (0.5, -1.0, 2.0), strict=True):
        page.locator(f'input[aria-label="base.r{axis}"]').fill(str(value))
    got = np.array(page.evaluate("dalembert.poses(0)")).reshape(-1, 3, 4)
    expected = da.poses(model, model.configuration.point({"base": [0.5, -1.0, 2.0]}))
    np.testing.assert_allclose(got, expected[:, :3], atol=1e-5)


def test_the_page_computes_the_same_poses(page: Any, tmp_path: Any) -> None:
    motion = swinging(everything())
    open_file(page, export_html(motion, tmp_path / "page.html", autoplay=False))
    page.evaluate("dalembert.go(1.0)")
    got = np.array(page.evaluate("dalembert.poses(0)")).reshape(-1, 3, 4)
    expected = da.poses(motion.model, motion.q[50])
    assert motion.t[50] == pytest.approx(1.0)
    np.testing.assert_allclose(got, expected[:, :3], atol=1e-5)


def test_the_scene_is_drawn_and_moves(page: Any, tmp_path: Any) -> None:
    open_file(page, export_html(swinging(closed_chain()), tmp_path / "page.html", autoplay=False))
    page.wait_for_timeout(400)
    before = colourful(page, "#gl")
    blue = (before[..., 2] - before[..., 0] > 60).sum()
    assert blue > 500  # seven masses in the first colour
    page.evaluate("dalembert.go(1.3)")
    page.wait_for_timeout(400)
    assert np.abs(colourful(page, "#gl") - before).max(axis=2).mean() > 1.0
    assert page.troubles == []


def test_the_camera_turns_and_comes_back(page: Any, tmp_path: Any) -> None:
    open_file(page, export_html(swinging(closed_chain()), tmp_path / "page.html", autoplay=False))
    home = page.evaluate("[dalembert.cam.yaw, dalembert.cam.pitch, dalembert.cam.distance]")
    page.mouse.move(300, 300)
    page.mouse.down()
    page.mouse.move(400, 340, steps=4)
    page.mouse.up()
    page.mouse.wheel(0, 300)
    wait_for(page, f"dalembert.cam.distance > {home[2]}")
    turned = page.evaluate("[dalembert.cam.yaw, dalembert.cam.pitch]")
    assert abs(turned[0] - home[0]) > 0.5
    assert turned[1] > home[1]
    page.click("#reset")
    assert page.evaluate("[dalembert.cam.yaw, dalembert.cam.pitch, dalembert.cam.distance]") == pytest.approx(home)


def test_plots_show_curves_with_a_cursor(page: Any, tmp_path: Any) -> None:
    open_file(page, export_html(swinging(closed_chain()), tmp_path / "page.html", autoplay=False))
    titles = page.eval_on_selector_all(".plot", "all => all.map(x => x.dataset.title)")
    assert titles == ["Energy", "Constraint violation", "J", "H", "K"]
    page.wait_for_timeout(300)
    image = colourful(page, ".plot canvas")
    assert (image[..., 2] - image[..., 0] > 60).sum() > 150  # the curve
    dark = lambda im: int(np.argmax((im.max(axis=2) < 150).sum(axis=0)))  # noqa: E731  column of the cursor
    first = dark(image)
    page.evaluate("dalembert.go(2.0)")
    page.wait_for_timeout(300)
    moved = colourful(page, ".plot canvas")
    assert dark(moved) - first > 0.3 * image.shape[1]
    # a click into a plot moves the time
    box = page.locator(".plot canvas").first.bounding_box()
    page.mouse.click(box["x"] + box["width"] - 6, box["y"] + 40)
    assert page.evaluate("dalembert.time") == pytest.approx(4.0, abs=0.02)
    # chips choose variables
    page.click("#chips button[data-name=M]")
    assert page.eval_on_selector_all(".plot", "all => all.map(x => x.dataset.title)")[-1] == "M"


def test_any_quantity_can_be_plotted(page: Any, tmp_path: Any) -> None:
    vi = da.MidpointVI(closed_chain(), dt=0.01)
    q0 = da.satisfy_constraints(vi.model, [-0.62, 1.35, 0.1, -1.34, 0.04, 1.28, 0.93])
    motion = vi.simulate(vi.state(q=q0), steps=100)
    force = f"lam.{vi.model.constraints[0]}"
    open_file(page, export_html(motion, tmp_path / "page.html", autoplay=False, variables=["J", "v.J", force, "G"]))
    titles = page.eval_on_selector_all(".plot", "all => all.map(x => x.dataset.title)")
    assert titles[2:] == ["J", "v.J", force, "G.x", "G.y", "G.z"]
    for name in ("v.J", "G.z"):
        np.testing.assert_allclose(page.evaluate("name => dalembert.curve(0, name)", name), motion[name], atol=1e-5)
    np.testing.assert_allclose(page.evaluate("name => dalembert.curve(0, name)", force)[:-1], motion[force], rtol=1e-5)
    page.select_option("#more", "v.H")
    page.click(".plot:last-child header button")  # and away again
    page.select_option("#more", "F.x")
    assert page.evaluate("dalembert.chosen") == ["J", "v.J", force, "G.x", "G.y", "G.z", "F.x"]
    assert page.troubles == []


def test_motors_called_as_their_joints_are_plotted(page: Any, tmp_path: Any) -> None:
    model = da.Model([da.rz("hinge", da.tx(1.0, mass=1.0))], [da.ConfigForce("hinge", input="hinge")])
    vi = da.MidpointVI(model, dt=0.01)
    motion = vi.simulate(vi.state(), steps=50, u=np.sin(np.arange(50.0))[:, None])
    open_file(page, export_html(motion, tmp_path / "page.html", autoplay=False))
    assert page.evaluate("dalembert.chosen") == ["hinge", "u.hinge"]
    np.testing.assert_allclose(page.evaluate("dalembert.curve(0, 'u.hinge')")[:-1], motion.u[:, 0], atol=1e-6)
    np.testing.assert_allclose(page.evaluate("dalembert.curve(0, 'hinge')"), motion["hinge"], atol=1e-6)


def test_a_lost_context_comes_back(page: Any, tmp_path: Any) -> None:
    open_file(page, export_html(swinging(closed_chain()), tmp_path / "page.html", autoplay=False))
    page.wait_for_timeout(400)
    before = colourful(page, "#view")
    page.evaluate("window.lost = dalembert.gl.getExtension('WEBGL_lose_context'); lost.loseContext()")
    wait_for(page, "!dalembert.gl")
    assert "comes back" in page.inner_text("#trouble")
    page.evaluate("dalembert.go(1.0); dalembert.go(0.0)")  # the page goes on without a picture
    page.evaluate("lost.restoreContext()")
    wait_for(page, "!!dalembert.gl")
    page.wait_for_timeout(400)
    np.testing.assert_array_equal(colourful(page, "#view"), before)
    page.evaluate("dalembert.gl.getExtension('WEBGL_lose_context').loseContext()")  # and one that is never given back
    wait_for(page, "!dalembert.gl")
    wait_for(page, "!!dalembert.gl")
    page.wait_for_timeout(400)
    np.testing.assert_array_equal(colourful(page, "#view"), before)
    assert page.troubles == []


def test_names_do_not_lie_on_each_other(page: Any, tmp_path: Any) -> None:
    open_file(page, export_html(swinging(closed_chain()), tmp_path / "page.html", autoplay=False))
    page.keyboard.press("n")
    page.wait_for_timeout(400)
    boxes = page.eval_on_selector_all(
        "#names span",
        "all => all.filter(x => x.style.visibility != 'hidden').map(x => x.getBoundingClientRect())"
        ".map(r => [r.left, r.top, r.right, r.bottom])",
    )
    assert len(boxes) > 8
    for i, (a, b, c, d) in enumerate(boxes):
        for e, f, g, h in boxes[:i]:
            assert c <= e + 1 or g <= a + 1 or d <= f + 1 or h <= b + 1


def test_overlaid_runs_do_not_flicker(page: Any, tmp_path: Any) -> None:
    """Where two runs coincide the later one covers the other entirely."""
    run = swinging(closed_chain())
    open_file(page, export_html([run, run], tmp_path / "page.html", autoplay=False))
    page.wait_for_timeout(400)
    image = colourful(page, "#gl")[110:]  # without the legend
    blue, orange = image[..., 2] - image[..., 0], image[..., 0] - image[..., 2]
    assert (orange > 80).sum() > 500
    assert (blue > 60).sum() < 0.01 * (orange > 80).sum()


def test_keys_and_their_list(page: Any, tmp_path: Any) -> None:
    open_file(page, export_html(swinging(closed_chain()), tmp_path / "page.html", autoplay=False))
    for key, button in (("t", "trails"), ("a", "axes"), ("f", "follow"), ("l", "loop"), ("p", "plots")):
        before = page.get_attribute(f"#{button}", "aria-pressed")
        page.keyboard.press(key)
        assert page.get_attribute(f"#{button}", "aria-pressed") != before
    assert not page.is_visible("#side")
    page.keyboard.press("?")
    assert "one step" in page.inner_text("#help")
    page.keyboard.press("Escape")
    assert not page.is_visible("#help")
    page.keyboard.press("+")
    assert page.input_value("#speed") == "2"


def test_outputs_of_a_notebook_share_the_few_contexts(page: Any, tmp_path: Any) -> None:
    """Twenty pages one under the other, which is more than a browser has contexts: those in sight are drawn, offline."""
    output = swinging(closed_chain())
    frame = da.show(output)._repr_html_()
    sheet = tmp_path / "notebook.html"
    sheet.write_text("<!DOCTYPE html><body>" + 20 * frame)
    page.context.set_offline(True)
    page.goto(sheet.as_uri())
    drawn = "f => f.contentWindow !== null"
    assert page.eval_on_selector_all("iframe", f"all => all.filter({drawn}).length") == 20
    for index in (0, 19, 0):
        page.locator("iframe").nth(index).scroll_into_view_if_needed()
        inside = page.locator("iframe").nth(index).element_handle().content_frame()
        end = time.monotonic() + 20
        while not inside.evaluate("!!(window.dalembert && dalembert.gl)"):
            assert time.monotonic() < end
            page.wait_for_timeout(100)
        page.wait_for_timeout(500)
        image = colourful(page, f"iframe >> nth={index}")
        assert (image[..., 2] - image[..., 0] > 60).sum() > 300
    assert page.troubles == []


def test_several_trajectories_have_a_legend_that_hides_them(page: Any, tmp_path: Any) -> None:
    runs = [swinging(cart_pole(), phase=p) for p in (0.0, 1.5)]
    open_file(page, export_html(runs, tmp_path / "page.html", names=["reference", "closed loop"], autoplay=False))
    assert page.inner_text("#legend").split("\n") == ["reference", "closed loop"]
    page.wait_for_timeout(300)
    orange = lambda im: (im[..., 0] - im[..., 2] > 80).sum()  # noqa: E731
    both = orange(colourful(page, "#gl"))
    page.click("#legend label:nth-child(2)")
    page.wait_for_timeout(300)
    assert orange(colourful(page, "#gl")) < 0.3 * both


def test_a_bare_model_has_sliders(page: Any, tmp_path: Any) -> None:
    open_file(page, export_html(pendulum(), tmp_path / "page.html"))
    page.wait_for_timeout(300)
    before = colourful(page, "#gl")
    page.fill("input[aria-label=theta]", "1.2")
    assert page.evaluate("dalembert.runs[0].now[0]") == pytest.approx(1.2)
    page.wait_for_timeout(300)
    assert np.abs(colourful(page, "#gl") - before).max() > 60
    assert not page.is_visible("#play")


def test_trails_axes_and_names(page: Any, tmp_path: Any) -> None:
    open_file(page, export_html(swinging(everything()), tmp_path / "page.html", autoplay=False))
    page.evaluate("dalembert.go(2.0)")
    page.wait_for_timeout(300)
    plain = colourful(page, "#gl")
    for button in ("#trails", "#axes", "#labels"):
        page.click(button)
    page.wait_for_timeout(300)
    assert np.abs(colourful(page, "#gl") - plain).max(axis=2).astype(bool).sum() > 300
    assert "plumb" in page.inner_text("#names")
    assert page.troubles == []


def test_without_webgl_the_plots_still_work(page: Any, tmp_path: Any) -> None:
    page.add_init_script(
        "const all = HTMLCanvasElement.prototype, get = all.getContext;"
        "all.getContext = function (kind, o) { return kind === 'webgl2' ? null : get.call(this, kind, o); }"
    )
    open_file(page, export_html(swinging(pendulum()), tmp_path / "page.html", autoplay=False))
    page.evaluate("dalembert.go(1.0)")
    page.wait_for_timeout(300)
    assert page.is_visible("#trouble")
    assert (np.ptp(colourful(page, ".plot canvas"), axis=2) > 60).sum() > 100
    assert page.troubles == []


# ---- the live viewer ------------------------------------------------------------------------------------------------


@pytest.fixture
def port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_the_live_page_plays_scrubs_and_plots(page: Any, port: int) -> None:
    runs = [swinging(closed_chain(), seconds=20.0), swinging(closed_chain(), seconds=20.0, phase=0.3)]
    with view(*runs, names=["reference", "closed loop"], port=port, open_browser=False, autoplay=False) as viewer:
        page.set_viewport_size({"width": 700, "height": 400})  # software rendering is slow
        page.goto(viewer.url)
        page.get_by_role("button", name="Play").wait_for(timeout=30_000)
        page.locator(".uplot canvas").first.wait_for(timeout=30_000)
        assert page.locator(".uplot").count() == 5  # energy, violation, three variables
        assert page.get_by_text("closed loop").count() >= 1
        page.wait_for_timeout(500)
        still = colourful(page, "canvas")
        # play and pause from the page
        page.get_by_role("button", name="Play").click()
        assert until(lambda: viewer.time > 0.5)
        page.get_by_role("button", name="Pause").click()
        assert until(lambda: not viewer.playing)
        stopped = viewer.time
        time.sleep(0.3)
        assert viewer.time == stopped
        page.wait_for_timeout(500)
        assert np.abs(colourful(page, "canvas") - still).max(axis=2).mean() > 0.3
        # scrub: type a time into the slider's field
        field = page.locator("input[type=text], input[inputmode]").first
        field.fill("5")
        field.press("Enter")
        assert until(lambda: abs(viewer.time - 5.0) < 0.11), viewer.time
        # step
        page.get_by_role("button", name="▶", exact=True).click()
        assert until(lambda: abs(viewer.time - 5.1) < 0.011 or abs(viewer.time - 5.0) > 0.05), viewer.time
        # from Python
        viewer.time = 2.0
        assert viewer.time == 2.0
        real = [t for t in page.troubles if "favicon" not in t]
        assert real == []
        assert all(url.startswith((viewer.url, "data:", "blob:")) for url in page.requests_seen)


def test_the_live_page_poses_a_model(page: Any, port: int) -> None:
    with view(pendulum(), port=port, open_browser=False) as viewer:
        page.set_viewport_size({"width": 700, "height": 400})
        page.goto(viewer.url)
        page.get_by_text("theta (rad)").wait_for(timeout=30_000)
        field = page.locator("input[type=text], input[inputmode]").first
        field.fill("1.5")
        field.press("Enter")
        bob = np.array([0.0, np.sin(1.5), -np.cos(1.5)])

        def drawn_at_bob() -> bool:
            sent = np.concatenate([handle.batched_positions for handle, _ in viewer._pictures[0]._batches])
            return bool(np.linalg.norm(sent - bob, axis=1).min() < 1e-3)

        assert until(drawn_at_bob)
        assert [t for t in page.troubles if "favicon" not in t] == []


def test_waiting_ends_when_the_page_is_closed(page: Any, port: int) -> None:
    viewer = view(pendulum(), port=port, open_browser=False)
    page.goto(viewer.url)
    page.get_by_text("theta (rad)").wait_for(timeout=30_000)
    assert until(lambda: len(viewer._server.get_clients()) == 1)
    waiting = threading.Thread(target=viewer.wait, args=(0.5,))
    waiting.start()
    time.sleep(0.6)
    assert waiting.is_alive()
    page.close()
    waiting.join(timeout=20)
    assert not waiting.is_alive()


def test_it_listens_on_this_machine_only_and_closes(port: int, capfd: Any) -> None:
    viewer = view(swinging(pendulum()), port=port, open_browser=False)
    assert viewer.url == f"http://127.0.0.1:{port}"
    with socket.create_connection(("127.0.0.1", port), timeout=2):
        pass
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in others:
        if address.startswith("127."):
            continue
        with pytest.raises(OSError):
            socket.create_connection((address, port), timeout=0.5)
    viewer.close()
    viewer.close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=0.5)
    assert capfd.readouterr().out == ""  # a library does not print


def test_a_wrong_variable_starts_no_server(port: int) -> None:
    with pytest.raises(ValueError, match="unknown variable"):
        view(swinging(pendulum()), variables=["phi"], port=port, open_browser=False)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=0.5)
