"""Experiment files: an unknown key or a bad value is an error that names it."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from small_runs import tiny_config  # noqa: E402

from sharpdnf.engines.sampling import label as sampling_label  # noqa: E402
from sharpdnf.errors import ConfigError  # noqa: E402
from sharpdnf.learn.config import read_config  # noqa: E402
from sharpdnf.learn.train import train  # noqa: E402


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[run]\nstesp = 3\n", "did you mean run.steps"),
        ("[runn]\nsteps = 3\n", "unknown key runn"),
        ("[[data.mix]]\nwidth = 3\n", "data.mix.width"),
        ("[run]\nsteps = 'many'\n", "must be of type int"),
        ("[run]\nsteps = 0\n", "must be positive"),
        ("[loss]\nkind = 'l2'\n", "loss.kind"),
        ("[hold]\nafter = 9\n", "hold.after must be less than network.iterations, which is 8"),
        ("[hold]\nafter = 7\n", "hold.after needs run.init"),
        ("[hold]\nafter = 7\n[run]\ninit = 'paper'\nbatches = 4\n", "take run.batches out"),
        ("[hold]\nafter = 7\n[run]\ninit = 'paper'\n[data]\nsource = 'sets'\n", "needs data.source"),
        ("[hold]\nbatches = []\n", "hold.batches must be positive"),
        ("[hold]\nformulas = 0\n", "hold.formulas must be positive"),
        ("[[data.mix]]\nvariant = 'text'\n", "variant is mixed or code"),
        ("[dataset]\nvariant = 'program'\n", "dataset.variant"),
        ("[network]\nk = -1\n", "network k"),
        ("[[data.mix]]\nstop = 0.5\n", "nothing to train on at step 500"),
        ("[[data.mix]]\nstop = 0.5\n[[data.mix]]\nstart = 0.6\n", "nothing to train on at step 500"),
        ("[[data.mix]]\nweight = 0\n", "nothing to train on at step 0"),
        ("[[data.mix]]\nstop = 30\n[[data.mix]]\nstart = 31\n", "nothing to train on at step 30"),
        ("[[data.mix]]\nstart = -0.1\n", "start must not be negative"),
        ("[run]\nbatches = []\n", "run.batches must be positive"),
        ("[run]\nbatches = [2, 0]\n", "run.batches must be positive"),
        ("[run]\nbatches = 1.5\n", "run.batches must be of type int"),
        ("[run]\nbatches = [1, 2]\n[data]\nsource = 'sets'\n", "run.batches must be one number"),
        ("[optimizer]\nclip_each = []\n", "clip_each must not be empty"),
        ("[data]\nvalidation_vars = []\n", "validation_vars"),
        ("[optimizer]\nbetas = [0.9, 1.5]\n", "betas"),
        ("[dataset]\nseed = -1\n", "dataset.seed"),
        ("[optimizer]\nrestart_rate = [0.2, 0.0]\n", "restart_rate"),
        ("[optimizer]\nrestart_rate = 'low'\n", "restart_rate must be a list"),
        ("base = 3\n", "base must be the name"),
        ("base = 'bad.toml'\n", "circle"),
        ("base = 'none.toml'\n", "none.toml"),
        ("[run\n", "="),
    ],
)
def test_bad_experiment_files(tmp_path, text, message):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message if message != "=" else None):
        read_config(file)


def test_an_experiment_on_the_base_of_another(tmp_path):
    (tmp_path / "first.toml").write_text("[run]\nsteps = 7\nseed = 3\n[[data.mix]]\nkind = 'hub'\n")
    (tmp_path / "second.toml").write_text("base = 'first.toml'\n[run]\nseed = 4\n[network]\niterations = 2\n")
    (tmp_path / "third.toml").write_text("base = 'second.toml'\n[[data.mix]]\nkind = 'paper'\n")
    second, third = (read_config(tmp_path / f"{name}.toml") for name in ("second", "third"))
    assert (second.run.steps, second.run.seed, second.network.iterations) == (7, 4, 2)
    assert [mix.kind for mix in second.data.mix] == ["hub"]
    assert [mix.kind for mix in third.data.mix] == ["paper"] and third.run.seed == 4
    (tmp_path / "first.toml").write_text("[optimizer]\nrestart_rate = 0.3\n")
    assert read_config(tmp_path / "first.toml").optimizer.restart_rate == (0.3,)


def test_what_a_cycle_has_of_its_own(tmp_path):
    """Numbers of batches and ways of clipping go by cycle, the last one for all that follow; one stands for all."""
    file = tmp_path / "cycles.toml"
    file.write_text("[optimizer]\nrestarts = [10, 20, 30]\nclip_each = [false, true]\n[run]\nbatches = [2, 2, 4]\n")
    config = read_config(file)
    steps = (0, 9, 10, 19, 20, 29, 30, 999)
    assert [config.batches(step) for step in steps] == [2, 2, 2, 2, 4, 4, 4, 4]
    assert [config.clips_each(step) for step in steps] == [False, False] + [True] * 6
    file.write_text("[optimizer]\nrestarts = [10]\nclip_each = true\n[run]\nbatches = 3\n")
    config = read_config(file)
    assert [(config.batches(step), config.clips_each(step)) for step in (0, 10)] == [(3, True)] * 2


def test_missing_experiment_and_device(tmp_path):
    with pytest.raises(ConfigError):
        read_config(tmp_path / "none.toml")
    config = tiny_config()
    with pytest.raises(ConfigError, match=r"run\.device"):
        train(replace(config, run=replace(config.run, device="toaster")), tmp_path, sampling_label)
